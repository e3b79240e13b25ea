// SPDX-License-Identifier: Apache-2.0
// Both ranks send and receive at once, as fast as they go.
//
//     time of one operation = time in which one message has gone each way
//     throughput = 2 x size_bytes / that time: both directions are counted
//
// The receive is posted before the send, and both are waited for together, so that no size and no buffer can make two
// senders wait for each other. The clock is rank 0's.
#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

const char* missing(const Layer& m, int) { return m.isend == nullptr ? "isend and irecv" : nullptr; }

np_status exchange(Stage& s, std::uint64_t times) {
  const auto isend = s.module.isend;
  const auto irecv = s.module.irecv;
  const auto wait = s.module.wait;
  np_endpoint* const endpoint = s.endpoint;
  np_request* const requests = s.requests;
  const int peer = mirrored(s.rank, s.nranks);
  const std::size_t bytes = s.size_bytes;
  Slots outgoing = s.outgoing, incoming = s.incoming;  // in registers
  np_status status = NP_OK;
  for (std::uint64_t i = 0; i < times && status == NP_OK; ++i) {
    status = irecv(endpoint, peer, incoming.take(), 0, bytes, &requests[0], 1);
    if (status == NP_OK) status = isend(endpoint, peer, outgoing.take(), 0, bytes, &requests[1], 1);
    if (status == NP_OK) status = wait(endpoint, requests, 2);
  }
  s.outgoing = outgoing;
  s.incoming = incoming;
  return status;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  // The other rank may still be on its way out of the barrier.
  if (const np_status status = exchange(s, 1); status != NP_OK) return status;
  *stamps++ = now_ns();
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    if (const np_status status = exchange(s, rounds); status != NP_OK) return status;
    *stamps++ = now_ns();
  }
  return NP_OK;
}

std::uint32_t one(const Part&) { return 1; }

}  // namespace

extern const Pattern bidirectional;
const Pattern bidirectional = {
    .name = "bidirectional",
    .summary = "a message each way at once between two ranks, or in many pairs",
    .formula = "time of one operation = one message each way; throughput = 2 x size_bytes / that time",
    .source = "Turner, Oline, Chen, Benjegerdes: Integrating New Capabilities into NetPIPE (2003), section 2",
    .operations = one,
    .messages_per_operation = [](const Part&) { return 2U; },
    .extra_rounds = one,
    .arrivals = one,
    .departures = one,
    .requests = [](const Part&, std::uint64_t) { return std::uint64_t{2}; },
    .single_rounds = true,
    .one_buffer = false,
    .in_pairs = true,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = missing,
    .run = run,
};

}  // namespace netpipe::patterns
