// SPDX-License-Identifier: Apache-2.0
#include "engine/processes/pinning.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "machine/environment.h"
#include "machine/files.h"

namespace netpipe {
std::vector<int> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> usable;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return usable;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) usable.push_back(cpu);
  }
  return usable;
}

Outcome check_cpus(const std::vector<int>& placed) {
  const std::vector<int> now = usable_cpus();
  if (placed.empty() || now.empty() || now == placed) return ok();
  const auto named = [](const std::vector<int>& cpus) {
    return (cpus.size() == 1 ? "processor " : "processors ") + cpu_list_text(cpus);
  };
  return failed(
      "was placed on " + named(placed) + " and may now run on " + named(now) +
      ": somebody else changed that (a cpuset, taskset, a processor that was switched off); what was measured "
      "before is kept");
}

Result<std::vector<int>> choose_cpus(const Pinning& pin, int ranks) {
  std::vector<int> cpus;
  if (pin.kind == Pinning::Kind::nearness) {
    Result<std::vector<int>> two = two_cpus(pin.nearness);
    if (!two) return two.failure();
    cpus = std::move(*two);
  }
  if (pin.kind == Pinning::Kind::list) cpus = pin.cpus;
  if (pin.kind == Pinning::Kind::automatic) cpus = sensible_cpus(ranks);
  cpus.resize(static_cast<std::size_t>(ranks), -1);
  return cpus;
}

bool ranks_share_a_cpu(const std::vector<int>& cpus) {
  std::set<int> distinct;
  int pinned = 0;
  for (const int cpu : cpus) {
    if (cpu < 0) continue;
    ++pinned;
    distinct.insert(cpu);
  }
  return static_cast<int>(distinct.size()) < pinned || std::max<std::size_t>(usable_cpus().size(), 1) < cpus.size();
}

Outcome pin_to(int cpu) {
  if (cpu < 0) return ok();
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return ok();
  return usage("a rank cannot be pinned to processor " + std::to_string(cpu) + ": " + std::strerror(errno) +
               "; pin to processors that this process may use, or write pin none");
}

}  // namespace netpipe
