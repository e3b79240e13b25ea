// SPDX-License-Identifier: Apache-2.0
// On which processors the ranks of one host run.
#pragma once

#include <vector>

#include "catalog/plan.h"

namespace netpipe {

// One processor per rank, -1 for a rank that is not pinned.
Result<std::vector<int>> choose_cpus(const Pinning& pin, int ranks);
bool ranks_share_a_cpu(const std::vector<int>& cpus);
Outcome pin_to(int cpu);  // -1: leaves it where it is

}  // namespace netpipe
