// SPDX-License-Identifier: Apache-2.0
// What a process does that is a rank other than 0, on whichever host.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/processes/rank_setting.h"
#include "link/group.h"

namespace netpipe {

// Pins the process, tells rank 0 about this host and carries out its commands until the end. facts: of this host, a
// JSON object; "" where it is rank 0's own.
Outcome live_as_rank(RankSetting setting, const std::string& facts);

// Collective: at rank 0 the facts of all ranks, as they sent them. The first that ranks tell each other, so a host that
// took the connection and then fell silent shows here.
Result<std::vector<std::string>> gather_facts(Group& group, const Plan& plan, const std::string& mine);

// Does any variant of the plan need a job?
bool has_jobs(const Resolved& resolved);

}  // namespace netpipe
