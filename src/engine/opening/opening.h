// SPDX-License-Identifier: Apache-2.0
// How a variant is opened by all its ranks together: each opens its endpoint, they exchange addresses, connect, make
// buffers and, where a pattern reaches into a peer's memory, open that memory to each other. Whatever fails on one rank
// fails on all of them, with one sentence.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/opening/endpoint.h"
#include "engine/processes/placement.h"
#include "engine/processes/rank_setting.h"

namespace netpipe {

// What opening a variant came to. All ranks agree on success; only member 0 of the group receives the contents.
struct Opening {
  int nranks = 0;
  double launch_s = -1;               // from the request to the launcher until all processes of the job had joined
  np_limits limits{};                 // of rank 0
  bool simulated = false;             // the clocks of the ranks stand still while they compute
  std::string version;                // of the library that answers in rank 0
  std::string below;                  // the layer that it really stands on, where the module found that out
  std::vector<std::string> settings;  // by rank, JSON objects: `ranks` of the `variant` record
};

// texts: by member of the group, what facts_text made of each rank's facts. A failure: one of them is malformed.
Result<Opening> opening_of(const std::vector<std::string>& texts, const std::vector<int>& member_of_rank);

// Collective over group, the members that take part: opens the variant on this rank. On failure endpoint is empty.
// common: see Endpoint::make_buffers. in_step: becomes false when the ranks stopped talking in the middle.
Result<Opening> open_variant(const RankSetting& setting, Group& group, std::uint32_t variant,
                             std::unique_ptr<Endpoint>& endpoint, std::shared_ptr<BufferPool>& common, bool& in_step);

// Closes it. The library may wait for its peers here, and they may have gone, so this has a deadline.
void close_variant(const RankSetting& setting, std::unique_ptr<Endpoint>& endpoint);

// The same steps for the conductor of a job, which is member 0 of its group and opens nothing. placement: which member
// is which rank.
Result<Opening> conduct_opening(Group& group, const Plan& plan, const Resolved& resolved, const Layer& module,
                                Placement& placement);

}  // namespace netpipe
