// SPDX-License-Identifier: Apache-2.0
// A message of a rank to itself: it posts a receive, sends, and waits for the receive. Nothing crosses to another rank,
// and what is left is what the calls of the library cost and how it copies. Programs on grids do so wherever a rank is
// its own neighbour, and libraries differ by several times.
//
//     time of one operation = from the start of the receive to its end        throughput = size_bytes / that time
//
// All ranks do so at the same time. The clock is rank 0's.
#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

const char* missing(const Layer& m, int nranks) {
  const char* const requests = without_requests(m, nranks);
  return requests != nullptr || m.to_itself != 0 ? requests : "messages of a rank to itself";
}

np_status deliver(Stage& s, std::uint64_t times) {
  const auto irecv = s.module.irecv;
  const auto send = s.module.send;
  const auto wait = s.module.wait;
  np_endpoint* const endpoint = s.endpoint;
  np_request* const request = s.requests;
  const int own = s.rank;
  const std::size_t bytes = s.size_bytes;
  Slots outgoing = s.outgoing, incoming = s.incoming;  // in registers
  np_status status = NP_OK;
  for (std::uint64_t i = 0; i < times && status == NP_OK; ++i) {
    status = irecv(endpoint, own, incoming.take(), 0, bytes, request, 1);
    if (status == NP_OK) status = send(endpoint, own, outgoing.take(), bytes);
    if (status == NP_OK) status = wait(endpoint, request, 1);
  }
  s.outgoing = outgoing;
  s.incoming = incoming;
  return status;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  if (s.rank != 0) return deliver(s, samples * rounds);
  *stamps++ = now_ns();
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    if (const np_status status = deliver(s, rounds); status != NP_OK) return status;
    *stamps++ = now_ns();
  }
  return NP_OK;
}

std::uint32_t one(const Part&) { return 1; }

}  // namespace

extern const Pattern itself;
const Pattern itself = {
    .name = "itself",
    .summary = "a message of each rank to itself, all at the same time",
    .formula = "time of one operation = receive posted, sent, received; throughput = size_bytes / that time",
    .source = "NAS parallel benchmarks, MG: a rank that is its own neighbour exchanges its faces with itself",
    .operations = one,
    .extra_rounds = [](const Part&) { return 0U; },
    .arrivals = one,
    .departures = one,
    .origin = [](const Part& part, std::uint64_t i) { return Origin{part.rank, i}; },
    .requests = [](const Part&, std::uint64_t) { return std::uint64_t{1}; },
    .single_rounds = true,
    .one_buffer = false,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .missing = missing,
    .run = run,
};

}  // namespace netpipe::patterns
