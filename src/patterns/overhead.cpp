// SPDX-License-Identifier: Apache-2.0
// The processor time spent in the calls of a send, of a receive, or of both: what an application pays for a message
// even if it never waits for the network.
//
//     time of one operation = (time in the starting calls of a batch + time in its waits) / messages in it
//
// side=both: Liu et al.'s host overhead. In the latency test, a ping-pong, the first rank's calls are timed: the send
// of a message and the receive of the answer, one of each in a round trip, so their sum is what both sides pay for one
// message. Their page does not say how the time on the wire, which a receive would wait for, was kept out; that it was
// is in their numbers (0.8 us in the calls, of a latency of 6.7 us). Here the answer is waited for without a call,
// between the two, for four times the fastest round trip; the receive then finds it. call=request: the receive is
// posted and the send started, as in their test of overlap; the two waits come after the pause. The other rank only
// answers.
//
// side=send: the receiver has posted its receives. The batch is sent; then, without a call, so much time goes by that
// everything has been delivered; then come the waits. side=recv: the batch is sent, so much time goes by that
// everything that can arrive without a receive has arrived; then come the receives. The pause is one round trip of a
// single message for each message of the batch and one more, and is not timed. What a layer leaves to these calls
// (copying, a handshake, a full buffer) is in the number, and so is all of the transfer where nothing moves without
// them.
//
// One clock reading costs as much as a small call, so a sample is a batch: `in_flight` messages at most, as many as
// find places in 64 MiB. What a reading costs is taken off each interval. call=blocking: send or recv instead of
// starting and waiting. The clock is rank 0's, which sends or receives.
//
// After the sender and receiver overheads of LogP (Culler et al., "Assessing fast network interfaces", 1996).
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/ready.h"
#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

enum Option { side, call, in_flight };
enum Side { of_sends, of_receives, of_both };
constexpr std::array<np_option, 3> options{{
    {"side", NP_CHOICE, "send", 0, 0, "send|recv|both", "",
     "whose calls are timed: in batches of sends or of receives, or of both in a ping-pong", 0},
    {"call", NP_CHOICE, "request", 0, 0, "request|blocking", "",
     "start and wait in separate calls (request), or in one call", 1},
    {"in_flight", NP_INT, "16", 1, 65536, nullptr, "messages", "side=send, recv: most messages in a batch", 1},
}};

constexpr std::array<Measure, 2> measures{{
    {"start", "ns", "in the call that starts it; call=blocking: in the send, or receive, itself"},
    {"finish", "ns", "in the wait for it; side=both,call=blocking: in the receive"},
}};

// What rank 0 notes of a sample; reading_cost: what one of the clock costs; whole: with all that is not timed.
enum Note { start, finish, reading_cost, whole, notes };

bool blocking(const Part& part) { return part.options[call].number != 0; }
bool times_sends(const Part& part) { return part.options[side].number == of_sends; }
bool times_both(const Part& part) { return part.options[side].number == of_both; }
bool sends(const Part& part) { return times_both(part) || is_first(part) == times_sends(part); }
bool receives(const Part& part) { return times_both(part) || !sends(part); }

constexpr std::uint64_t batch_messages = 16;  // in_flight by default; side=both: round trips of a sample

std::uint64_t most_rounds(const Part& part) {
  if (times_both(part)) return batch_messages;
  constexpr std::uint64_t places_bytes = 64ULL << 20;
  return std::clamp<std::uint64_t>(places_bytes / std::max<std::uint64_t>(part.size_bytes, 1), 1,
                                   static_cast<std::uint64_t>(part.options[in_flight].number));
}

np_status tell(Stage& s) { return s.module.send(s.endpoint, mirrored(s.rank, s.nranks), s.token_out, 1); }
np_status hear(Stage& s) { return s.module.recv(s.endpoint, mirrored(s.rank, s.nranks), s.token_in, 1); }

np_status pause(const Stage& s, std::int64_t ns) {
  return until(now_ns() + ns, s.oversubscribed, s.abort) < 0 ? NP_ABORTED : NP_OK;
}

np_status begin_all(Stage& s, std::uint64_t count) {
  const Layer& m = s.module;
  const int peer = mirrored(s.rank, s.nranks);
  const bool sending = sends(s);
  np_status status = NP_OK;
  for (std::uint64_t i = 0; i < count && status == NP_OK; ++i) {
    status = sending ? m.isend(s.endpoint, peer, s.outgoing.take(), 0, s.size_bytes, &s.requests[i], 1)
                     : m.irecv(s.endpoint, peer, s.incoming.take(), 0, s.size_bytes, &s.requests[i], 1);
  }
  return status;
}

np_status wait_all(Stage& s, std::uint64_t count) {
  np_status status = NP_OK;
  for (std::uint64_t i = 0; i < count && status == NP_OK; ++i) status = s.module.wait(s.endpoint, &s.requests[i], 1);
  return status;
}

np_status call_all(Stage& s, std::uint64_t count) {
  const Layer& m = s.module;
  const int peer = mirrored(s.rank, s.nranks);
  const bool sending = sends(s);
  np_status status = NP_OK;
  for (std::uint64_t i = 0; i < count && status == NP_OK; ++i) {
    status = sending ? m.send(s.endpoint, peer, s.outgoing.take(), s.size_bytes)
                     : m.recv(s.endpoint, peer, s.incoming.take(), s.size_bytes);
  }
  return status;
}

// A batch on the side that is timed, between its two words with the peer.
np_status timed(Stage& s, std::uint64_t count, std::int64_t pause_ns, std::int64_t* to) {
  np_status status = times_sends(s) ? hear(s) : tell(s);
  if (!times_sends(s) && status == NP_OK) status = pause(s, pause_ns);
  const std::int64_t begin = now_ns();
  if (status == NP_OK) status = blocking(s) ? call_all(s, count) : begin_all(s, count);
  to[start] = now_ns() - begin;
  to[finish] = 0;
  if (!blocking(s)) {
    if (times_sends(s) && status == NP_OK) status = pause(s, pause_ns);
    const std::int64_t again = now_ns();
    if (status == NP_OK) status = wait_all(s, count);
    to[finish] = now_ns() - again;
  }
  if (status != NP_OK) return status;
  return times_sends(s) ? hear(s) : tell(s);
}

// side=both: round trips of the first rank, with so long a pause in each.
np_status bounce(Stage& s, std::uint64_t count, std::int64_t pause_ns, std::int64_t* to) {
  const Layer& m = s.module;
  const int peer = mirrored(s.rank, s.nranks);
  const bool in_one = blocking(s);
  np_status status = NP_OK;
  to[start] = to[finish] = 0;
  for (std::uint64_t i = 0; i < count && status == NP_OK; ++i) {
    const char* const out = s.outgoing.take();
    char* const in = s.incoming.take();
    const std::int64_t begin = now_ns();
    if (in_one) {
      status = m.send(s.endpoint, peer, out, s.size_bytes);
    } else {
      status = m.irecv(s.endpoint, peer, in, 0, s.size_bytes, &s.requests[0], 1);
      if (status == NP_OK) status = m.isend(s.endpoint, peer, out, 0, s.size_bytes, &s.requests[1], 1);
    }
    to[start] += now_ns() - begin;
    if (status == NP_OK) status = pause(s, pause_ns);
    const std::int64_t again = now_ns();
    if (status == NP_OK) {
      status = in_one ? m.recv(s.endpoint, peer, in, s.size_bytes) : m.wait(s.endpoint, s.requests, 2);
    }
    to[finish] += now_ns() - again;
  }
  return status;
}

np_status answer(Stage& s, std::uint64_t count) {
  const Layer& m = s.module;
  const int peer = mirrored(s.rank, s.nranks);
  np_status status = NP_OK;
  for (std::uint64_t i = 0; i < count && status == NP_OK; ++i) {
    status = m.recv(s.endpoint, peer, s.incoming.take(), s.size_bytes);
    if (status == NP_OK) status = m.send(s.endpoint, peer, s.outgoing.take(), s.size_bytes);
  }
  return status;
}

np_status other(Stage& s, std::uint64_t count) {
  if (times_both(s)) return answer(s, count);
  const bool receives = times_sends(s);
  np_status status = receives ? begin_all(s, count) : hear(s);
  if (status == NP_OK) status = receives ? tell(s) : begin_all(s, count);
  if (status == NP_OK) status = wait_all(s, count);
  if (status != NP_OK) return status;
  return receives ? tell(s) : hear(s);
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  const bool first = is_first(s);
  const bool bounces = times_both(s);
  const std::int64_t cost_ns = first ? std::llround(measure_clock().cost_ns) : 0;
  std::int64_t single_ns = INT64_MAX;  // the fastest round trip of one message and the word that it has come
  for (std::uint64_t sample = 0; sample < samples; ++sample, to += notes) {
    const std::int64_t here = now_ns();
    const auto part = [&](std::uint64_t count, std::int64_t pause_ns) {
      if (!first) return other(s, count);
      return bounces ? bounce(s, count, pause_ns, to) : timed(s, count, pause_ns, to);
    };
    np_status status = part(1, 0);
    if (status != NP_OK) return status;
    single_ns = std::min(single_ns, now_ns() - here);
    status = part(rounds, static_cast<std::int64_t>(bounces ? 4 : rounds + 1) * single_ns);
    if (status != NP_OK) return status;
    to[reading_cost] = cost_ns;
    to[whole] = now_ns() - here;
  }
  return NP_OK;
}

void evaluate(const Part& part, std::uint64_t rounds, Notes of, Reading& reading) {
  const std::span<const std::int64_t> own = of[static_cast<std::size_t>(part.rank)];
  const auto each = static_cast<double>(rounds);
  const bool bounces = times_both(part);
  const std::int64_t reading_ns = own[reading_cost] * static_cast<std::int64_t>(bounces ? rounds : 1);
  const auto begin = static_cast<double>(own[start] - reading_ns);
  const auto end = blocking(part) && !bounces ? 0.0 : static_cast<double>(own[finish] - reading_ns);
  reading.ns = begin + end;
  reading.span_ns = static_cast<double>(own[whole]);
  reading.measures[0] = begin / each;
  reading.measures[1] = end / each;
}

std::uint32_t one(const Part&) { return 1; }

std::string unfit(const Part& part, const Layer&) {
  if (!times_both(part) || static_cast<std::uint64_t>(part.options[in_flight].number) == batch_messages) return {};
  return "has one message in flight, so in_flight changes nothing: leave it out";
}

}  // namespace

extern const Pattern overhead;
const Pattern overhead = {
    .name = "overhead",
    .summary = "processor time spent in the calls of a send, of a receive, or of both",
    .formula = "time of one operation = (time in the starting calls of a batch + in its waits) / messages in it",
    .source =
        "Liu et al.: Performance Comparison of MPI Implementations over InfiniBand, Myrinet and Quadrics (2003), "
        "section 3.2; Culler, Liu, Martin, Yoshikawa: Assessing Fast Network Interfaces (1996)",
    .options = options,
    .operations = one,
    .messages_per_operation = [](const Part&) { return 0U; },
    .extra_rounds = one,
    .arrivals = [](const Part& part) { return receives(part) ? 1U : 0U; },
    .departures = [](const Part& part) { return sends(part) ? 1U : 0U; },
    .in_flight = [](const Part& part) { return times_both(part) ? 1U : static_cast<std::uint32_t>(most_rounds(part)); },
    .requests = [](const Part& part, std::uint64_t rounds) { return times_both(part) ? std::uint64_t{2} : rounds; },
    .most_rounds = most_rounds,
    .single_rounds = true,
    .pauses = [](const Part&) { return true; },
    .one_buffer = false,
    .notes = [](const Part&, std::uint64_t) { return std::uint64_t{notes}; },
    .in_pairs = true,
    .evaluate = evaluate,
    .measures = measures,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = without_requests,
    .unfit = unfit,
    .run = run,
};

}  // namespace netpipe::patterns
