// SPDX-License-Identifier: Apache-2.0
// What one rank knows before its first command, for all files of the engine.
#pragma once

#include <cstdint>
#include <string>

#include "engine/processes/process.h"
#include "engine/yardsticks.h"
#include "link/group.h"
#include "plan/plan.h"

namespace netpipe {

struct RankSetting {
  Group* group = nullptr;
  RankProcess* process = nullptr;
  const Plan* plan = nullptr;
  const Resolved* resolved = nullptr;
  SharedPage* shared_page = nullptr;  // with the other ranks of this host, for yardsticks; or nullptr
  std::string job;                    // the same on all ranks, unguessable
  std::string local_address;          // numeric
  bool oversubscribed = false;        // ranks share a processor
  std::int64_t silence_ns = 0;        // how long rank 0 may be silent before this rank gives up; 0: as long as it lives

  [[nodiscard]] std::int64_t timeout_ns() const { return static_cast<std::int64_t>(plan->timeout_s * 1e9); }
};

}  // namespace netpipe
