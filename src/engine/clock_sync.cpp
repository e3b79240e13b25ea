// SPDX-License-Identifier: Apache-2.0
// From the fastest of some round trips between a rank and rank 0 (Cristian, Probabilistic clock synchronization, 1989):
// the true offset is at most half of that round trip away.
#include "engine/clock_sync.h"

#include <cstdio>

#include "base/clock.h"

namespace netpipe {
namespace {

constexpr int round_trips = 40;

// No two clocks are further apart (36 years): what a peer says beyond it is not a reading, and would overflow below.
constexpr std::int64_t farthest_ns = std::int64_t{1} << 60;

bool possible(std::int64_t ns) { return ns > -farthest_ns && ns < farthest_ns; }

np_status impossible(Stage& stage) {
  std::snprintf(stage.message.data(), stage.message.size(), "a peer sent an impossible reading of its clock");
  return NP_FAILED;
}

struct Offset {
  std::int64_t offset_ns = 0, error_ns = 0;
};
static_assert(sizeof(Offset) <= token_bytes);

// Rank 0's side, with one other rank.
np_status measure_offset(const Layer& m, np_endpoint* endpoint, int peer, Stage& stage) {
  np_status status = NP_OK;
  Offset best{0, INT64_MAX};
  for (int i = 0; i < round_trips; ++i) {
    const std::int64_t before = now_ns();
    status = m.send(endpoint, peer, stage.token_out, 1);
    if (status == NP_OK) status = m.recv(endpoint, peer, stage.token_in, sizeof(std::int64_t));
    const std::int64_t after = now_ns();
    const auto there = stage.memory.get<std::int64_t>(stage.token_in);
    if (status == NP_OK && !possible(there)) return impossible(stage);
    if (status != NP_OK) return status;
    if ((after - before + 1) / 2 < best.error_ns) best = {(before + after) / 2 - there, (after - before + 1) / 2};
  }
  stage.memory.put(stage.token_out, best);
  return m.send(endpoint, peer, stage.token_out, sizeof best);
}

np_status answer_with_clock(const Layer& m, np_endpoint* endpoint, Stage& stage) {
  np_status status = NP_OK;
  for (int i = 0; i < round_trips && status == NP_OK; ++i) {
    status = m.recv(endpoint, 0, stage.token_in, 1);
    stage.memory.put(stage.token_out, now_ns());
    if (status == NP_OK) status = m.send(endpoint, 0, stage.token_out, sizeof(std::int64_t));
  }
  if (status == NP_OK) status = m.recv(endpoint, 0, stage.token_in, sizeof(Offset));
  if (status != NP_OK) return status;
  const auto offset = stage.memory.get<Offset>(stage.token_in);
  if (!possible(offset.offset_ns) || !possible(offset.error_ns)) return impossible(stage);
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
