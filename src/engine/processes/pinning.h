// SPDX-License-Identifier: Apache-2.0
// The processors that the ranks of one host run on.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace netpipe {

// One processor for each rank, -1 for a rank that is not pinned. The failure says what is wrong with pin.
Result<std::vector<int>> choose_cpus(const Pinning& pin, int ranks);
// Processors that this process may run on, ascending; empty: the kernel does not say.
std::vector<int> usable_cpus();
// Whether this process may still run where it was placed, on these processors and no others; else the end of a sentence
// that begins with the rank. Empty: nobody knows.
Outcome check_cpus(const std::vector<int>& placed);
bool ranks_share_a_cpu(const std::vector<int>& cpus);
Outcome pin_to(int cpu);  // this process; -1: does nothing

}  // namespace netpipe
