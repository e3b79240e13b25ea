// SPDX-License-Identifier: Apache-2.0
// How much computation fits behind a communication without making it longer.
//
// A sample has three parts, one right after another, so that all see the same machine, each of `rounds` repetitions:
//
//     exchange       A: post the receive, start the send, wait for both
//     computation    C: a set amount of work, about twice as long as the exchange
//     together       B: post the receive, start the send, the same work, wait for both
//
//     time of one operation = A        overlap = A + C - B        fraction = overlap / A
//
// Why no search is needed: let t_a of the exchange go on by itself and t_b only inside of the calls, A = t_a + t_b.
// With a computation of length c between posting and waiting it takes T(c) = max(t_a, c) + t_b. So the longest
// computation that does not lengthen the communication, Liu et al.'s potential of overlap, is t_a; and one that is
// certainly longer, as C > A >= t_a, gives B = C + t_b, from which A + C - B = t_a. What the layer adds to the
// computation (a thread of its own on the same processor) counts against it. Nothing is clamped: where there is no
// overlap, single samples lie on either side of 0.
//
// by=search: the model is wrong where it matters when calls are made: a helper that steps in after a while carries the
// exchange through a long computation and not through a short one. So it is searched for as Liu et al. define it.
// Beside the three parts above a sample has
//
//     noise       pairs of two exchanges without work: tolerance = 2.5 x the median of how far the two are apart, and
//                 at least 1 % of A
//     bisection   of work from 0 to 1.25 A, in 7 steps. Each has 5 pairs of an exchange without and one with the work,
//                 one right after the other and every other pair the other way round; the work lengthens the exchange
//                 if the median of the differences is above the tolerance
//
//     overlap = the middle of what is left, 1 % of A wide
//
// Where a longer computation adds all of its length, overlap comes out too long by the tolerance, which is a measure of
// its own, and so is what the model says of the same sample. Both ranks' times of an exchange count, by their mean.
//
// computes=both: the two ranks exchange a message and both compute, as neighbours in a simulation do. Of C and B the
// longer of their times counts, because neither goes on alone; of A the mean: when one begins so much later, the other
// one's exchange is longer by that and its own shorter. computes=one: as in the paper, the first rank starts a receive
// and a send, computes and waits, the other one only answers; the exchange is then a whole round trip, and the answer's
// way and the other rank's calls can be hidden as well.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/ready.h"
#include "patterns/kit/longest.h"
#include "patterns/kit/pattern.h"
#include "patterns/kit/work.h"

namespace netpipe::patterns {
namespace {

enum Option { computes, by };
constexpr std::array<np_option, 2> options{{
    {"computes", NP_CHOICE, "both", 0, 0, "both|one", "", "which ranks of a pair compute", 0},
    {"by", NP_CHOICE, "model", 0, 0, "model|search", "",
     "how overlap is found: from one long computation, or by search for the longest that does not lengthen the "
     "exchange",
     0},
}};

constexpr std::array<Measure, 7> measures{{
    {"overlap", "ns", "the longest computation that does not lengthen the exchange", Worse::less},
    {"fraction", "1", "the same, as a fraction of the exchange's time", Worse::less},
    {"computation", "ns", "time of the computation alone", Worse::neither},
    {"together", "ns", "exchange and work together"},
    {"exposed", "ns", "time that the exchange adds to the computation"},
    {"modelled", "ns", "by=search: overlap as by=model finds it in the same sample", Worse::less},
    {"tolerance", "ns", "by=search: how much longer an exchange may be that counts as not lengthened", Worse::neither},
}};

// What a rank notes of a sample; whole: with all that is not timed. by=search: two more.
enum Note { exchange, computation, together, whole, notes, longest = notes, tolerance, notes_of_search };

constexpr double work_per_exchange = 2;

constexpr std::uint32_t steps = 7, pairs_of_step = 5, pairs_of_noise = 9;
constexpr double longest_per_exchange = 1.25;
constexpr double least_tolerance = 0.01;

bool all_compute(const Part& part) { return part.options[computes].number == 0; }
bool searches(const Part& part) { return part.options[by].number != 0; }

// Exchanges of a round: with work and without, and those of the search.
std::uint32_t exchanges(const Part& part) {
  return searches(part) ? 2 + 2 * (steps * pairs_of_step + pairs_of_noise) : 2;
}
// Rounds of so many before the first sample, to choose the work.
std::uint32_t trial_rounds(const Part& part) { return searches(part) ? 1 : 3; }

// One exchange, with so much work in it.
np_status swap(Stage& s, Work& work, std::uint64_t units) {
  const Layer& m = s.module;
  const int peer = mirrored(s.rank, s.nranks);
  np_status status = NP_OK;
  if (!is_first(s) && !all_compute(s)) {
    status = m.recv(s.endpoint, peer, s.incoming.take(), s.size_bytes);
    return status == NP_OK ? m.send(s.endpoint, peer, s.outgoing.take(), s.size_bytes) : status;
  }
  status = m.irecv(s.endpoint, peer, s.incoming.take(), 0, s.size_bytes, &s.requests[0], 1);
  if (status == NP_OK) status = m.isend(s.endpoint, peer, s.outgoing.take(), 0, s.size_bytes, &s.requests[1], 1);
  if (status == NP_OK && !work.run(units, s.abort)) return NP_ABORTED;
  return status == NP_OK ? m.wait(s.endpoint, s.requests, 2) : status;
}

np_status swaps(Stage& s, Work& work, std::uint64_t units, std::uint64_t times, std::int64_t& ns) {
  np_status status = NP_OK;
  const std::int64_t begin = now_ns();
  for (std::uint64_t i = 0; i < times && status == NP_OK; ++i) status = swap(s, work, units);
  ns = now_ns() - begin;
  return status;
}

// Brings the two ranks of a pair to the beginning of a part at the same time, and the first one's units to the other:
// it waits for as long as its word needs to get there, half a round trip.
np_status meet(Stage& s, std::uint64_t& units) {
  const Layer& m = s.module;
  const int peer = mirrored(s.rank, s.nranks);
  s.memory.put(s.token_out, units);
  np_status status = NP_OK;
  const auto send = [&] {
    if (status == NP_OK) status = m.send(s.endpoint, peer, s.token_out, sizeof units);
  };
  const auto recv = [&] {
    if (status == NP_OK) status = m.recv(s.endpoint, peer, s.token_in, sizeof units);
  };
  if (!is_first(s)) {
    recv();
    send();
    recv();
    units = s.memory.get<std::uint64_t>(s.token_in);
    return status;
  }
  const std::int64_t here = now_ns();
  send();
  recv();
  const std::int64_t there = now_ns();
  send();
  if (status != NP_OK) return status;
  return until(there + (there - here) / 2, s.oversubscribed, s.abort) < 0 ? NP_ABORTED : NP_OK;
}

// How much work takes about twice as long as an exchange: chosen once for a visit, from some exchanges of which neither
// the fastest counts (this rank came too late for it) nor the slowest (a processor was taken away).
np_status choose(Stage& s, Work& work, std::uint64_t& units, double& unit_ns) {
  unit_ns = work.calibrate();
  std::vector<std::int64_t> trials(std::size_t{trial_rounds(s)} * exchanges(s));
  for (std::int64_t& ns : trials) {
    np_status status = meet(s, units);
    if (status == NP_OK) status = swaps(s, work, 0, 1, ns);
    if (status != NP_OK) return status;
  }
  std::sort(trials.begin(), trials.end());
  units = Work::units(work_per_exchange * static_cast<double>(trials[trials.size() / 2]), unit_ns);
  return NP_OK;
}

// A batch of exchanges with so many of the first rank's units of work in each. ns: for the first rank, the mean of both
// ranks' times where both compute.
np_status batch(Stage& s, Work& work, std::uint64_t units, std::uint64_t rounds, std::int64_t& ns) {
  np_status status = meet(s, units);
  if (status == NP_OK) status = swaps(s, work, is_first(s) || all_compute(s) ? units : 0, rounds, ns);
  if (status != NP_OK || !all_compute(s)) return status;
  const int peer = mirrored(s.rank, s.nranks);
  if (!is_first(s)) {
    s.memory.put(s.token_out, ns);
    return s.module.send(s.endpoint, peer, s.token_out, sizeof ns);
  }
  status = s.module.recv(s.endpoint, peer, s.token_in, sizeof ns);
  ns = (ns + s.memory.get<std::int64_t>(s.token_in)) / 2;
  return status;
}

// How much longer exchanges are with work than without, of each pair.
np_status differences(Stage& s, Work& work, std::uint64_t units, std::uint64_t rounds, std::span<std::int64_t> pairs) {
  np_status status = NP_OK;
  for (std::size_t i = 0; i < pairs.size() && status == NP_OK; ++i) {
    std::array<std::int64_t, 2> ns{};  // without, with
    for (const std::size_t turn : {i % 2, 1 - i % 2}) {
      if (status == NP_OK) status = batch(s, work, turn == 1 ? units : 0, rounds, ns[turn]);
    }
    pairs[i] = ns[1] - ns[0];
  }
  return status;
}

// units: the work of the sample's other parts, about twice as long as the exchange; unit_ns: how long one takes by
// itself.
np_status search(Stage& s, Work& work, std::uint64_t units, double unit_ns, std::uint64_t rounds, std::int64_t* to) {
  std::array<std::int64_t, pairs_of_noise> noise{};
  np_status status = differences(s, work, 0, rounds, noise);
  to[tolerance] = tolerance_of(noise, least_tolerance * static_cast<double>(to[exchange]));
  const double most = longest_per_exchange / work_per_exchange * static_cast<double>(units);
  const double found = longest_unnoticed(most, steps, [&](double middle) {
    std::array<std::int64_t, pairs_of_step> longer{};
    const auto tried = static_cast<std::uint64_t>(std::llround(middle));
    if (status == NP_OK) status = differences(s, work, tried, rounds, longer);
    return median_of(longer) > to[tolerance];
  });
  to[longest] = std::llround(found * unit_ns * static_cast<double>(rounds));
  return status;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  const bool searching = searches(s);
  Work work;
  std::uint64_t units = 0;
  double unit_ns = 0;
  if (const np_status status = choose(s, work, units, unit_ns); status != NP_OK) return status;
  for (std::uint64_t sample = 0; sample < samples; ++sample, to += searching ? notes_of_search : notes) {
    const std::int64_t here = now_ns();
    np_status status = meet(s, units);
    if (status == NP_OK) status = swaps(s, work, 0, rounds, to[exchange]);
    if (status == NP_OK) status = meet(s, units);
    if (status != NP_OK) return status;
    const std::uint64_t own = is_first(s) || all_compute(s) ? units : 0;
    const std::int64_t begin = now_ns();
    for (std::uint64_t i = 0; i < rounds; ++i) {
      if (!work.run(own, s.abort)) return NP_ABORTED;
    }
    to[computation] = now_ns() - begin;
    status = meet(s, units);
    if (status == NP_OK) status = swaps(s, work, own, rounds, to[together]);
    if (status == NP_OK && searching) status = search(s, work, units, unit_ns, rounds, to);
    if (status != NP_OK) return status;
    to[whole] = now_ns() - here;
  }
  return NP_OK;
}

void evaluate(const Part& part, std::uint64_t rounds, Notes of, Reading& reading) {
  const std::span<const std::int64_t> first = of.front();
  // The rank that only answers has no work, and its clock says nothing of the other one's waiting.
  const std::span<const std::int64_t> last = all_compute(part) ? of.back() : first;
  const double a = static_cast<double>(first[exchange] + last[exchange]) / 2;
  const auto b = static_cast<double>(std::max(first[together], last[together]));
  const auto c = static_cast<double>(std::max(first[computation], last[computation]));
  const auto each = static_cast<double>(rounds);
  reading.ns = a;
  reading.span_ns = static_cast<double>(first[whole]);
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  const double modelled = a + c - b;
  const double found = searches(part) ? static_cast<double>(first[longest]) : modelled;
  reading.measures[0] = found / each;
  reading.measures[1] = found / std::max(a, 1.0);
  reading.measures[2] = c / each;
  reading.measures[3] = b / each;
  reading.measures[4] = (b - c) / each;
  reading.measures[5] = searches(part) ? modelled / each : none;
  reading.measures[6] = searches(part) ? static_cast<double>(first[tolerance]) / each : none;
}

std::uint32_t one(const Part&) { return 1; }

// Of short exchanges a batch has several: one alone is as long as it happens to be.
std::uint64_t fewest_rounds(const Part& part) {
  constexpr std::uint64_t enough_bytes = 64 << 10;
  if (!searches(part)) return 1;
  return std::clamp<std::uint64_t>(enough_bytes / std::max<std::uint64_t>(part.size_bytes, 1), 1, 8);
}

}  // namespace

extern const Pattern overlap;
const Pattern overlap = {
    .name = "overlap",
    .summary = "how much computation fits behind an exchange without making it longer",
    .formula =
        "time of one operation A = post, start, wait; overlap = A + C - B, C: a computation, B: exchange and "
        "computation together; by=search: overlap = the longest computation tried that left A as it was; "
        "fraction = overlap / A",
    .source =
        "Liu et al.: Performance Comparison of MPI Implementations over InfiniBand, Myrinet and Quadrics (2003), "
        "section 3.4",
    .options = options,
    .operations = one,
    .messages_per_operation = [](const Part&) { return 2U; },
    .extra_rounds = trial_rounds,
    .arrivals = exchanges,
    .departures = exchanges,
    .requests = [](const Part&, std::uint64_t) { return std::uint64_t{2}; },
    .fewest_rounds = fewest_rounds,
    .single_rounds = true,
    .one_buffer = false,
    .notes = [](const Part& part, std::uint64_t) { return std::uint64_t{searches(part) ? notes_of_search : notes}; },
    .in_pairs = true,
    .every_rank = true,
    .computes = true,
    .evaluate = evaluate,
    .measures = measures,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = without_requests,
    .run = run,
};

}  // namespace netpipe::patterns
