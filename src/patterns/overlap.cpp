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
// computes=both: the two ranks exchange a message and both compute, as neighbours in a simulation do; the longer of
// the two times counts, because neither goes on alone. computes=one: as in the paper, the first rank starts a receive
// and a send, computes and waits, the other one only answers; the exchange is then a whole round trip, and the answer's
// way and the other rank's calls can be hidden as well. More ranks are pairs, the first with the last.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/pattern.h"
#include "core/work.h"

namespace netpipe::patterns {
namespace {

enum Option { computes };
constexpr std::array<np_option, 1> options{{
    {"computes", NP_CHOICE, "both", 0, 0, "both|one", "", "which of the two ranks of a pair have work", 0},
}};

constexpr std::array<Measure, 5> measures{{
    {"overlap", "ns", "the longest computation that does not lengthen the exchange"},
    {"fraction", "1", "that over the exchange's time"},
    {"computation", "ns", "what the work takes without the exchange"},
    {"together", "ns", "exchange and work together"},
    {"exposed", "ns", "what the exchange adds to the work"},
}};

// What a rank notes of a sample; whole: with all that is not timed.
enum Note { exchange, computation, together, whole, notes };

constexpr double work_per_exchange = 2;

bool all_compute(const Part& part) { return part.options[computes].number == 0; }
bool is_first(const Part& part) { return part.rank < part.nranks / 2; }

const char* missing(const np_module& m, int) {
  if (m.send == nullptr) return "send and recv";
  return m.isend == nullptr ? "isend and irecv" : nullptr;
}

// One exchange, with so much work in it.
np_status swap(Stage& s, Work& work, std::uint64_t units) {
  const np_module& m = s.module;
  const int peer = mirrored(s.rank, s.nranks);
  np_status status = NP_OK;
  if (!is_first(s) && !all_compute(s)) {
    status = m.recv(s.endpoint, peer, s.incoming.take(), s.size_bytes);
    return status == NP_OK ? m.send(s.endpoint, peer, s.outgoing.take(), s.size_bytes) : status;
  }
  status = m.irecv(s.endpoint, peer, s.incoming.take(), s.size_bytes, &s.requests[0]);
  if (status == NP_OK) status = m.isend(s.endpoint, peer, s.outgoing.take(), s.size_bytes, &s.requests[1]);
  if (status == NP_OK && !work.run(units, s.abort)) return NP_ABORTED;
  if (status == NP_OK) status = m.wait(s.endpoint, &s.requests[0]);
  return status == NP_OK ? m.wait(s.endpoint, &s.requests[1]) : status;
}

// So many exchanges behind one that does not count: it brings the two ranks into step.
np_status swaps(Stage& s, Work& work, std::uint64_t units, std::uint64_t times, std::int64_t& ns) {
  np_status status = swap(s, work, 0);
  const std::int64_t begin = now_ns();
  for (std::uint64_t i = 0; i < times && status == NP_OK; ++i) status = swap(s, work, units);
  ns = now_ns() - begin;
  return status;
}

// Both ranks of a pair work as long as the first one says.
np_status agree(Stage& s, std::uint64_t& units) {
  const int peer = mirrored(s.rank, s.nranks);
  std::memcpy(s.token_out, &units, sizeof units);
  if (is_first(s)) return s.module.send(s.endpoint, peer, s.token_out, sizeof units);
  const np_status status = s.module.recv(s.endpoint, peer, s.token_in, sizeof units);
  std::memcpy(&units, s.token_in, sizeof units);
  return status;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  Work work;
  const double unit_ns = work.calibrate();
  double fastest_ns = 1e18;  // of an exchange: work after a slow one would only last longer
  for (std::uint64_t sample = 0; sample < samples; ++sample, to += notes) {
    const std::int64_t here = now_ns();
    np_status status = swaps(s, work, 0, rounds, to[exchange]);
    if (status != NP_OK) return status;
    fastest_ns = std::min(fastest_ns, static_cast<double>(to[exchange]) / static_cast<double>(rounds));
    std::uint64_t units = Work::units(work_per_exchange * fastest_ns, unit_ns);
    if (status = agree(s, units); status != NP_OK) return status;
    if (!is_first(s) && !all_compute(s)) units = 0;
    const std::int64_t begin = now_ns();
    for (std::uint64_t i = 0; i < rounds; ++i) {
      if (!work.run(units, s.abort)) return NP_ABORTED;
    }
    to[computation] = now_ns() - begin;
    if (status = swaps(s, work, units, rounds, to[together]); status != NP_OK) return status;
    to[whole] = now_ns() - here;
  }
  return NP_OK;
}

void evaluate(const Part& part, std::uint64_t rounds, Notes of, Reading& reading) {
  const std::span<const std::int64_t> first = of.front();
  const std::span<const std::int64_t> last = of.back();
  // The rank that only answers has no work, and its clock says nothing of the other one's waiting.
  const auto longer = [&](Note what) {
    return static_cast<double>(all_compute(part) ? std::max(first[what], last[what]) : first[what]);
  };
  const auto each = static_cast<double>(rounds);
  const double hidden = longer(exchange) + longer(computation) - longer(together);
  reading.ns = longer(exchange);
  reading.span_ns = static_cast<double>(first[whole]);
  reading.measures[0] = hidden / each;
  reading.measures[1] = hidden / std::max(longer(exchange), 1.0);
  reading.measures[2] = longer(computation) / each;
  reading.measures[3] = longer(together) / each;
  reading.measures[4] = (longer(together) - longer(computation)) / each;
}

std::uint32_t one(const Part&) { return 1; }
std::uint32_t two(const Part&) { return 2; }  // messages of a round each way, with work and without

}  // namespace

extern const Pattern overlap;
const Pattern overlap = {
    .name = "overlap",
    .summary = "how much computation fits behind an exchange without making it longer",
    .formula =
        "time of one operation A = post, start, wait; overlap = A + C - B, C: a computation, B: exchange and "
        "computation together; fraction = overlap / A",
    .source =
        "Liu et al.: Performance Comparison of MPI Implementations over InfiniBand, Myrinet and Quadrics (2003), "
        "section 3.4",
    .options = options,
    .operations = one,
    .messages_per_operation = [](const Part&) { return 2U; },
    .extra_rounds = one,
    .arrivals = two,
    .departures = two,
    .requests = [](const Part&, std::uint64_t) { return std::uint64_t{2}; },
    .single_rounds = true,
    .pauses = true,
    .one_buffer = false,
    .notes = [](const Part&, std::uint64_t) { return std::uint64_t{notes}; },
    .every_rank = true,
    .evaluate = evaluate,
    .measures = measures,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = missing,
    .run = run,
};

}  // namespace netpipe::patterns
