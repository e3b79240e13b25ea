// SPDX-License-Identifier: Apache-2.0
#include "patterns/kit/collective_bytes.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string_view>

#include "patterns/kit/neighbours.h"
#include "patterns/kit/verify.h"

namespace netpipe::patterns::collectives {
namespace {

enum Counts { even, linear, last };

bool choice(const Part& part, Option option) { return part.options[option].number != 0; }

// What moves where is the same with counts of its own for each rank.
np_collective kind_of(const Part& part) {
  switch (const np_collective op = operation(part)) {
    case NP_GATHERV: return NP_GATHER;
    case NP_SCATTERV: return NP_SCATTER;
    case NP_ALLGATHERV: return NP_ALLGATHER;
    case NP_ALLTOALLV:
    case NP_ALLTOALLW: return NP_ALLTOALL;
    case NP_REDUCE_SCATTER: return NP_REDUCE_SCATTER_BLOCK;
    case NP_NEIGHBOR_ALLGATHERV: return NP_NEIGHBOR_ALLGATHER;
    case NP_NEIGHBOR_ALLTOALLV:
    case NP_NEIGHBOR_ALLTOALLW: return NP_NEIGHBOR_ALLTOALL;
    default: return op;
  }
}
bool told_each(const Part& part) { return kind_of(part) != operation(part); }
bool sums(np_collective kind) {
  return kind == NP_REDUCE || kind == NP_ALLREDUCE || kind == NP_REDUCE_SCATTER_BLOCK || kind == NP_SCAN ||
         kind == NP_EXSCAN;
}
// Whether it is told what its elements are.
bool has_elements(np_collective kind) { return sums(kind) || kind == NP_ALLTOALLS; }
bool has_root(np_collective kind) {
  return kind == NP_BCAST || kind == NP_REDUCE || kind == NP_GATHER || kind == NP_SCATTER;
}
bool at_root_only(np_collective kind) { return kind == NP_REDUCE || kind == NP_GATHER; }
bool of_neighbours(np_collective kind) { return kind == NP_NEIGHBOR_ALLGATHER || kind == NP_NEIGHBOR_ALLTOALL; }
std::size_t dimensions(const Part& part) { return static_cast<std::size_t>(part.options[dims].number) + 1; }
bool is_graph(const Part& part) { return choice(part, topology); }
// Of a graph: how many ranks each rank sends to.
std::size_t degree_of(const Part& part) {
  const std::int64_t usual = std::min(2, part.nranks - 1);
  return static_cast<std::size_t>(choice(part, degree) ? part.options[degree].number : usual);
}
std::size_t neighbours_of(const Part& part) { return is_graph(part) ? degree_of(part) : 2 * dimensions(part); }
std::uint64_t stride_of(const Part& part) { return static_cast<std::uint64_t>(part.options[stride].number); }

// Whether this rank has its contribution in the target of the i-th operation.
bool is_in_place(const Part& part, std::uint64_t i) {
  return choice(part, in_place) && (!has_root(kind_of(part)) || part.rank == root_of(part, i));
}

constexpr std::array<np_datatype, 4> datatypes{NP_DOUBLE, NP_FLOAT, NP_INT64, NP_INT32};
np_datatype type_of(const Part& part) { return datatypes[static_cast<std::size_t>(part.options[datatype].number)]; }
np_reduction reduction_of(const Part& part) { return static_cast<np_reduction>(part.options[reduction].number); }
bool is_bitwise(np_reduction how) { return how == NP_AND || how == NP_OR || how == NP_XOR; }

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
  if (!has_elements(kind_of(part))) return 1;
  return with_type(part, [](auto zero) { return sizeof zero; });
}

// Elements of one rank: what it contributes to one other, of a scatter what it gets. All ranks together have as many
// as with even counts.
std::uint64_t share(const Part& part, int rank) {
  const std::uint64_t each = part.size_bytes / element_bytes(part);
  const auto above = static_cast<std::uint64_t>(part.nranks - 1);
  const auto at = static_cast<std::uint64_t>(rank);
  switch (told_each(part) ? part.options[counts].number : std::int64_t{even}) {
    case linear:
      if (above == 0 || 2 * at == above) return each;
      return 2 * at < above ? 2 * each * at / above : 2 * each - 2 * each * (above - at) / above;
    case last: return at == above ? each * static_cast<std::uint64_t>(part.nranks) : 0;
    default: return each;
  }
}
std::uint64_t shares_before(const Part& part, int rank) {
  std::uint64_t sum = 0;
  for (int other = 0; other < rank; ++other) sum += share(part, other);
  return sum;
}

// What goes to, or comes from, one rank: bytes from the beginning of the place.
struct Block {
  std::uint64_t at, bytes;
  int rank;
};

std::vector<Block> of_each_neighbour(const Part& part, bool receives) {
  std::vector<Block> all;
  const std::vector<int> ranks = is_graph(part) ? graph::neighbours(part.rank, part.nranks, degree_of(part), receives)
                                                : grid::neighbours(part.rank, part.nranks, dimensions(part));
  std::uint64_t at = 0;
  for (const int rank : ranks) {
    const std::uint64_t bytes = share(part, receives ? rank : part.rank);
    all.push_back({at, bytes, rank});
    at += bytes;
  }
  return all;
}

// One after another for every rank. as_of: what it has is the share of this rank; -1: of its own.
std::vector<Block> of_each_rank(const Part& part, int as_of) {
  std::vector<Block> all;
  std::uint64_t at = 0;
  for (int rank = 0; rank < part.nranks; ++rank) {
    const std::uint64_t bytes = share(part, as_of < 0 ? rank : as_of);
    all.push_back({at, bytes, rank});
    at += bytes;
  }
  return all;
}

// What this rank contributes; of a scatter, if it were the root. For all alike: rank 0.
std::vector<Block> blocks_out(const Part& part) {
  switch (kind_of(part)) {
    case NP_NEIGHBOR_ALLTOALL: return of_each_neighbour(part, false);
    case NP_SCATTER: return of_each_rank(part, -1);
    case NP_ALLTOALL: return of_each_rank(part, part.rank);
    default: return {{0, share(part, part.rank), 0}};
  }
}

// What it gets, of a gather, if it were the root.
std::vector<Block> blocks_in(const Part& part, int from_root) {
  switch (kind_of(part)) {
    case NP_NEIGHBOR_ALLGATHER:
    case NP_NEIGHBOR_ALLTOALL: return of_each_neighbour(part, true);
    case NP_GATHER:
    case NP_ALLGATHER:
    case NP_ALLTOALL: return of_each_rank(part, -1);
    default: return {{0, share(part, part.rank), from_root}};
  }
}

// Whole numbers, small enough that whatever becomes of them is exact in every datatype: sums of 16,000 ranks in a
// float, and products of any number of 1 and -1. Of `and` each rank clears one bit, of `or` it sets one, so that what
// a rank has contributed shows however many ranks there are.
double number_of(const Part& part, std::uint64_t seed, std::uint64_t i, int rank, std::uint64_t k) {
  constexpr std::uint64_t bits = 20, all_bits = (1ULL << bits) - 1;
  const std::uint64_t any = message_seed(seed, i, rank, k);
  switch (reduction_of(part)) {
    case NP_PROD: return (any & 1U) != 0 ? 1 : -1;
    case NP_AND: return static_cast<double>(all_bits ^ (1ULL << (any % bits)));
    case NP_OR: return static_cast<double>(1ULL << (any % bits));
    case NP_XOR: return static_cast<double>(any & all_bits);
    default: break;
  }
  return static_cast<double>(any >> (type_of(part) == NP_DOUBLE || type_of(part) == NP_INT64 ? 44U : 54U));
}

double reduced_by_bits(np_reduction how, std::uint64_t a, std::uint64_t b) {
  return static_cast<double>(how == NP_AND ? a & b : how == NP_OR ? a | b : a ^ b);
}

double reduced(np_reduction how, double a, double b) {
  if (is_bitwise(how)) return reduced_by_bits(how, static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b));
  switch (how) {
    case NP_MIN: return std::min(a, b);
    case NP_MAX: return std::max(a, b);
    case NP_PROD: return a * b;
    default: return a + b;
  }
}

// The block that rank `from` has for rank `to`; where it is the same for all, `to` is 0.
std::uint64_t block_seed(std::uint64_t seed, std::uint64_t i, int from, int to) {
  return message_seed(seed, i, from, static_cast<std::uint64_t>(to));
}

// What the place of the i-th operation holds before.
std::uint64_t spoiled_seed(const Part& part, std::uint64_t seed, std::uint64_t i) {
  return block_seed(seed, i, part.nranks, 0);
}

// Of alltoalls: where each element of the block of this rank lies, in the block and in the place, as offsets in bytes.
template <typename Do>
void each_element(const Part& part, int rank, const Do& do_it) {
  const std::uint64_t bytes = element_bytes(part);
  const std::uint64_t count = part.size_bytes / bytes;
  const std::uint64_t first = static_cast<std::uint64_t>(rank) * count;
  for (std::uint64_t k = 0; k < count; ++k) do_it(k * bytes, (first + k) * stride_of(part) * bytes, bytes);
}

void fill_apart(const Part& part, std::uint64_t seed, std::uint64_t i, char* out) {
  std::vector<char> block(part.size_bytes);
  for (int rank = 0; rank < part.nranks; ++rank) {
    netpipe::fill(block.data(), block.size(), block_seed(seed, i, part.rank, rank));
    each_element(part, rank, [&](std::uint64_t at, std::uint64_t apart, std::uint64_t bytes) {
      std::memcpy(out + apart, block.data() + at, bytes);
    });
  }
}

// The elements, and that nothing was written between them.
std::string check_apart(const Part& part, std::uint64_t seed, std::uint64_t i, const char* in) {
  std::vector<char> block(part.size_bytes);
  std::vector<char> place(place_bytes(part));
  spoil(place.data(), place.size(), spoiled_seed(part, seed, i));
  for (int rank = 0; rank < part.nranks; ++rank) {
    each_element(part, rank, [&](std::uint64_t at, std::uint64_t apart, std::uint64_t bytes) {
      std::memcpy(block.data() + at, in + apart, bytes);
      std::memcpy(place.data() + apart, in + apart, bytes);
    });
    if (const auto wrong = first_difference(block.data(), block.size(), block_seed(seed, i, rank, part.rank))) {
      return "has a wrong byte " + std::to_string(*wrong) + " in the elements that rank " + std::to_string(rank) +
             " contributed";
    }
  }
  if (std::equal(place.begin(), place.end(), in)) return {};
  return "has bytes between its elements that should not have been written";
}

// Numbers that a rank contributes to a reduction.
std::uint64_t numbers(const Part& part) {
  if (kind_of(part) == NP_REDUCE_SCATTER_BLOCK) return shares_before(part, part.nranks);
  return part.size_bytes / element_bytes(part);
}

void fill_numbers(const Part& part, std::uint64_t seed, std::uint64_t i, char* out) {
  with_type(part, [&](auto zero) {
    const std::uint64_t all = numbers(part);
    for (std::uint64_t k = 0; k < all; ++k) {
      const auto value = static_cast<decltype(zero)>(number_of(part, seed, i, part.rank, k));
      std::memcpy(out + k * sizeof value, &value, sizeof value);
    }
  });
}

// Where a rank's own contribution lies in the target of an operation in place.
void fill_in_place(const Part& part, std::uint64_t seed, std::uint64_t i, char* in) {
  if (kind_of(part) == NP_ALLTOALL) {
    for (const Block& one : blocks_out(part)) {
      netpipe::fill(in + one.at, one.bytes, block_seed(seed, i, part.rank, one.rank));
    }
    return;
  }
  for (const Block& one : blocks_in(part, part.rank)) {
    if (one.rank == part.rank) netpipe::fill(in + one.at, one.bytes, block_seed(seed, i, part.rank, 0));
  }
}

std::string check_numbers(const Part& part, std::uint64_t seed, std::uint64_t i, const char* in) {
  const np_collective kind = kind_of(part);
  const bool scatters = kind == NP_REDUCE_SCATTER_BLOCK;
  const std::uint64_t count = scatters ? share(part, part.rank) : numbers(part);
  const std::uint64_t from = scatters ? shares_before(part, part.rank) : 0;
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

// Whether there is nothing to look at: no rank has a result, or this one has none.
bool without_result(const Part& part, std::uint64_t i) {
  const np_collective kind = kind_of(part);
  const bool is_root = part.rank == root_of(part, i);
  if (kind == NP_BARRIER || (at_root_only(kind) && !is_root) || (kind == NP_BCAST && is_root)) return true;
  if (kind == NP_SCATTER && is_in_place(part, i)) return true;  // its own part stays where it is
  return kind == NP_EXSCAN && part.rank == 0;                   // MPI leaves it open
}

std::string unfit_in_place(const Part& part) {
  const np_collective kind = kind_of(part);
  if (!choice(part, in_place)) return {};
  if (kind == NP_BCAST || kind == NP_BARRIER || kind == NP_ALLTOALLS || of_neighbours(kind)) {
    return "has nothing to be in place: MPI_IN_PLACE is not for this operation";
  }
  if (kind == NP_ALLTOALL && choice(part, counts)) {
    return "cannot be in place with these counts: what a rank sends is not as much as what takes its place";
  }
  return {};
}

std::string unfit_elements(const Part& part) {
  const np_collective kind = kind_of(part);
  const bool lacks = (choice(part, datatype) && !has_elements(kind)) || (choice(part, reduction) && !sums(kind));
  if (lacks) return "reduces nothing: datatype and reduction are for reductions, and datatype for alltoalls too";
  const bool whole = type_of(part) == NP_INT64 || type_of(part) == NP_INT32;
  if (is_bitwise(reduction_of(part)) && !whole) {
    return "has a bitwise reduction: choose datatype=int64 or datatype=int32";
  }
  if (kind == NP_ALLTOALLS || part.options[stride].text == std::string_view(default_stride)) return {};
  return "moves contiguous bytes: stride is for alltoalls";
}

std::string unfit_neighbours(const Part& part) {
  const bool chosen = choice(part, dims) || is_graph(part) || choice(part, degree);
  if (!chosen) return {};
  if (!of_neighbours(kind_of(part))) {
    return "has no neighbours: dims, topology and degree are for the operations whose names begin with neighbor_";
  }
  if (!is_graph(part)) {
    if (choice(part, degree)) return "has the neighbours of a grid: degree is for topology=graph";
    return grid::lack(part.nranks, dimensions(part));
  }
  if (choice(part, dims)) return "has the neighbours of a graph: dims is for topology=grid";
  return graph::lack(part.nranks, degree_of(part));
}

// Of a plan: which ranks are neighbours.
std::uint32_t neighbours_in_plan(const Part& part) {
  if (!of_neighbours(kind_of(part))) return 0;
  return static_cast<std::uint32_t>(is_graph(part) ? NP_GRAPH + degree_of(part) : dimensions(part));
}

}  // namespace

double degree_of_graph(const Part& part) {
  if (!of_neighbours(kind_of(part)) || !is_graph(part)) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(degree_of(part));
}

np_collective operation(const Part& part) { return static_cast<np_collective>(part.options[what].number); }
bool rotates(const Part& part) { return choice(part, rotate); }

int root_of(const Part& part, std::uint64_t i) {
  const auto turns = rotates(part) ? i % static_cast<std::uint64_t>(part.nranks) : 0;
  return static_cast<int>((static_cast<std::uint64_t>(part.options[root].number) + turns) %
                          static_cast<std::uint64_t>(part.nranks));
}

std::string unfit(const Part& part, const Layer&) {
  const np_collective kind = kind_of(part);
  if (rotates(part) && !has_root(kind)) return "has no root that could rotate";
  if (std::string lack = unfit_elements(part); !lack.empty()) return lack;
  if (choice(part, counts) && !told_each(part)) {
    return "has the same count for all ranks: counts is for operations with v or w, and for reduce_scatter";
  }
  if (std::string lack = unfit_neighbours(part); !lack.empty()) return lack;
  return unfit_in_place(part);
}

const char* missing(const Layer& m, int) {
  return m.np_collectives::prepare == nullptr ? "collective operations" : nullptr;
}

std::uint64_t unit_bytes(const Part& part) { return element_bytes(part); }
bool sizeless(const Part& part) { return operation(part) == NP_BARRIER; }

// As much as the rank with most to send or to receive needs.
std::uint64_t place_bytes(const Part& part) {
  const np_collective kind = kind_of(part);
  const auto ranks = static_cast<std::uint64_t>(part.nranks);
  constexpr std::uint64_t most = 1ULL << 62;
  std::uint64_t blocks = 1;
  if (of_neighbours(kind)) blocks = neighbours_of(part);
  if (kind == NP_ALLTOALLS) blocks = ranks * stride_of(part);
  if (kind == NP_GATHER || kind == NP_ALLGATHER || kind == NP_SCATTER || kind == NP_ALLTOALL ||
      kind == NP_REDUCE_SCATTER_BLOCK) {
    blocks = ranks;
  }
  const std::int64_t distribution = told_each(part) ? part.options[counts].number : std::int64_t{even};
  const bool several = kind == NP_ALLTOALL || of_neighbours(kind);  // blocks of the rank that has most
  if (several && distribution == linear) blocks *= 2;
  if (several && distribution == last) blocks *= ranks;
  return part.size_bytes > most / blocks ? most : part.size_bytes * blocks;
}

void fill(const Part& part, std::uint64_t seed, std::uint64_t i, char* out, char* in) {
  const bool here = is_in_place(part, i);
  const np_collective kind = kind_of(part);
  spoil(in, place_bytes(part), spoiled_seed(part, seed, i));
  if (kind == NP_ALLTOALLS) return fill_apart(part, seed, i, out);
  if (sums(kind)) return fill_numbers(part, seed, i, here ? in : out);
  if (here && kind != NP_SCATTER) return fill_in_place(part, seed, i, in);
  for (const Block& one : blocks_out(part)) {
    netpipe::fill(out + one.at, one.bytes, block_seed(seed, i, part.rank, one.rank));
  }
}

std::string check(const Part& part, std::uint64_t seed, std::uint64_t i, const char* in) {
  if (without_result(part, i)) return {};
  const np_collective kind = kind_of(part);
  if (sums(kind)) return check_numbers(part, seed, i, in);
  if (kind == NP_ALLTOALLS) return check_apart(part, seed, i, in);
  const bool meant_for_me = kind == NP_ALLTOALL || kind == NP_SCATTER || kind == NP_NEIGHBOR_ALLTOALL;
  for (const Block& one : blocks_in(part, root_of(part, i))) {
    const std::uint64_t expected = block_seed(seed, i, one.rank, meant_for_me ? part.rank : 0);
    if (const auto wrong = first_difference(in + one.at, one.bytes, expected)) {
      return "has a wrong byte " + std::to_string(*wrong) + " in what rank " + std::to_string(one.rank) +
             " contributed";
    }
  }
  return {};
}

np_status prepared(const Stage& s, const Prepared& operation, const char* name) {
  if (operation.status() == NP_UNSUPPORTED && s.message[0] == '\0') {
    std::snprintf(s.message.data(), s.message.size(), "it has no %s", name);
  }
  return operation.status();
}

Operations::Operations(const Stage& s, bool with_request) {
  const np_collective kind = kind_of(s);
  if (told_each(s) && choice(s, counts)) {
    for (int rank = 0; rank < s.nranks; ++rank) counts_.push_back(share(s, rank));
  }
  if (of_neighbours(kind) && !is_graph(s) && choice(s, dims)) {
    const grid::Extents extents = grid::extents(s.nranks, dimensions(s));
    extents_.assign(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(dimensions(s)));
  }
  const std::uint64_t* const extents = extents_.empty() ? nullptr : extents_.data();
  for (int i = 0; i < (rotates(s) ? s.nranks : 1); ++i) {
    const auto turn = static_cast<std::uint64_t>(i);
    all_.push_back(std::make_unique<const Prepared>(
        s, np_collective_plan{.what = static_cast<std::uint32_t>(operation(s)),
                              .datatype = static_cast<std::uint32_t>(has_elements(kind) ? type_of(s) : NP_BYTE),
                              .reduction = static_cast<std::uint32_t>(reduction_of(s)),
                              .root = root_of(s, turn),
                              .in_place = is_in_place(s, turn) ? 1U : 0U,
                              .requests = with_request ? 1U : 0U,
                              .dims = neighbours_in_plan(s),
                              .count = s.size_bytes / element_bytes(s),
                              .counts = counts_.empty() ? (told_each(s) ? nullptr : extents) : counts_.data(),
                              .stride = stride_of(s),
                              .extents = extents}));
  }
}

np_status Operations::status(const Stage& s) const {
  for (const auto& one : all_) {
    if (const np_status status = prepared(s, *one, s.options[what].text); status != NP_OK) return status;
  }
  return NP_OK;
}

}  // namespace netpipe::patterns::collectives
