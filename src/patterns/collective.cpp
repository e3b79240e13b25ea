// SPDX-License-Identifier: Apache-2.0
// A collective operation of all ranks, begun by all at one moment; what counts is when the last one comes out of it.
//
//     time of one operation = the latest end of any rank - the moment that all agreed to begin at
//     throughput = size_bytes / that time, where size_bytes is what one rank contributes to one other, as in MPI
//
// How all begin at one moment: agreed_start.h. Each rank notes when it really began, and when it was done.
// With start=barrier each begins when a barrier lets it go, as in the OSU and Intel MPI benchmarks, whose number is
// rank_mean. Then the earliest start takes the place of the moment, which nobody agreed to.
// What moves where, and whether it has arrived: kit/collective_bytes.h.
#include <algorithm>
#include <array>
#include <optional>

#include "patterns/kit/agreed_start.h"
#include "patterns/kit/collective_bytes.h"
#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

constexpr std::size_t start = collectives::options;  // the option after those that all such patterns have
constexpr auto options = [] {
  constexpr auto common =
      collectives::options_with({"call", NP_CHOICE, "blocking", 0, 0, "blocking|request", "",
                                 "start the operation and wait for it in one call, or in separate calls (request)", 1});
  std::array<np_option, start + 1> all{};
  std::copy(common.begin(), common.end(), all.begin());
  all[start] = {"start",
                NP_CHOICE,
                "agreed",
                0,
                0,
                "agreed|barrier",
                "",
                "all ranks begin at an agreed moment, or each when a barrier lets it go, as in the OSU and Intel MPI "
                "benchmarks",
                0};  // the time begins elsewhere
  return all;
}();
bool with_request(const Part& part) { return part.options[collectives::own].number != 0; }
bool after_barrier(const Part& part) { return part.options[start].number != 0; }

constexpr std::array<Measure, 5> measures{{
    {"start_skew", "ns", "from the agreed start, or the first after a barrier, to the real start of the last rank",
     Worse::neither},
    {"clock_error", "ns", "how far the clocks of the ranks may be apart", Worse::neither},
    {"first_out", "ns", "when the rank that ended first was done"},
    {"rank_mean", "ns", "mean over the ranks of the time from a rank's own start to its own end"},
    {"degree", "1", "of a graph of neighbours: how many ranks each rank sends to", Worse::neither},
}};

// What each rank notes of a sample, in ns from the agreed moment on, after a barrier from the zero of rank 0's clock
// on; whole: of all of it, with what comes before the start.
enum Note { began, ended, clock_error, whole, notes };

constexpr std::uint64_t warm_up_rounds = 8;  // until they know how far ahead all can begin

np_status run(Stage& s, std::uint64_t samples, std::uint64_t, std::int64_t* to) {
  const collectives::Operations operations(s, with_request(s));
  std::optional<agreed_start::ByCollectives> agree;
  std::optional<Prepared> barrier;
  np_status status = operations.status(s);
  if (after_barrier(s)) {
    barrier.emplace(s, np_collective_plan{.what = NP_BARRIER});
    if (status == NP_OK) status = collectives::prepared(s, *barrier, "barrier, after which each rank begins");
  } else {
    constexpr const char* agreement = "allreduce and bcast, by which all agree to begin";
    agree.emplace(s);
    if (status == NP_OK) status = collectives::prepared(s, agree->sum, agreement);
    if (status == NP_OK) status = collectives::prepared(s, agree->tell, agreement);
  }
  if (status != NP_OK) return status;
  np_request* const request = with_request(s) ? s.requests : nullptr;
  Start next;
  for (std::uint64_t i = 0; i < samples + warm_up_rounds; ++i) {
    const std::int64_t here = now_ns();
    const char* const source = s.outgoing.take();
    char* const target = s.incoming.take();
    const Prepared& carry_out = operations.at(i);
    ++*s.progress;
    if (barrier) {
      status = (*barrier)(s.token_out, s.token_in);
      next.moment = -s.clock_offset_ns;  // the zero of rank 0's clock, by the own one
      next.begun = now_ns();
    } else {
      status = start_together(s, next, *agree);
    }
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
  std::int64_t zero = 0;
  if (after_barrier(part)) {
    zero = of[0][began];
    for (int rank = 1; rank < part.nranks; ++rank) zero = std::min(zero, of[static_cast<std::size_t>(rank)][began]);
  }
  std::int64_t last = 0;
  std::int64_t first = INT64_MAX;
  std::int64_t skew = 0;
  std::int64_t error = 0;
  double sum = 0;
  for (int rank = 0; rank < part.nranks; ++rank) {
    const std::span<const std::int64_t> own = of[static_cast<std::size_t>(rank)];
    sum += static_cast<double>(own[ended] - own[began]);
    last = std::max(last, own[ended] - zero);
    first = std::min(first, own[ended] - zero);
    skew = std::max(skew, own[began] - zero);
    error = std::max(error, own[clock_error]);
    reading.cells[static_cast<std::size_t>(rank)] = static_cast<double>(own[ended] - zero);
  }
  reading.ns = static_cast<double>(last);
  reading.span_ns = static_cast<double>(of[0][whole]);
  reading.measures[0] = static_cast<double>(skew);
  reading.measures[1] = static_cast<double>(error);
  reading.measures[2] = static_cast<double>(first);
  reading.measures[3] = sum / part.nranks;
  reading.measures[4] = collectives::degree_of_graph(part);
}

std::uint32_t one(const Part&) { return 1; }

}  // namespace

extern const Pattern collective;
const Pattern collective = {
    .name = "collective",
    .summary = "a collective operation that all ranks start together; the slowest rank counts",
    .formula =
        "time of one operation = latest end of any rank - agreed start (start=barrier: - the earliest start); "
        "throughput = size_bytes / that time, size_bytes: from one rank for one other",
    .source =
        "Liu et al.: Performance Comparison of MPI Implementations over InfiniBand, Myrinet and Quadrics (2003), "
        "section 3.7; Hunold and Carpen-Amarie: Reproducible MPI Benchmarking Is Still Not As Easy As You Think (2016)",
    .options = options,
    .operations = one,
    .messages_per_operation = [](const Part& part) { return collectives::sizeless(part) ? 0U : 1U; },
    .extra_rounds = [](const Part&) { return static_cast<std::uint32_t>(warm_up_rounds); },
    .arrivals = one,
    .departures = one,
    .place_bytes = collectives::place_bytes,
    .unit_bytes = collectives::unit_bytes,
    .sizeless = collectives::sizeless,
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
    .missing = collectives::missing,
    .unfit = collectives::unfit,
    .fill = collectives::fill,
    .check = collectives::check,
    .run = run,
};

}  // namespace netpipe::patterns
