// SPDX-License-Identifier: Apache-2.0
// A ping-pong whose receives have all been posted before the clock starts, so that every message meets its receive and
// none is copied because it came too early. What posting costs is the difference to pingpong.
//
//     time of one operation = round trip / 2
//     throughput = size_bytes / that time
//
// Receives that are posted at once need places of their own: a sample is as many round trips as places fit into 64 MiB,
// up to 1024 and at least 8. Between samples, where no clock runs, they are posted, and one round trip that does not
// count tells each rank that the other one has posted its own.
#include <algorithm>

#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

constexpr std::uint64_t posted_bytes = 64ULL << 20;

std::uint64_t most_rounds(const Part& part) {
  return std::clamp<std::uint64_t>(posted_bytes / std::max<std::uint64_t>(part.size_bytes, 1), 8, 1024);
}

np_status bounce(Stage& s, bool first, std::uint64_t from, std::uint64_t to) {
  const auto send = s.module.send;
  const auto wait = s.module.wait;
  np_endpoint* const endpoint = s.endpoint;
  const int peer = mirrored(s.rank, s.nranks);
  const std::size_t bytes = s.size_bytes;
  np_status status = NP_OK;
  for (std::uint64_t i = from; i < to && status == NP_OK; ++i) {
    if (first) status = send(endpoint, peer, s.outgoing.take(), bytes);
    if (status == NP_OK) status = wait(endpoint, &s.requests[i], 1);
    if (!first && status == NP_OK) status = send(endpoint, peer, s.outgoing.take(), bytes);
  }
  return status;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  const bool first = is_first(s);
  const int peer = mirrored(s.rank, s.nranks);
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    if (const np_status status = start_receives(s, peer, s.size_bytes, s.requests, rounds + 1); status != NP_OK) {
      return status;
    }
    if (const np_status status = bounce(s, first, 0, 1); status != NP_OK) return status;
    *stamps++ = now_ns();
    if (const np_status status = bounce(s, first, 1, rounds + 1); status != NP_OK) return status;
    *stamps++ = now_ns();
  }
  return NP_OK;
}

std::uint32_t one(const Part&) { return 1; }

}  // namespace

extern const Pattern burst;
const Pattern burst = {
    .name = "burst",
    .summary = "ping-pong with all receives posted before the clock starts",
    .formula = "time of one operation = round trip / 2; throughput = size_bytes / that time",
    .source = "Turner, Oline, Chen, Benjegerdes: Integrating New Capabilities into NetPIPE (2003), section 4",
    .operations = [](const Part&) { return 2U; },
    .extra_rounds = one,
    .arrivals = one,
    .departures = one,
    .in_flight = [](const Part& part) { return static_cast<std::uint32_t>(most_rounds(part) + 1); },
    .requests = [](const Part&, std::uint64_t rounds) { return rounds + 1; },
    .most_rounds = most_rounds,
    .single_rounds = true,
    .pauses = [](const Part&) { return true; },
    .one_buffer = false,
    .in_pairs = true,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = without_requests,
    .run = run,
};

}  // namespace netpipe::patterns
