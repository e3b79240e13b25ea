// SPDX-License-Identifier: Apache-2.0
// The parameters of the LogGP model, size by size, from round trips that many messages or a delay make longer.
//
// PRTT(n, d, s): the first rank sends n messages of s bytes, d apart, the other one receives them and sends one back.
// A sample has four parts, one right after another:
//
//     PRTT(1, 0, s)      time of one operation = PRTT(1, 0, s) / 2
//     PRTT(n, 0, s)      gap(s) = (PRTT(n, 0, s) - PRTT(1, 0, s)) / (n - 1)
//     PRTT(n, d, s)      o_s(s) = (PRTT(n, d, s) - PRTT(1, 0, s)) / (n - 1) - d        d: longer than gap(s)
//     n late receives    o_r(s) = their time / n, of messages that have certainly arrived
//     transfer(s) = PRTT(1, 0, s) / 2 - o_s(s) - o_r(s)
//
// In the model gap(s) = g + (s - 1) G and transfer(s) = L + (s - 1) G; the fit over all sizes is analysis/loggp.py. The
// gap is that of the slower of both ends: where o_s or o_r is longer than it, that is what comes out. Differences of
// noisy times may lie on either side of 0, and nothing is clamped.
//
// d is the fastest round trip of the visit so far, or the gap where that is longer (a slow one, in which a processor
// was taken away, would be repeated n times), and passes on the clock, without a call of the layer. What is taken off
// is what the delays really lasted, with the clock's own cost; of the receives that cost is taken off as well. After
// Hoefler, Lichei, Rehm, "Low-Overhead LogGP Parameter Assessment for Modern Interconnection Networks" (2007), who send
// the delayed messages as here, and receive one and not n. The clock is rank 0's.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/ready.h"
#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

enum Option { messages };
constexpr std::array<np_option, 1> options{{
    {"messages", NP_INT, "16", 2, 1024, nullptr, "messages", "n: messages that are sent back to back", 0},
}};

constexpr std::array<Measure, 4> measures{{
    {"o_s", "ns", "processor time in a send"},
    {"o_r", "ns", "processor time in receiving a message that has arrived"},
    {"gap", "ns", "from one message to the next"},
    {"transfer", "ns", "half a round trip without both overheads: latency, and the bytes on their way"},
}};

// What rank 0 notes of a sample. delayed: without the delays; late: the receives; whole: with what is not timed.
enum Note { single, many, delayed, late, whole, notes };

std::uint64_t count_of(const Part& part) { return static_cast<std::uint64_t>(part.options[messages].number); }
np_status send(Stage& s, std::uint64_t count) {
  np_status status = NP_OK;
  for (std::uint64_t i = 0; i < count && status == NP_OK; ++i) {
    status = s.module.send(s.endpoint, mirrored(s.rank, s.nranks), s.outgoing.take(), s.size_bytes);
  }
  return status;
}

np_status receive(Stage& s, std::uint64_t count) {
  np_status status = NP_OK;
  for (std::uint64_t i = 0; i < count && status == NP_OK; ++i) {
    status = s.module.recv(s.endpoint, mirrored(s.rank, s.nranks), s.incoming.take(), s.size_bytes);
  }
  return status;
}

// Adds to spent_ns what it really lasted: longer where the processor was taken away.
np_status delay(const Stage& s, std::int64_t ns, std::int64_t& spent_ns) {
  const std::int64_t begin = now_ns();
  const std::int64_t end = until(begin + ns, s.oversubscribed, s.abort);
  if (end < 0) return NP_ABORTED;
  spent_ns += end - begin;
  return NP_OK;
}

// n messages, d apart, and one back, so many times; the delays are not in ns.
np_status trips(Stage& s, std::uint64_t times, std::uint64_t n, std::int64_t d, std::int64_t& ns) {
  std::int64_t delays_ns = 0;
  const std::int64_t begin = now_ns();
  np_status status = NP_OK;
  for (std::uint64_t i = 0; i < times && status == NP_OK; ++i) {
    status = send(s, 1);
    for (std::uint64_t k = 1; k < n && status == NP_OK; ++k) {
      if (d > 0) status = delay(s, d, delays_ns);
      if (status == NP_OK) status = send(s, 1);
    }
    if (status == NP_OK) status = receive(s, 1);
  }
  ns = now_ns() - begin - delays_ns;
  return status;
}

// One message there, n back, and only then the receives: only they count.
np_status late_receives(Stage& s, std::uint64_t times, std::int64_t pause_ns, std::int64_t& ns) {
  ns = 0;
  std::int64_t paused_ns = 0;
  for (std::uint64_t i = 0; i < times; ++i) {
    np_status status = send(s, 1);
    if (status == NP_OK) status = delay(s, pause_ns, paused_ns);
    const std::int64_t begin = now_ns();
    if (status == NP_OK) status = receive(s, count_of(s));
    ns += now_ns() - begin;
    if (status != NP_OK) return status;
  }
  return NP_OK;
}

np_status lead(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  const std::uint64_t n = count_of(s);
  const double cost_ns = measure_clock().cost_ns;
  const auto between = static_cast<double>(n - 1);
  std::int64_t trip_ns = INT64_MAX;  // the fastest
  std::int64_t gap_ns = INT64_MAX;
  const auto sample = [&](std::uint64_t times) {
    const std::int64_t here = now_ns();
    np_status status = trips(s, times, 1, 0, to[single]);
    if (status == NP_OK) status = trips(s, times, n, 0, to[many]);
    const auto each = static_cast<std::int64_t>(times);
    const auto repeated = static_cast<double>(times);
    trip_ns = std::min(trip_ns, to[single] / each);
    gap_ns = std::min(gap_ns, to[many] / each / static_cast<std::int64_t>(n - 1));  // not below the gap
    const std::int64_t d = std::max({trip_ns, gap_ns, std::int64_t{1}});
    if (status == NP_OK) status = trips(s, times, n, d, to[delayed]);
    to[delayed] -= std::llround(repeated * between * cost_ns);  // a delay begins and ends with half a reading
    if (status == NP_OK) status = late_receives(s, times, trip_ns + static_cast<std::int64_t>(n) * gap_ns, to[late]);
    to[late] -= std::llround(repeated * cost_ns);
    to[whole] = now_ns() - here;
    return status;
  };
  // A round that does not count: the other rank may still be on its way out of the barrier.
  np_status status = sample(1);
  for (std::uint64_t i = 0; i < samples && status == NP_OK; ++i, to += notes) status = sample(rounds);
  return status;
}

np_status follow(Stage& s, std::uint64_t samples, std::uint64_t rounds) {
  const std::uint64_t n = count_of(s);
  const auto sample = [&](std::uint64_t times) {
    np_status status = NP_OK;
    for (const std::uint64_t here : {std::uint64_t{1}, n, n}) {
      for (std::uint64_t i = 0; i < times && status == NP_OK; ++i) {
        status = receive(s, here);
        if (status == NP_OK) status = send(s, 1);
      }
    }
    for (std::uint64_t i = 0; i < times && status == NP_OK; ++i) {
      status = receive(s, 1);
      if (status == NP_OK) status = send(s, n);
    }
    return status;
  };
  np_status status = sample(1);
  for (std::uint64_t i = 0; i < samples && status == NP_OK; ++i) status = sample(rounds);
  return status;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  return is_first(s) ? lead(s, samples, rounds, to) : follow(s, samples, rounds);
}

void evaluate(const Part& part, std::uint64_t rounds, Notes of, Reading& reading) {
  const std::span<const std::int64_t> own = of[static_cast<std::size_t>(part.rank)];
  const auto each = [&](std::int64_t ns) { return static_cast<double>(ns) / static_cast<double>(rounds); };
  const auto n = static_cast<double>(count_of(part));
  const double o_s = each(own[delayed] - own[single]) / (n - 1);
  const double o_r = each(own[late]) / n;
  reading.ns = static_cast<double>(own[single]);
  reading.span_ns = static_cast<double>(own[whole]);
  reading.measures[0] = o_s;
  reading.measures[1] = o_r;
  reading.measures[2] = each(own[many] - own[single]) / (n - 1);
  reading.measures[3] = each(own[single]) / 2 - o_s - o_r;
}

// Messages of a round in the two directions.
std::uint32_t there(const Part& part) { return static_cast<std::uint32_t>(2 * count_of(part) + 2); }
std::uint32_t back(const Part& part) { return static_cast<std::uint32_t>(count_of(part) + 3); }

}  // namespace

extern const Pattern loggp;
const Pattern loggp = {
    .name = "loggp",
    .summary = "the parameters of LogGP at each size: overheads, gap and latency",
    .formula =
        "time of one operation = PRTT(1,0,s) / 2; gap = (PRTT(n,0,s) - PRTT(1,0,s)) / (n - 1); o_s = (PRTT(n,d,s) - "
        "PRTT(1,0,s)) / (n - 1) - d; o_r = time of a receive of what has arrived",
    .source =
        "Hoefler, Lichei, Rehm: Low-Overhead LogGP Parameter Assessment for Modern Interconnection Networks (2007)",
    .options = options,
    .operations = [](const Part&) { return 2U; },
    .extra_rounds = [](const Part&) { return 1U; },
    .arrivals = [](const Part& part) { return is_first(part) ? back(part) : there(part); },
    .departures = [](const Part& part) { return is_first(part) ? there(part) : back(part); },
    .single_rounds = true,
    .one_buffer = false,
    .notes = [](const Part&, std::uint64_t) { return std::uint64_t{notes}; },
    .in_pairs = true,
    .evaluate = evaluate,
    .measures = measures,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = without_messages,
    .run = run,
};

}  // namespace netpipe::patterns
