// SPDX-License-Identifier: Apache-2.0
#include "worker/checks.h"

#include <algorithm>
#include <string>

#include "base/descriptor.h"
#include "base/text.h"
#include "engine/processes/pinning.h"
#include "link/reception.h"
#include "link/secret.h"
#include "machine/files.h"
#include "machine/memory.h"

namespace netpipe {
namespace {

// Ranks that share a processor measure the scheduler; beyond these numbers a mistyped --ranks is more likely than a
// wish, and the processes would take the host down before one of them could say so.
constexpr std::size_t most_processes_per_cpu = 64;
constexpr std::size_t always_allowed_processes = 1024;

// Processes that connect to an address that only this host has run here.
bool starts_here(const Plan& plan, const Variant& variant) {
  return (!launched(*variant.module) && !starts_on_hosts(plan)) || plan.bind.starts_with("127.") ||
         plan.bind == "::1" || plan.bind == "localhost";
}

Outcome two_hosts(const Plan& plan, const Resolved& resolved) {
  if (plan.host.empty()) return ok();
  for (const Variant& variant : resolved.variants) {
    if (variant.module->crosses_hosts == 0) {
      return usage(std::string("module ") + variant.module->name +
                   " stays on one host; leave it out of a run with --host");
    }
    if (has_daemons(*variant.module)) {
      return usage(std::string("module ") + variant.module->name +
                   " needs daemons, which netpipe serve does not start; measure it with --hosts, or leave it out");
    }
    if (!launched(*variant.module) && variant.ranks > 2) {
      return usage("variant " + variant.name + " has " + std::to_string(variant.ranks) +
                   " ranks, and a run with --host has one on each host; write " + variant.module->name + ":ranks=2");
    }
  }
  const Result<std::string> token = read_token(plan.token_file);
  if (!token) return token.failure();
  return ok();
}

// netpipe's own layers have a rank on each host, or more. What a library does on the hosts is its own affair.
Outcome hosts_fit(const Plan& plan, const Resolved& resolved) {
  if (!starts_on_hosts(plan)) return ok();
  const std::size_t hosts = split(plan.hosts, ',').size();
  for (const Variant& variant : resolved.variants) {
    if (launched(*variant.module)) continue;
    const std::string name = variant.module->name;
    if (variant.module->crosses_hosts == 0) {
      return usage("module " + name + " does not cross hosts; leave it out of a run with --hosts");
    }
    if (static_cast<std::size_t>(variant.ranks) < hosts) {
      return usage("variant " + variant.name + " has " + counted(static_cast<std::uint64_t>(variant.ranks), "rank") +
                   " and --hosts names " + counted(hosts, "host") +
                   ", and each must have a rank; name fewer hosts, or give the variant more ranks");
    }
  }
  return ok();
}

}  // namespace

Outcome room_for_connections(int connections) {
  constexpr std::size_t ours = 64 + Reception::strangers;
  const std::string who = counted(static_cast<std::uint64_t>(connections), "process", "processes");
  return room_for_descriptors(static_cast<std::size_t>(connections) + ours,
                              who + (connections == 1 ? " needs" : " need"), ", or use fewer ranks");
}

Outcome processors_exist(const Plan& plan, const Resolved& resolved, const std::vector<int>& usable) {
  if (plan.pin.kind != Pinning::Kind::list) return ok();
  std::size_t here = static_cast<std::size_t>(plan.host.empty() ? resolved.nranks : 1);
  const std::string pin = "pin " + pin_text(plan.pin);
  for (const Variant& variant : resolved.variants) {
    if (!plan.host.empty() || !starts_here(plan, variant)) continue;
    here = std::max(here, static_cast<std::size_t>(variant.ranks));
    if (plan.pin.cpus.size() < static_cast<std::size_t>(variant.ranks)) {
      return usage(pin + " names " + counted(plan.pin.cpus.size(), "processor") + " for the " +
                   counted(static_cast<std::uint64_t>(variant.ranks), "rank") + " of variant " + variant.name +
                   "; name one for each rank");
    }
  }
  for (std::size_t i = 0; i < std::min(here, plan.pin.cpus.size()); ++i) {
    const int cpu = plan.pin.cpus[i];
    if (usable.empty() || std::find(usable.begin(), usable.end(), cpu) != usable.end()) continue;
    return usage(pin + ": this process cannot use processor " + std::to_string(cpu) + "; it can use " +
                 cpu_list_text(usable) + ". Name some of these, or pin none");
  }
  return ok();
}

Outcome processes_fit(const Plan& plan, const Resolved& resolved, std::size_t usable) {
  const std::size_t most = std::max(always_allowed_processes, most_processes_per_cpu * usable);
  for (const Variant& variant : resolved.variants) {
    if (!starts_here(plan, variant) || static_cast<std::size_t>(variant.ranks) <= most) continue;
    return usage("variant " + variant.name + " has " + std::to_string(variant.ranks) +
                 " ranks, and this host with its " + counted(usable, "processor") + " runs at most " +
                 std::to_string(most) + "; use fewer ranks, or more hosts (--hosts)");
  }
  return ok();
}

Result<std::vector<int>> place_program(const Pinning& pin, int ranks, const std::vector<int>& usable) {
  Plan plan;
  plan.pin = pin;
  Resolved resolved;
  resolved.nranks = ranks;
  if (pin.kind == Pinning::Kind::nearness && ranks != 2) {
    return usage("pin " + pin_text(pin) + " selects two processors, for two ranks and not for " +
                 std::to_string(ranks) + "; name one processor for each rank");
  }
  if (pin.kind == Pinning::Kind::list && pin.cpus.size() < static_cast<std::size_t>(ranks)) {
    return usage("pin " + pin_text(pin) + " names " + counted(pin.cpus.size(), "processor") + " for " +
                 counted(static_cast<std::uint64_t>(ranks), "rank") + "; name one for each rank");
  }
  if (Outcome exist = processors_exist(plan, resolved, usable); !exist) return exist.failure();
  Result<std::vector<int>> cpus = choose_cpus(pin, ranks);
  if (cpus && pin.kind == Pinning::Kind::automatic && ranks_share_a_cpu(*cpus)) cpus->assign(cpus->size(), -1);
  return cpus;
}

Outcome can_run_here(const Plan& plan, const Resolved& resolved) {
  if (Outcome far = two_hosts(plan, resolved); !far) return far;
  if (Outcome fit = hosts_fit(plan, resolved); !fit) return fit;
  const std::vector<int> usable = usable_cpus();
  if (Outcome fit = processes_fit(plan, resolved, usable.size()); !fit) return fit;
  for (const Variant& variant : resolved.variants) {
    if (Outcome room = room_for_connections(variant.ranks); !room) return room;
  }
  if (Outcome exist = processors_exist(plan, resolved, usable); !exist) return exist;
  if (const Result<std::vector<int>> cpus = choose_cpus(plan.pin, plan.host.empty() ? resolved.nranks : 1); !cpus) {
    return cpus.failure();
  }
  return fits_here(plan, resolved, available_memory_bytes());
}

}  // namespace netpipe
