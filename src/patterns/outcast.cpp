// SPDX-License-Identifier: Apache-2.0
// One to many: rank 0 sends each other rank a message, all of them under way at once; each answers with one byte when
// it has come, and the round ends with the last answer.
//
//     time of one operation = from the first send until the last answer, by rank 0's clock
//     throughput = (ranks - 1) x size_bytes / that time: what goes out at rank 0
#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

std::uint32_t receivers(const Part& part) { return static_cast<std::uint32_t>(part.nranks - 1); }

np_status scatter(Stage& s, std::uint64_t times) {
  const Layer& m = s.module;
  const auto count = static_cast<int>(receivers(s));
  np_status status = NP_OK;
  for (std::uint64_t round = 0; round < times && status == NP_OK; ++round) {
    for (int i = 0; i < count && status == NP_OK; ++i) {
      status = m.isend(s.endpoint, i + 1, s.outgoing.take(), 0, s.size_bytes, &s.requests[i], 1);
    }
    if (status == NP_OK) status = m.wait(s.endpoint, s.requests, static_cast<std::size_t>(count));
    for (int i = 0; i < count && status == NP_OK; ++i) status = m.recv(s.endpoint, i + 1, s.token_in, 1);
  }
  return status;
}

np_status acknowledge(Stage& s, std::uint64_t times) {
  np_status status = NP_OK;
  for (std::uint64_t round = 0; round < times && status == NP_OK; ++round) {
    status = s.module.recv(s.endpoint, 0, s.incoming.take(), s.size_bytes);
    if (status == NP_OK) status = s.module.send(s.endpoint, 0, s.token_out, 1);
  }
  return status;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  if (s.rank != 0) return acknowledge(s, samples * rounds + 1);
  // The others may still be on their way out of the barrier.
  if (const np_status status = scatter(s, 1); status != NP_OK) return status;
  *stamps++ = now_ns();
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    if (const np_status status = scatter(s, rounds); status != NP_OK) return status;
    *stamps++ = now_ns();
  }
  return NP_OK;
}

}  // namespace

extern const Pattern outcast;
const Pattern outcast = {
    .name = "outcast",
    .summary = "one to many: rank 0 sends to all other ranks at once",
    .formula = "time of one operation = first send to last answer; throughput = (ranks - 1) x size_bytes / that time",
    .source =
        "the other direction of incast: Phanishayee et al.: Measurement and Analysis of TCP Throughput Collapse in "
        "Cluster-based Storage Systems (2008)",
    .operations = [](const Part&) { return 1U; },
    .messages_per_operation = receivers,
    .extra_rounds = [](const Part&) { return 1U; },
    .arrivals = [](const Part& part) { return part.rank == 0 ? 0U : 1U; },
    .departures = [](const Part& part) { return part.rank == 0 ? receivers(part) : 0; },
    .origin =
        [](const Part& part, std::uint64_t i) {
          return Origin{0, i * receivers(part) + static_cast<std::uint64_t>(part.rank - 1)};
        },
    .requests = [](const Part& part, std::uint64_t) { return std::uint64_t{receivers(part)}; },
    .single_rounds = true,
    .one_buffer = false,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .missing = without_requests,
    .run = run,
};

}  // namespace netpipe::patterns
