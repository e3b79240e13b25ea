// SPDX-License-Identifier: Apache-2.0
// Which processors share what.
#pragma once

#include <vector>

#include "machine/files.h"

namespace netpipe {

struct Topology {
  struct Cpu {
    int cpu = 0;
    // The lowest processor of the set that this one belongs to; itself where the machine does not say.
    int core = 0;     // SMT siblings
    int cache = 0;    // those that share its last level of cache
    int package = 0;  // the socket
    int node = -1;    // NUMA node; -1: not known
    int capacity =
        0;  // relative speed of its kind of core; 0: not known. Differs on machines with big and little cores.
  };
  std::vector<Cpu> online;   // ascending
  std::vector<int> allowed;  // the affinity mask of this process, as far as it is online

  [[nodiscard]] const Cpu* find(int cpu) const;
};

Topology read_topology(const Files& files);

}  // namespace netpipe
