// SPDX-License-Identifier: Apache-2.0
// What a process does that is a rank other than 0, on whichever host.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/forked.h"
#include "engine/rank_setting.h"
#include "link/group.h"

namespace netpipe {

// Pins the process, tells rank 0 about this host and carries out its commands. Returns the exit code. remote: rank 0 is
// on another host, so what goes wrong has to be said here.
int live_as_rank(RankSetting setting, bool remote);

// The `environment` record of this host. cpus: that its ranks are pinned to. Before a process pins itself, which
// narrows what it may use.
std::string environment_here(const Plan& plan, int rank, const std::vector<int>& cpus);
// Collective: at rank 0 the records of all ranks. The first that ranks tell each other, so a host that took the
// connection and then fell silent shows here.
Result<std::vector<std::string>> gather_environments(Group& group, const Plan& plan, const std::string& mine);

// Does any variant of the plan need a job?
bool has_jobs(const Resolved& resolved);

}  // namespace netpipe
