// SPDX-License-Identifier: Apache-2.0
// What a server does for a client: checks the client's plan, and is rank 1 of it.
#pragma once

#include <string>

#include "catalog/registry.h"
#include "serving/admission.h"

namespace netpipe {

// What is known of this host before anything of the client's is looked at.
struct ServingHost {
  Registry registry;
  int cpu = -1;       // that rank 1 is pinned to
  std::string facts;  // environment_json
};

// May this server carry out that plan within its bounds?
Outcome check_remote_plan(const std::string& plan_text, const Bounds& bounds, const Registry& registry);

// Rank 1 of a client's plan. Owns the control connection.
Ending serve_rank(int control_fd, const Admission& admission, const ServingHost& host);

}  // namespace netpipe
