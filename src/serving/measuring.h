// SPDX-License-Identifier: Apache-2.0
// The process that measures for a client of `netpipe-worker serve`: a program of its own, with an address layout of its
// own, that has taken from itself what it does not need before it looks at anything that the client sent. Then it is
// rank 1 of the client's plan.
#pragma once

#include <span>
#include <string>

#include "plan/plan.h"
#include "serving/admission.h"

namespace netpipe {

// The name of the command that it is started with, by this program alone.
inline constexpr const char* serving_command = "serving";

// In the forked process: becomes that program. Returns only where that failed.
Ending become_serving(Descriptor control, int words_fd, const Admission& admission);
// That program. arguments: what follows the command. Returns only where it was not started by become_serving.
int serving_main(std::span<const std::string> arguments);

struct RemotePlan {
  Plan plan;
  Resolved resolved;
};
// May this server carry out that plan within its bounds?
Result<RemotePlan> check_remote_plan(const std::string& plan_text, const Bounds& bounds, const Registry& registry);

}  // namespace netpipe
