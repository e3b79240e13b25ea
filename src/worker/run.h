// SPDX-License-Identifier: Apache-2.0
// Brings the ranks of a measurement to life and lets them measure.
#pragma once

#include <string>

#include "catalog/plan.h"
#include "link/server.h"
#include "worker/launcher_io.h"

namespace netpipe {

// Both ranks on this host, or this host's rank of a two-host run when the plan names a host. The exit code.
int run(const Plan& plan, LauncherInput& input);

// What this host's server does for a client: rank 1 of the plan that came over the control connection, which it owns
// from now on.
int serve_rank(int control_fd, const std::string& plan_text, const std::string& local_address, const std::string& job);

// May this server carry out that plan within its bounds?
Outcome check_remote_plan(const std::string& plan_text, const Bounds& bounds);

}  // namespace netpipe
