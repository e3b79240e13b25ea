// SPDX-License-Identifier: Apache-2.0
// From a plan to its measurement: brings the ranks to life, and leads them or is one of them.
#pragma once

#include <string>

#include "plan/plan.h"
#include "worker/workers/launcher_io.h"

namespace netpipe {

// Rank 0 of a plan: with ranks that it forks here, or, where the plan names a host, with that host's server. Returns
// the exit code.
int run(const Plan& plan, LauncherInput& input);

}  // namespace netpipe
