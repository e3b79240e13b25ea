// SPDX-License-Identifier: Apache-2.0
// From the fastest of some round trips between a rank and rank 0 (Cristian, Probabilistic clock synchronization, 1989):
// the true offset is at most half of that round trip away.
#include "engine/clock_sync.h"

#include <cstdio>

#include "base/clock.h"

namespace netpipe {
namespace {

constexpr int round_trips = 40;

struct Offset {
  std::int64_t offset_ns = 0, error_ns = 0;
};
static_assert(sizeof(Offset) <= token_bytes);

// Rank 0's side, with one other rank.
np_status measure_offset(const Layer& m, np_endpoint* endpoint, int peer, Stage& stage) {
  np_status status = NP_OK;
  Offset best{0, INT64_MAX};
  for (int i = 0; i < round_trips && status == NP_OK; ++i) {
    const std::int64_t before = now_ns();
    status = m.send(endpoint, peer, stage.token_out, 1);
    if (status == NP_OK) status = m.recv(endpoint, peer, stage.token_in, sizeof(std::int64_t));
    const std::int64_t after = now_ns();
    const auto there = stage.memory.get<std::int64_t>(stage.token_in);
    if ((after - before + 1) / 2 < best.error_ns) best = {(before + after) / 2 - there, (after - before + 1) / 2};
  }
  stage.memory.put(stage.token_out, best);
  return status == NP_OK ? m.send(endpoint, peer, stage.token_out, sizeof best) : status;
}

np_status answer_with_clock(const Layer& m, np_endpoint* endpoint, Stage& stage) {
  np_status status = NP_OK;
  for (int i = 0; i < round_trips && status == NP_OK; ++i) {
    status = m.recv(endpoint, 0, stage.token_in, 1);
    stage.memory.put(stage.token_out, now_ns());
    if (status == NP_OK) status = m.send(endpoint, 0, stage.token_out, sizeof(std::int64_t));
  }
  if (status == NP_OK) status = m.recv(endpoint, 0, stage.token_in, sizeof(Offset));
  const auto offset = stage.memory.get<Offset>(stage.token_in);
  stage.clock_offset_ns = offset.offset_ns;
  stage.clock_error_ns = offset.error_ns;
  return status;
}

}  // namespace

np_status synchronise_clocks(Endpoint& endpoint, Stage& stage) {
  const Layer& m = endpoint.module();
  stage.clock_offset_ns = stage.clock_error_ns = 0;
  bool any_far = false;
  for (int rank = 1; rank < stage.nranks; ++rank) any_far = any_far || endpoint.far(rank);
  if (!any_far) return NP_OK;
  if (m.send == nullptr) {
    std::snprintf(stage.message.data(), stage.message.size(),
                  "the clocks of its hosts cannot be compared: it has no send and recv");
    return NP_UNSUPPORTED;
  }
  np_status status = NP_OK;
  if (stage.rank == 0) {
    for (int rank = 1; rank < stage.nranks && status == NP_OK; ++rank) {
      if (endpoint.far(rank)) status = measure_offset(m, endpoint.handle(), rank, stage);
    }
    return status;
  }
  return endpoint.far(stage.rank) ? answer_with_clock(m, endpoint.handle(), stage) : NP_OK;
}

}  // namespace netpipe
