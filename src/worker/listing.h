// SPDX-License-Identifier: Apache-2.0
// What the worker says about itself: modules, options, patterns; and what a plan comes to.
#pragma once

#include <string>

#include "catalog/plan.h"
#include "catalog/registry.h"

namespace netpipe {

std::string listing_json(const Registry& registry);
std::string resolved_plan_json(const Plan& plan, const Resolved& resolved);

}  // namespace netpipe
