// SPDX-License-Identifier: Apache-2.0
// What a command must be before a rank carries it out. It comes from another process, perhaps on another host: nothing
// in it is used as an index, a size or a number of anything before it was held against the plan. Pure.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/commands.h"
#include "engine/processes/rank_setting.h"

namespace netpipe {

// What this rank knows of a variant that is open here.
struct OpenHere {
  int nranks = 0;
  np_limits limits{};
};

// The longest that any visit of this plan may be given: sixteen of its deadlines, for visits that are expected to last,
// and four times the budget of a curve. Rank 0 keeps to it.
std::int64_t longest_deadline_ns(const Plan& plan);

// Does the plan have this command, for this rank, now? open: of the command's variant, nullptr where that is not open
// or not there. The failure is the end of a sentence that begins with who sent it.
Outcome check_command(const RankSetting& setting, const OpenHere* open, const Command& command);

}  // namespace netpipe
