// SPDX-License-Identifier: Apache-2.0
// Which curves a plan comes to with the variants that are open, and what of it is skipped. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/opening/opening.h"
#include "plan/plan.h"
#include "sampling/sampler.h"

namespace netpipe {

struct Skipped {
  std::uint32_t variant = 0;
  std::string pattern;
  std::optional<std::uint64_t> size_bytes;  // nullopt: all sizes
  std::string reason;
};

struct Curves {
  std::vector<CurveSetting> settings;
  std::vector<Skipped> skipped;
};

// openings: by variant; nullopt: it is not open.
Curves plan_curves(const Plan& plan, const Resolved& resolved, const std::vector<std::optional<Opening>>& openings);

}  // namespace netpipe
