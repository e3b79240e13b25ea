// SPDX-License-Identifier: Apache-2.0
// Many pairs of ranks at once, all begun at one moment: what the middle of a network carries, and which pair is slow.
//
//     time of one operation = from the first start to the end of the slowest pair, per message of a pair
//     throughput = size_bytes x pairs at once x directions / that time: of all pairs together
//     time of a pair = from the start of its first rank to the end of its last
//
// traffic=pingpong: one message of a pair is under way at a time, and an operation is half a round trip. traffic=both:
// one each way at once, and both directions are counted.
//
// pairing=halves: rank r with r + n/2, so that all messages cross the middle (bisection). pairing=neighbours: 2k with
// 2k + 1. pairing=all: a round-robin tournament (circle method): in n - 1 steps, n where n is odd, every rank meets
// every other once; the time is the mean over the steps, each of which has its own slowest pair. together=no: the pairs
// have the network for themselves, one after another, and the time is the mean over the pairs.
//
// How the ranks of a step begin at one moment: agreed_start.h.
#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "patterns/kit/agreed_start.h"
#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

enum Option { pairing, traffic, together };
enum Pairing { halves, neighbours, all };
constexpr std::array<np_option, 3> options{{
    {"pairing", NP_CHOICE, "halves", 0, 0, "halves|neighbours|all", "", "which ranks are pairs", 0},
    {"traffic", NP_CHOICE, "pingpong", 0, 0, "pingpong|both", "", "in turn, or in both directions at once", 0},
    {"together", NP_BOOL, "yes", 0, 1, nullptr, "", "all pairs at once, or one after another", 0},
}};

constexpr std::array<Measure, 4> measures{{
    {"imbalance", "1", "time of the slowest pair over that of the median pair"},
    {"start_skew", "ns", "from the agreed start to the real start of the last rank", Worse::neither},
    {"clock_error", "ns", "how far the clocks of the ranks may be apart", Worse::neither},
    {"pair_mean", "ns", "mean over the pairs of their own times of one operation"},
}};

bool everybody(const Part& part) { return part.options[pairing].number == all; }
bool both(const Part& part) { return part.options[traffic].number != 0; }
bool at_once(const Part& part) { return part.options[together].number != 0; }

// Ranks that all meet each other: 523,776 pairs. The point of a size has a line with the time of each, and readers take
// lines of 64 MiB (docs/reference/scaling.md).
constexpr int most_of_all = 1024;

std::string unfit(const Part& part, const Layer& m) {
  if (everybody(part) && part.nranks > most_of_all) {
    return "takes at most " + std::to_string(most_of_all) + " ranks with pairing=all, there are " +
           std::to_string(part.nranks);
  }
  if (!everybody(part) && part.nranks % 2 != 0) {
    return "needs a multiple of 2 ranks, there are " + std::to_string(part.nranks);
  }
  if (both(part) && m.isend == nullptr) return "needs isend and irecv, which module " + std::string(m.name) + " lacks";
  return {};
}

// ------------------------------------------------------------------------------------------------- who meets whom

int steps(const Part& part) { return everybody(part) ? part.nranks - 1 + part.nranks % 2 : 1; }
int pairs_of_step(const Part& part) { return part.nranks / 2; }
int partners(const Part& part) { return everybody(part) ? part.nranks - 1 : 1; }
std::uint32_t pairs_in_all(const Part& part) {
  return static_cast<std::uint32_t>(steps(part)) * static_cast<std::uint32_t>(pairs_of_step(part));
}

// The other one of `rank` in a step, or -1 where it sits out. Of a tournament of m + 1 players two below m meet in the
// step that is their sum modulo m; whose own double that is meets player m, who is nobody where the ranks are odd.
int opponent(const Part& part, int rank, int step) {
  const int n = part.nranks;
  if (part.options[pairing].number == halves) return rank < n / 2 ? rank + n / 2 : rank - n / 2;
  if (part.options[pairing].number == neighbours) return rank ^ 1;
  const int m = steps(part);
  if (rank == m) return static_cast<int>(std::int64_t{step} * ((m + 1) / 2) % m);
  const int other = (step - rank + m) % m;
  if (other != rank) return other;
  return m < n ? m : -1;
}

// The step in which two ranks meet, and how many opponents `rank` has met before it.
int step_of(const Part& part, int a, int b) {
  if (!everybody(part)) return 0;
  const int m = steps(part);
  if (a == m || b == m) return 2 * std::min(a, b) % m;
  return (a + b) % m;
}

int met_before(const Part& part, int rank, int step) {
  const int m = steps(part);
  const bool sat_out = everybody(part) && m == part.nranks && 2 * rank % m < step;
  return step - (sat_out ? 1 : 0);
}

// The i-th opponent of a rank.
int opponent_at(const Part& part, int rank, int i) {
  const bool has_sat_out = met_before(part, rank, i + 1) == i;
  return opponent(part, rank, has_sat_out ? i + 1 : i);
}

// Each place is that of one message of one round with one opponent, in whatever order they are used.
Origin origin(const Part& part, std::uint64_t i) {
  const auto many = static_cast<std::uint64_t>(partners(part));
  const int from = opponent_at(part, part.rank, static_cast<int>(i % many));
  const int mine = met_before(part, from, step_of(part, part.rank, from));
  return {from, i / many * many + static_cast<std::uint64_t>(mine)};
}

// Cells: the pairs by their lower ranks, and within these by their higher ones.
std::uint32_t cell_of(const Part& part, int low, int high) {
  if (part.options[pairing].number == halves) return static_cast<std::uint32_t>(low);
  if (part.options[pairing].number == neighbours) return static_cast<std::uint32_t>(low / 2);
  const auto a = static_cast<std::uint64_t>(low);
  const auto before = a * static_cast<std::uint64_t>(part.nranks) - a * (a + 1) / 2;
  return static_cast<std::uint32_t>(before + static_cast<std::uint64_t>(high - low - 1));
}

Cell cell(const Part& part, std::uint32_t i) {
  if (part.options[pairing].number == halves) return {static_cast<int>(i), static_cast<int>(i) + part.nranks / 2};
  if (part.options[pairing].number == neighbours) return {static_cast<int>(2 * i), static_cast<int>(2 * i + 1)};
  // The last rank whose cells begin at or before this one.
  int low = 0;
  for (int beyond = part.nranks - 1; beyond - low > 1;) {
    const int middle = low + (beyond - low) / 2;
    (cell_of(part, middle, middle + 1) <= i ? low : beyond) = middle;
  }
  return {low, low + 1 + static_cast<int>(i - cell_of(part, low, low + 1))};
}

// ------------------------------------------------------------------------------------------------- what is timed

np_status bounce(Stage& s, int peer, char* out, char* in) {
  const Layer& m = s.module;
  const bool first = s.rank < peer;
  np_status status = NP_OK;
  if (first) status = m.send(s.endpoint, peer, out, s.size_bytes);
  if (status == NP_OK) status = m.recv(s.endpoint, peer, in, s.size_bytes);
  if (!first && status == NP_OK) status = m.send(s.endpoint, peer, out, s.size_bytes);
  return status;
}

np_status exchange(Stage& s, int peer, char* out, char* in) {
  const Layer& m = s.module;
  np_status status = m.irecv(s.endpoint, peer, in, 0, s.size_bytes, &s.requests[0], 1);
  if (status == NP_OK) status = m.isend(s.endpoint, peer, out, 0, s.size_bytes, &s.requests[1], 1);
  return status == NP_OK ? m.wait(s.endpoint, s.requests, 2) : status;
}

// What each rank notes of a sample: how its clocks may differ and how long all of it lasted, then of each step, from
// the agreed moment on, when it began and when it ended.
enum Note { clock_error, whole, of_steps };

// One step of all ranks, or of one pair of it: this rank's part, where it has one. place: of its first message.
np_status meet(Stage& s, int peer, std::uint64_t rounds, std::uint64_t place, Start& next, std::int64_t* to) {
  if (const np_status status = start_together(s, next, agreed_start::by_messages); status != NP_OK) return status;
  ++*s.progress;
  if (peer >= 0) {
    const auto many = static_cast<std::uint32_t>(partners(s));
    const bool exchanges = both(s);
    np_status status = NP_OK;
    to[0] = now_ns() - next.moment;
    for (std::uint64_t round = 0; round < rounds && status == NP_OK; ++round) {
      if (many > 1) {  // rounds with others come between those of this step
        s.outgoing.rewind(static_cast<std::uint32_t>(place + round * many));
        s.incoming.rewind(static_cast<std::uint32_t>(place + round * many));
      }
      char* const out = s.outgoing.take();
      char* const in = s.incoming.take();
      status = exchanges ? exchange(s, peer, out, in) : bounce(s, peer, out, in);
    }
    to[1] = now_ns() - next.moment;
    if (status != NP_OK) return status;
  }
  ++*s.progress;
  return NP_OK;
}

np_status tournament(Stage& s, std::uint64_t rounds, std::uint64_t place, Start& next, std::int64_t* to) {
  const bool one_by_one = !at_once(s);
  for (int step = 0; step < steps(s); ++step, to += 2) {
    const int peer = opponent(s, s.rank, step);
    const std::uint64_t first = place + static_cast<std::uint64_t>(met_before(s, s.rank, step));
    if (!one_by_one) {
      if (const np_status status = meet(s, peer, rounds, first, next, to); status != NP_OK) return status;
      continue;
    }
    for (int low = 0; low < s.nranks; ++low) {
      const int high = opponent(s, low, step);
      if (high < low) continue;
      const bool mine = low == s.rank || high == s.rank;
      const np_status status = meet(s, mine ? peer : -1, rounds, first, next, to);
      if (status != NP_OK) return status;
    }
  }
  return NP_OK;
}

std::uint64_t notes(const Part& part, std::uint64_t) { return of_steps + 2 * static_cast<std::uint64_t>(steps(part)); }

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  const auto many = static_cast<std::uint64_t>(partners(s));
  std::uint64_t place = s.incoming.next();
  Start next;
  // The first message between two ranks may make their connection.
  if (const np_status status = tournament(s, 1, place, next, to + of_steps); status != NP_OK) return status;
  place += many;
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    const std::int64_t here = now_ns();
    if (const np_status status = tournament(s, rounds, place, next, to + of_steps); status != NP_OK) return status;
    place += rounds * many;
    to[clock_error] = s.clock_error_ns;
    to[whole] = now_ns() - here;
    to += notes(s, rounds);
  }
  return NP_OK;
}

std::uint32_t operations(const Part& part) {
  const std::uint32_t turns = at_once(part) ? static_cast<std::uint32_t>(steps(part)) : pairs_in_all(part);
  return turns * (both(part) ? 1 : 2);
}

void evaluate(const Part& part, std::uint64_t rounds, Notes of, Reading& reading) {
  const double turns = at_once(part) ? steps(part) : pairs_in_all(part);
  double sum = 0;
  std::int64_t skew = 0;
  for (int step = 0; step < steps(part); ++step) {
    const auto at = of_steps + 2 * static_cast<std::size_t>(step);
    std::int64_t first = INT64_MAX;
    std::int64_t last = 0;
    for (int low = 0; low < part.nranks; ++low) {
      const int high = opponent(part, low, step);
      if (high < low) continue;
      const std::span<const std::int64_t> one = of[static_cast<std::size_t>(low)];
      const std::span<const std::int64_t> other = of[static_cast<std::size_t>(high)];
      const std::int64_t begin = std::min(one[at], other[at]);
      const std::int64_t end = std::max(one[at + 1], other[at + 1]);
      const auto pair_ns = static_cast<double>(end - begin);
      skew = std::max({skew, one[at], other[at]});
      first = std::min(first, begin);
      last = std::max(last, end);
      if (!at_once(part)) sum += pair_ns;
      // A pair has one turn, and its time will be divided by the operations of all.
      reading.cells[cell_of(part, low, high)] = pair_ns * turns;
    }
    if (at_once(part)) sum += static_cast<double>(last - first);
  }
  reading.ns = sum;
  reading.span_ns = static_cast<double>(of[0][whole]);
  std::int64_t error = 0;
  for (const std::span<const std::int64_t> own : of) error = std::max(error, own[clock_error]);
  std::vector<double> sorted(reading.cells.begin(), reading.cells.end());
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[(sorted.size() - 1) / 2];  // of two the faster one
  reading.measures[0] = median > 0 ? sorted.back() / median : 1;
  reading.measures[1] = static_cast<double>(skew);
  reading.measures[2] = static_cast<double>(error);
  reading.measures[3] = std::accumulate(sorted.begin(), sorted.end(), 0.0) /
                        (static_cast<double>(sorted.size()) * static_cast<double>(rounds) * operations(part));
}

// A short sample would be all start; a long one is bounded by what its messages take.
std::uint64_t fewest_rounds(const Part& part) {
  constexpr std::uint64_t enough_bytes = 256 << 10;
  const std::uint64_t round_bytes =
      std::max<std::uint64_t>(part.size_bytes, 1) * static_cast<std::uint64_t>(partners(part));
  return std::clamp<std::uint64_t>(enough_bytes / round_bytes, 1, 8);
}

std::uint32_t messages(const Part& part) { return static_cast<std::uint32_t>(partners(part)); }

}  // namespace

extern const Pattern pairs;
const Pattern pairs = {
    .name = "pairs",
    .summary = "many pairs that start together; the slowest pair counts",
    .formula =
        "time of one operation = first start to the end of the slowest pair, per message of a pair; "
        "throughput = size_bytes x pairs at once x directions / that time",
    .source = "Turner, Oline, Chen, Benjegerdes: Integrating New Capabilities into NetPIPE (2003), sections 2 and 6",
    .options = options,
    .operations = operations,
    .messages_per_operation =
        [](const Part& part) {
          return (at_once(part) ? static_cast<std::uint32_t>(pairs_of_step(part)) : 1U) * (both(part) ? 2 : 1);
        },
    .extra_rounds = [](const Part&) { return 1U; },
    .arrivals = messages,
    .departures = messages,
    .origin = origin,
    .requests = [](const Part&, std::uint64_t) { return std::uint64_t{2}; },
    .fewest_rounds = fewest_rounds,
    .single_rounds = true,
    .one_buffer = false,
    .notes = notes,
    .every_rank = true,
    .synchronised = true,
    .evaluate = evaluate,
    .measures = measures,
    .cells = pairs_in_all,
    .cell = cell,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .missing = without_messages,
    .unfit = unfit,
    .run = run,
};

}  // namespace netpipe::patterns
