// SPDX-License-Identifier: Apache-2.0
// What the worker knows, as JSON for whoever drives it; and what a plan resolves to.
#pragma once

#include <string>

#include "catalog/registry.h"
#include "plan/plan.h"

namespace netpipe {

// What is known without loading a module: the plan's keys, the options that every variant and pattern has, exit codes,
// the words of waiting, where modules are looked for.
std::string keys_json();
// All of that, and the modules, the patterns, and the module files that were refused.
std::string listing_json(const Registry& registry);
// The plan's record, with its curves and what they will take.
std::string resolved_plan_json(const Plan& plan, const Resolved& resolved);

}  // namespace netpipe
