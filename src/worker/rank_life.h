// SPDX-License-Identifier: Apache-2.0
// What a process does that is a rank other than 0, on whichever host.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/rank_setting.h"

namespace netpipe {

// Pins the process, tells rank 0 about this host and carries out its commands until the end. facts: of this host, a
// JSON object; "" where it is rank 0's own.
Outcome live_as_rank(RankSetting setting, const std::string& facts);

// Does any variant of the plan need a job?
bool has_jobs(const Resolved& resolved);

}  // namespace netpipe
