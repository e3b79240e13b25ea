// SPDX-License-Identifier: Apache-2.0
// A collective operation of all ranks, begun by all at one moment; what counts is when the last one comes out of it.
//
//     time of one operation = the latest end of any rank - the moment that all agreed to begin at
//     throughput = size_bytes / that time, where size_bytes is what one rank contributes to one other, as in MPI
//
// How all begin at one moment: agreed_start.h. Each rank notes when it really began, and when it was done.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "patterns/kit/agreed_start.h"
#include "patterns/kit/pattern.h"
#include "patterns/kit/verify.h"

namespace netpipe::patterns {
namespace {

enum Option { what, call, root, rotate, datatype, reduction };
constexpr const char* names =  // of np_collective, in its order
    "bcast|reduce|allreduce|gather|allgather|scatter|reduce_scatter|reduce_scatter_block|alltoall|scan|exscan|gatherv|"
    "scatterv|allgatherv|alltoallv|alltoallw|neighbor_allgather|neighbor_alltoall|barrier";
constexpr std::array<np_option, 6> options{{
    {"what", NP_CHOICE, "allreduce", 0, 0, names, "", "which operation", 0},
    {"call", NP_CHOICE, "blocking", 0, 0, "blocking|request", "",
     "start the operation and wait for it in one call, or in separate calls (request)", 0},
    {"root", NP_INT, "0", 0, 1 << 20, nullptr, "", "the rank that sends, or receives, for all", 0},
    {"rotate", NP_BOOL, "no", 0, 1, nullptr, "", "each operation has the next rank as its root", 0},
    {"datatype", NP_CHOICE, "double", 0, 0, "double|float|int64|int32", "", "of a reduction: what is reduced", 0},
    {"reduction", NP_CHOICE, "sum", 0, 0, "sum|min|max|prod", "", "of a reduction: what becomes of it", 0},
}};

constexpr std::array<Measure, 4> measures{{
    {"start_skew", "ns", "from the agreed start to the real start of the last rank"},
    {"clock_error", "ns", "how far the clocks of the ranks may be apart"},
    {"first_out", "ns", "when the rank that ended first was done"},
    {"rank_mean", "ns", "mean over the ranks of the time from a rank's own start to its own end"},
}};

// What each rank notes of a sample, in ns from the agreed moment on; whole: of all of it, with the agreement.
enum Note { began, ended, clock_error, whole, notes };

np_collective operation(const Part& part) { return static_cast<np_collective>(part.options[what].number); }
bool rotates(const Part& part) { return part.options[rotate].number != 0; }
// Of the i-th operation.
int root_of(const Part& part, std::uint64_t i) {
  const auto turns = rotates(part) ? i % static_cast<std::uint64_t>(part.nranks) : 0;
  return static_cast<int>((static_cast<std::uint64_t>(part.options[root].number) + turns) %
                          static_cast<std::uint64_t>(part.nranks));
}

// What moves where is the same with counts of its own for each rank.
np_collective kind_of(const Part& part) {
  switch (const np_collective op = operation(part)) {
    case NP_GATHERV: return NP_GATHER;
    case NP_SCATTERV: return NP_SCATTER;
    case NP_ALLGATHERV: return NP_ALLGATHER;
    case NP_ALLTOALLV:
    case NP_ALLTOALLW: return NP_ALLTOALL;
    case NP_REDUCE_SCATTER: return NP_REDUCE_SCATTER_BLOCK;
    default: return op;
  }
}
bool sums(np_collective kind) {
  return kind == NP_REDUCE || kind == NP_ALLREDUCE || kind == NP_REDUCE_SCATTER_BLOCK || kind == NP_SCAN ||
         kind == NP_EXSCAN;
}
bool has_root(np_collective kind) {
  return kind == NP_BCAST || kind == NP_REDUCE || kind == NP_GATHER || kind == NP_SCATTER;
}
bool at_root_only(np_collective kind) { return kind == NP_REDUCE || kind == NP_GATHER; }

// In how many blocks, one for or from each other rank, lies what this rank contributes and what it gets; 0: in one.
int apart_out(const Part& part) {
  const np_collective kind = kind_of(part);
  if (kind == NP_NEIGHBOR_ALLTOALL) return 2;
  return kind == NP_SCATTER || kind == NP_ALLTOALL || kind == NP_REDUCE_SCATTER_BLOCK ? part.nranks : 0;
}
int apart_in(const Part& part) {
  const np_collective kind = kind_of(part);
  if (kind == NP_NEIGHBOR_ALLGATHER || kind == NP_NEIGHBOR_ALLTOALL) return 2;
  return kind == NP_GATHER || kind == NP_ALLGATHER || kind == NP_ALLTOALL ? part.nranks : 0;
}

// The rank that block number b is for, or from.
int other_of(const Part& part, int b) {
  const np_collective kind = kind_of(part);
  if (kind != NP_NEIGHBOR_ALLGATHER && kind != NP_NEIGHBOR_ALLTOALL) return b;
  return (part.rank + (b == 0 ? part.nranks - 1 : 1)) % part.nranks;
}

constexpr std::array<np_datatype, 4> datatypes{NP_DOUBLE, NP_FLOAT, NP_INT64, NP_INT32};
np_datatype type_of(const Part& part) { return datatypes[static_cast<std::size_t>(part.options[datatype].number)]; }
np_reduction reduction_of(const Part& part) { return static_cast<np_reduction>(part.options[reduction].number); }

// do_it(value of the datatype).
template <typename Do>
auto with_type(const Part& part, const Do& do_it) {
  switch (type_of(part)) {
    case NP_FLOAT: return do_it(float{});
    case NP_INT64: return do_it(std::int64_t{});
    case NP_INT32: return do_it(std::int32_t{});
    default: return do_it(double{});
  }
}
std::size_t element_bytes(const Part& part) {
  if (!sums(kind_of(part))) return 1;
  return with_type(part, [](auto zero) { return sizeof zero; });
}

std::string unfit(const Part& part, const Layer&) {
  if (rotates(part) && !has_root(kind_of(part))) return "has no root that could rotate";
  const bool chosen = part.options[datatype].number != 0 || part.options[reduction].number != 0;
  if (chosen && !sums(kind_of(part))) return "reduces nothing: datatype and reduction are for reductions";
  return {};
}

const char* missing(const Layer& m, int) {
  return m.np_collectives::prepare == nullptr ? "collective operations" : nullptr;
}

// What preparing came to, with a sentence unless the module has left one.
np_status prepared(const Stage& s, const Prepared& operation, const char* name) {
  if (operation.status() == NP_UNSUPPORTED && s.message[0] == '\0') {
    std::snprintf(s.message.data(), s.message.size(), "it has no %s", name);
  }
  return operation.status();
}

np_collective_plan plan_of(const Stage& s, std::uint64_t i) {
  return {.what = static_cast<std::uint32_t>(operation(s)),
          .datatype = static_cast<std::uint32_t>(sums(kind_of(s)) ? type_of(s) : NP_BYTE),
          .reduction = static_cast<std::uint32_t>(reduction_of(s)),
          .root = root_of(s, i),
          .requests = s.options[call].number != 0 ? 1U : 0U,
          .count = s.size_bytes / element_bytes(s)};
}

constexpr std::uint64_t warm_up_rounds = 8;  // until they know how far ahead all can begin

np_status run(Stage& s, std::uint64_t samples, std::uint64_t, std::int64_t* to) {
  // One for each root.
  std::vector<std::unique_ptr<const Prepared>> operations;
  for (int i = 0; i < (rotates(s) ? s.nranks : 1); ++i) {
    operations.push_back(std::make_unique<const Prepared>(s, plan_of(s, static_cast<std::uint64_t>(i))));
  }
  const agreed_start::ByCollectives agree(s);
  constexpr const char* agreement = "allreduce and bcast, by which all agree to begin";
  np_status status = NP_OK;
  for (const auto& one : operations) {
    if (status == NP_OK) status = prepared(s, *one, s.options[what].text);
  }
  if (status == NP_OK) status = prepared(s, agree.sum, agreement);
  if (status == NP_OK) status = prepared(s, agree.tell, agreement);
  if (status != NP_OK) return status;
  np_request* const request = s.options[call].number != 0 ? s.requests : nullptr;
  Start next;
  for (std::uint64_t i = 0; i < samples + warm_up_rounds; ++i) {
    const std::int64_t here = now_ns();
    const char* const source = s.outgoing.take();
    char* const target = s.incoming.take();
    const Prepared& carry_out = *operations[i % operations.size()];
    ++*s.progress;
    status = start_together(s, next, agree);
    if (status != NP_OK) return status;
    status = carry_out(source, target, request);
    if (request != nullptr && status == NP_OK) status = s.module.wait(s.endpoint, request, 1);
    const std::int64_t end = now_ns();
    if (status != NP_OK) return status;
    ++*s.progress;
    if (i < warm_up_rounds) continue;
    to[began] = next.begun - next.moment;
    to[ended] = end - next.moment;
    to[clock_error] = s.clock_error_ns;
    to[whole] = end - here;
    to += notes;
  }
  return NP_OK;
}

void evaluate(const Part& part, std::uint64_t, Notes of, Reading& reading) {
  std::int64_t last = 0;
  std::int64_t first = INT64_MAX;
  std::int64_t skew = 0;
  std::int64_t error = 0;
  double sum = 0;
  for (int rank = 0; rank < part.nranks; ++rank) {
    const std::span<const std::int64_t> own = of[static_cast<std::size_t>(rank)];
    sum += static_cast<double>(own[ended] - own[began]);
    last = std::max(last, own[ended]);
    first = std::min(first, own[ended]);
    skew = std::max(skew, own[began]);
    error = std::max(error, own[clock_error]);
    reading.cells[static_cast<std::size_t>(rank)] = static_cast<double>(own[ended]);
  }
  reading.ns = static_cast<double>(last);
  reading.span_ns = static_cast<double>(of[0][whole]);
  reading.measures[0] = static_cast<double>(skew);
  reading.measures[1] = static_cast<double>(error);
  reading.measures[2] = static_cast<double>(first);
  reading.measures[3] = sum / part.nranks;
}

// ------------------------------------------------------------------------------------------------- verification

// Whole numbers, small enough that whatever becomes of them is exact in every datatype: sums of 16,000 ranks in a
// float, and products of any number of 1 and -1.
double number_of(const Part& part, std::uint64_t seed, std::uint64_t i, int rank, std::uint64_t k) {
  const std::uint64_t any = message_seed(seed, i, rank, k);
  if (reduction_of(part) == NP_PROD) return (any & 1U) != 0 ? 1 : -1;
  return static_cast<double>(any >> (type_of(part) == NP_DOUBLE || type_of(part) == NP_INT64 ? 44U : 54U));
}

double reduced(np_reduction how, double a, double b) {
  switch (how) {
    case NP_MIN: return std::min(a, b);
    case NP_MAX: return std::max(a, b);
    case NP_PROD: return a * b;
    default: return a + b;
  }
}

// The block that rank `from` has for rank `to`; where it is the same for all, `to` is 0.
std::uint64_t block(std::uint64_t seed, std::uint64_t i, int from, int to) {
  return message_seed(seed, i, from, static_cast<std::uint64_t>(to));
}

std::uint64_t place_bytes(const Part& part) {
  const auto blocks = static_cast<std::uint64_t>(std::max({apart_out(part), apart_in(part), 1}));
  constexpr std::uint64_t most = 1ULL << 62;
  return part.size_bytes > most / blocks ? most : part.size_bytes * blocks;
}

void fill_round(const Part& part, std::uint64_t seed, std::uint64_t i, char* out, char* in) {
  const std::uint64_t bytes = part.size_bytes;
  spoil(in, place_bytes(part), block(seed, i, part.nranks, 0));
  const int blocks = std::max(apart_out(part), 1);
  if (sums(kind_of(part))) {
    with_type(part, [&](auto zero) {
      for (std::uint64_t k = 0; k < bytes / sizeof zero * static_cast<std::uint64_t>(blocks); ++k) {
        const auto value = static_cast<decltype(zero)>(number_of(part, seed, i, part.rank, k));
        std::memcpy(out + k * sizeof value, &value, sizeof value);
      }
    });
    return;
  }
  const bool each = apart_out(part) > 0;
  for (int b = 0; b < blocks; ++b) {
    const int to = each ? other_of(part, b) : 0;
    netpipe::fill(out + bytes * static_cast<std::uint64_t>(b), bytes, block(seed, i, part.rank, to));
  }
}

std::string check_numbers(const Part& part, std::uint64_t seed, std::uint64_t i, const char* in) {
  const np_collective kind = kind_of(part);
  const std::uint64_t count = part.size_bytes / element_bytes(part);
  const std::uint64_t from = kind == NP_REDUCE_SCATTER_BLOCK ? count * static_cast<std::uint64_t>(part.rank) : 0;
  const int ranks = kind == NP_SCAN ? part.rank + 1 : kind == NP_EXSCAN ? part.rank : part.nranks;
  return with_type(part, [&](auto got) -> std::string {
    for (std::uint64_t k = 0; k < count; ++k) {
      double expected = number_of(part, seed, i, 0, from + k);
      for (int rank = 1; rank < ranks; ++rank) {
        expected = reduced(reduction_of(part), expected, number_of(part, seed, i, rank, from + k));
      }
      std::memcpy(&got, in + k * sizeof got, sizeof got);
      if (static_cast<double>(got) != expected) {
        return std::string("has a wrong ") + part.options[reduction].text + " in element " + std::to_string(k) + ": " +
               std::to_string(got) + " instead of " + std::to_string(expected);
      }
    }
    return {};
  });
}

std::string check_round(const Part& part, std::uint64_t seed, std::uint64_t i, const char* in) {
  const np_collective kind = kind_of(part);
  const bool is_root = part.rank == root_of(part, i);
  if (kind == NP_BARRIER || (at_root_only(kind) && !is_root) || (kind == NP_BCAST && is_root)) return {};
  if (kind == NP_EXSCAN && part.rank == 0) return {};  // MPI leaves it open
  if (sums(kind)) return check_numbers(part, seed, i, in);
  const bool each = apart_in(part) > 0;
  const bool meant_for_me = kind == NP_ALLTOALL || kind == NP_SCATTER || kind == NP_NEIGHBOR_ALLTOALL;
  for (int b = 0; b < std::max(apart_in(part), 1); ++b) {
    const int from = each ? other_of(part, b) : root_of(part, i);
    const char* const place = in + part.size_bytes * static_cast<std::uint64_t>(b);
    const std::uint64_t expected = block(seed, i, from, meant_for_me ? part.rank : 0);
    if (const auto wrong = first_difference(place, part.size_bytes, expected)) {
      return "has a wrong byte " + std::to_string(*wrong) + " in what rank " + std::to_string(from) + " contributed";
    }
  }
  return {};
}

std::uint32_t one(const Part&) { return 1; }

}  // namespace

extern const Pattern collective;
const Pattern collective = {
    .name = "collective",
    .summary = "a collective operation that all ranks start together; the slowest rank counts",
    .formula =
        "time of one operation = latest end of any rank - agreed start; throughput = size_bytes / that time, "
        "size_bytes: from one rank for one other",
    .source =
        "Liu et al.: Performance Comparison of MPI Implementations over InfiniBand, Myrinet and Quadrics (2003), "
        "section 3.7; Hunold and Carpen-Amarie: Reproducible MPI Benchmarking Is Still Not As Easy As You Think (2016)",
    .options = options,
    .operations = one,
    .messages_per_operation = [](const Part& part) { return operation(part) == NP_BARRIER ? 0U : 1U; },
    .extra_rounds = [](const Part&) { return static_cast<std::uint32_t>(warm_up_rounds); },
    .arrivals = one,
    .departures = one,
    .place_bytes = place_bytes,
    .unit_bytes = [](const Part& part) { return std::uint64_t{element_bytes(part)}; },
    .sizeless = [](const Part& part) { return operation(part) == NP_BARRIER; },
    .requests = [](const Part&, std::uint64_t) { return std::uint64_t{1}; },
    .most_rounds = [](const Part&) { return std::uint64_t{1}; },
    .single_rounds = true,
    .one_buffer = false,
    .notes = [](const Part&, std::uint64_t) { return std::uint64_t{notes}; },
    .every_rank = true,
    .synchronised = true,
    .uses = NP_USES_COLLECTIVES,
    .evaluate = evaluate,
    .measures = measures,
    .cells = [](const Part& part) { return static_cast<std::uint32_t>(part.nranks); },
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .missing = missing,
    .unfit = unfit,
    .fill = fill_round,
    .check = check_round,
    .run = run,
};

}  // namespace netpipe::patterns
