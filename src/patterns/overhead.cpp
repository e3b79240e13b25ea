// SPDX-License-Identifier: Apache-2.0
// The processor time spent in the calls of a send, or of a receive: what an application pays for a message
// even if it never waits for the network.
//
//     time of one operation = (time in the starting calls of a batch + time in its waits) / messages in it
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

#include "base/ready.h"
#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

enum Option { side, call, in_flight };
constexpr std::array<np_option, 3> options{{
    {"side", NP_CHOICE, "send", 0, 0, "send|recv", "", "whose calls are timed", 0},
    {"call", NP_CHOICE, "request", 0, 0, "request|blocking", "",
     "start and wait in separate calls (request), or in one call", 0},
    {"in_flight", NP_INT, "16", 1, 65536, nullptr, "messages", "most messages in a batch", 0},
}};

constexpr std::array<Measure, 2> measures{{
    {"start", "ns", "in the call that starts it; for blocking calls, the whole call"},
    {"finish", "ns", "in the wait for it"},
}};

// What rank 0 notes of a sample; reading_cost: what one of the clock costs; whole: with all that is not timed.
enum Note { start, finish, reading_cost, whole, notes };

bool blocking(const Part& part) { return part.options[call].number != 0; }
bool times_sends(const Part& part) { return part.options[side].number == 0; }
bool sends(const Part& part) { return is_first(part) == times_sends(part); }

std::uint64_t most_rounds(const Part& part) {
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

np_status other(Stage& s, std::uint64_t count) {
  const bool receives = times_sends(s);
  np_status status = receives ? begin_all(s, count) : hear(s);
  if (status == NP_OK) status = receives ? tell(s) : begin_all(s, count);
  if (status == NP_OK) status = wait_all(s, count);
  if (status != NP_OK) return status;
  return receives ? tell(s) : hear(s);
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  const bool first = is_first(s);
  const std::int64_t cost_ns = first ? std::llround(measure_clock().cost_ns) : 0;
  std::int64_t single_ns = INT64_MAX;  // the fastest round trip of one message and the word that it has come
  for (std::uint64_t sample = 0; sample < samples; ++sample, to += notes) {
    const std::int64_t here = now_ns();
    np_status status = first ? timed(s, 1, 0, to) : other(s, 1);
    if (status != NP_OK) return status;
    single_ns = std::min(single_ns, now_ns() - here);
    status = first ? timed(s, rounds, static_cast<std::int64_t>(rounds + 1) * single_ns, to) : other(s, rounds);
    if (status != NP_OK) return status;
    to[reading_cost] = cost_ns;
    to[whole] = now_ns() - here;
  }
  return NP_OK;
}

void evaluate(const Part& part, std::uint64_t rounds, Notes of, Reading& reading) {
  const std::span<const std::int64_t> own = of[static_cast<std::size_t>(part.rank)];
  const auto each = static_cast<double>(rounds);
  const auto begin = static_cast<double>(own[start] - own[reading_cost]);
  const auto end = blocking(part) ? 0.0 : static_cast<double>(own[finish] - own[reading_cost]);
  reading.ns = begin + end;
  reading.span_ns = static_cast<double>(own[whole]);
  reading.measures[0] = begin / each;
  reading.measures[1] = end / each;
}

std::uint32_t one(const Part&) { return 1; }

}  // namespace

extern const Pattern overhead;
const Pattern overhead = {
    .name = "overhead",
    .summary = "processor time spent in the calls of a send, or of a receive",
    .formula = "time of one operation = (time in the starting calls of a batch + in its waits) / messages in it",
    .source =
        "Liu et al.: Performance Comparison of MPI Implementations over InfiniBand, Myrinet and Quadrics (2003), "
        "section 3.2; Culler, Liu, Martin, Yoshikawa: Assessing Fast Network Interfaces (1996)",
    .options = options,
    .operations = one,
    .messages_per_operation = [](const Part&) { return 0U; },
    .extra_rounds = one,
    .arrivals = [](const Part& part) { return sends(part) ? 0U : 1U; },
    .departures = [](const Part& part) { return sends(part) ? 1U : 0U; },
    .in_flight = [](const Part& part) { return static_cast<std::uint32_t>(most_rounds(part)); },
    .requests = [](const Part&, std::uint64_t rounds) { return rounds; },
    .most_rounds = most_rounds,
    .single_rounds = true,
    .pauses = true,
    .one_buffer = false,
    .notes = [](const Part&, std::uint64_t) { return std::uint64_t{notes}; },
    .in_pairs = true,
    .evaluate = evaluate,
    .measures = measures,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = without_requests,
    .run = run,
};

}  // namespace netpipe::patterns
