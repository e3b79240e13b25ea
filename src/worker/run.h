// SPDX-License-Identifier: Apache-2.0
// From a plan to its measurement: brings the ranks to life, and leads them or is one of them.
#pragma once

#include <string>

#include "catalog/plan.h"
#include "link/server.h"
#include "worker/launcher_io.h"

namespace netpipe {

// Rank 0 of a plan: with ranks that it forks here, or, where the plan names a host, with that host's server. Returns
// the exit code.
int run(const Plan& plan, LauncherInput& input);

// Rank 1 of a client's plan, on this host's server. Owns the control connection. Returns the exit code.
int serve_rank(int control_fd, const std::string& plan_text, const std::string& local_address, const std::string& job);

// May this server carry out that plan within its bounds?
Outcome check_remote_plan(const std::string& plan_text, const Bounds& bounds);

}  // namespace netpipe
