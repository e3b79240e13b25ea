// SPDX-License-Identifier: Apache-2.0
#include "machine/topology.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "base/text.h"
#include "machine/environment.h"

namespace netpipe {
namespace {

std::string cpu_path(int cpu, const std::string& file) {
  return "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + file;
}

// The processors that share the highest level of cache with this one; empty when there is no word of a cache.
std::vector<int> last_level_sharers(const Files& files, int cpu) {
  std::int64_t highest = 0;
  std::vector<int> sharers;
  for (int index = 0; index < 10; ++index) {
    const std::string directory = cpu_path(cpu, "cache/index" + std::to_string(index));
    const auto level = files.number(directory + "/level");
    if (!level) break;
    if (*level <= highest) continue;
    highest = *level;
    sharers = files.cpu_list(directory + "/shared_cpu_list");
  }
  return sharers;
}

// From the file, which sees a fake root too; from the kernel where /proc is not mounted or too old to say.
std::vector<int> affinity(const Files& files) {
  if (const auto status = files.read("/proc/self/status")) {
    if (const auto list = colon_field(*status, "Cpus_allowed_list")) return parse_cpu_list(*list);
  }
  std::vector<int> cpus;
  if (!files.live()) return cpus;
  constexpr int most = 8192;
  const auto free_set = [](cpu_set_t* set) { CPU_FREE(set); };
  const std::unique_ptr<cpu_set_t, decltype(free_set)> set(CPU_ALLOC(most), free_set);
  if (!set || sched_getaffinity(0, CPU_ALLOC_SIZE(most), set.get()) != 0) return cpus;
  for (int cpu = 0; cpu < most; ++cpu) {
    if (CPU_ISSET_S(cpu, CPU_ALLOC_SIZE(most), set.get())) cpus.push_back(cpu);
  }
  return cpus;
}

// The relative speed of the kinds of core: from the scheduler where it knows (Arm, and x86 from Linux 6.12), else from
// the name of the PMU that counts an Intel machine's small cores.
void read_capacities(const Files& files, std::vector<Topology::Cpu>& online) {
  if (!online.empty() && files.exists(cpu_path(online.front().cpu, "cpu_capacity"))) {
    for (auto& cpu : online)
      cpu.capacity = static_cast<int>(files.number(cpu_path(cpu.cpu, "cpu_capacity")).value_or(0));
    return;
  }
  const std::vector<int> small = files.cpu_list("/sys/devices/cpu_atom/cpus");
  if (small.empty()) return;
  for (auto& cpu : online) cpu.capacity = std::binary_search(small.begin(), small.end(), cpu.cpu) ? 1 : 2;
}

// The first `wanted` cores of the first group that has so many: of those that share a cache, else a socket, else of
// all. Empty where there are not enough.
std::vector<int> closest_group(const std::vector<Topology::Cpu>& cores, std::size_t wanted, bool avoid_cpu0) {
  using Cpu = Topology::Cpu;
  using Group = int (*)(const Cpu&);
  const std::array<Group, 3> groups{[](const Cpu& cpu) { return cpu.cache; },
                                    [](const Cpu& cpu) { return cpu.package; }, [](const Cpu&) { return 0; }};
  for (const Group group : groups) {
    for (const bool avoid : {true, false}) {
      if (avoid && !avoid_cpu0) continue;
      for (const Cpu& leader : cores) {
        std::vector<int> members;
        for (const Cpu& core : cores) {
          const bool fits = group(core) == group(leader) && !(avoid && core.core == 0);
          if (fits && members.size() < wanted) members.push_back(core.cpu);
        }
        if (members.size() == wanted) return members;
      }
    }
  }
  return {};
}

// One processor per physical core; the others are its idle siblings.
struct Cores {
  std::vector<Topology::Cpu> first;
  std::vector<int> siblings;
};
Cores cores_of(const Topology& topology) {
  Cores cores;
  for (const int number : topology.allowed) {
    const Topology::Cpu& cpu = *topology.find(number);
    const bool seen =
        std::any_of(cores.first.begin(), cores.first.end(), [&](const auto& one) { return one.core == cpu.core; });
    seen ? cores.siblings.push_back(cpu.cpu) : cores.first.push_back(cpu);
  }
  return cores;
}

constexpr std::size_t few_cores = 4;  // so few are not given away to spare that of processor 0

}  // namespace

const Topology::Cpu* Topology::find(int cpu) const {
  const auto at =
      std::lower_bound(online.begin(), online.end(), cpu, [](const Cpu& one, int n) { return one.cpu < n; });
  return at != online.end() && at->cpu == cpu ? &*at : nullptr;
}

Topology read_topology(const Files& files) {
  Topology topology;
  const std::vector<int> mask = affinity(files);
  std::vector<int> cpus = files.cpu_list("/sys/devices/system/cpu/online");
  if (cpus.empty()) cpus = mask;
  std::set_intersection(mask.begin(), mask.end(), cpus.begin(), cpus.end(), std::back_inserter(topology.allowed));

  // Each list names all members of its set, so one file per core, cache and socket is read and not one per processor:
  // a machine with 256 processors would otherwise cost more than all the rest.
  std::map<int, int> core_of, cache_of, package_of, node_of;
  const auto note = [](std::map<int, int>& of, int cpu, const std::vector<int>& members) {
    of[cpu] = cpu;
    for (const int member : members) of[member] = members.front();
  };
  const auto siblings = [&](int cpu, const char* name, const char* older_name) {
    std::vector<int> list = files.cpu_list(cpu_path(cpu, name));
    return list.empty() ? files.cpu_list(cpu_path(cpu, older_name)) : list;
  };
  for (const int cpu : cpus) {
    if (!core_of.contains(cpu))
      note(core_of, cpu, siblings(cpu, "topology/core_cpus_list", "topology/thread_siblings_list"));
    if (!package_of.contains(cpu)) {
      note(package_of, cpu, siblings(cpu, "topology/package_cpus_list", "topology/core_siblings_list"));
    }
    if (!cache_of.contains(cpu)) {
      const std::vector<int> sharers = last_level_sharers(files, cpu);
      // A guest whose hypervisor hides the caches: the socket is the best guess.
      if (sharers.empty()) {
        cache_of[cpu] = package_of[cpu];
      } else {
        note(cache_of, cpu, sharers);
      }
    }
  }
  for (const int node : files.cpu_list("/sys/devices/system/node/online")) {
    for (const int cpu : files.cpu_list("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist"))
      node_of[cpu] = node;
  }
  for (const int cpu : cpus) {
    const auto node = node_of.find(cpu);
    topology.online.push_back(
        {cpu, core_of[cpu], cache_of[cpu], package_of[cpu], node == node_of.end() ? -1 : node->second, 0});
  }
  read_capacities(files, topology.online);
  return topology;
}

std::vector<int> sensible_cpus(int ranks, const Host& host) {
  using Cpu = Topology::Cpu;
  const Topology topology = read_topology(Files(host));
  const auto wanted = static_cast<std::size_t>(std::max(ranks, 0));

  auto [cores, siblings] = cores_of(topology);
  std::stable_sort(cores.begin(), cores.end(), [](const Cpu& a, const Cpu& b) { return a.capacity > b.capacity; });

  // Cores of one kind first, the fastest first; only where no kind has enough of them, a mixture.
  std::set<int, std::greater<>> kinds;
  for (const Cpu& core : cores) kinds.insert(core.capacity);
  const bool avoid_cpu0 = cores.size() > few_cores;
  for (const int kind : kinds) {
    std::vector<Cpu> same;
    std::copy_if(cores.begin(), cores.end(), std::back_inserter(same),
                 [&](const Cpu& c) { return c.capacity == kind; });
    if (auto group = closest_group(same, wanted, avoid_cpu0); !group.empty()) return group;
  }
  if (auto group = closest_group(cores, wanted, avoid_cpu0); !group.empty()) return group;

  std::vector<int> all;
  for (const Cpu& core : cores) all.push_back(core.cpu);
  all.insert(all.end(), siblings.begin(), siblings.end());
  for (std::size_t i = 0; !all.empty() && all.size() < wanted; ++i) all.push_back(all[i]);
  if (all.size() > wanted) all.resize(wanted);
  return all;
}

Result<std::vector<int>> two_cpus(Nearness nearness, const Host& host) {
  using Cpu = Topology::Cpu;
  const Files files(host);
  const Topology topology = read_topology(files);
  if (topology.allowed.empty() || (!files.exists(cpu_path(topology.allowed[0], "topology/package_cpus_list")) &&
                                   !files.exists(cpu_path(topology.allowed[0], "topology/core_siblings_list")))) {
    return unavailable("pin: this host does not say which processors share what; name two of them");
  }
  const std::vector<Cpu> cores = cores_of(topology).first;
  std::set<int> caches, packages;
  std::map<int, std::set<int>> caches_of;
  for (const Cpu& cpu : cores) {
    caches.insert(cpu.cache);
    packages.insert(cpu.package);
    caches_of[cpu.package].insert(cpu.cache);
  }
  const auto fits = [&](const Cpu& a, const Cpu& b) {
    const bool one_core = a.core == b.core;
    switch (nearness) {
      case Nearness::smt: return one_core;
      case Nearness::cache: return !one_core && a.cache == b.cache && a.package == b.package;
      case Nearness::socket:
        return !one_core && a.package == b.package && (caches_of[a.package].size() == 1 || a.cache != b.cache);
      case Nearness::sockets: return a.package != b.package;
    }
    return false;
  };
  // Of one kind, then fast, then not the core of processor 0, then the first.
  std::optional<std::tuple<bool, int, bool>> best;
  std::vector<int> found;
  for (auto one = topology.allowed.begin(); one != topology.allowed.end(); ++one) {
    for (auto other = one + 1; other != topology.allowed.end(); ++other) {
      const Cpu& a = *topology.find(*one);
      const Cpu& b = *topology.find(*other);
      if (!fits(a, b)) continue;
      const bool spares = cores.size() <= few_cores || (a.core != 0 && b.core != 0);
      const std::tuple rank{a.capacity == b.capacity, std::min(a.capacity, b.capacity), spares};
      if (best && rank <= *best) continue;
      best = rank;
      found = {a.cpu, b.cpu};
    }
  }
  if (best) return found;
  static constexpr std::array<const char*, 4> wanted = {
      "processors of one core", "cores that share the last level of cache", "cores of one socket", "sockets"};
  return unavailable(std::string("pin ") + nearness_names[static_cast<std::size_t>(nearness)] + ": there are no two " +
                     wanted[static_cast<std::size_t>(nearness)] + " here; this process may use " +
                     counted(packages.size(), "socket") + " with " + counted(caches.size(), "last-level cache") + ", " +
                     counted(cores.size(), "core") + " and " + counted(topology.allowed.size(), "processor"));
}

}  // namespace netpipe
