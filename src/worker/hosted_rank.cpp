// SPDX-License-Identifier: Apache-2.0
#include "worker/hosted_rank.h"

#include <memory>
#include <utility>
#include <vector>

#include "base/complain.h"
#include "base/host_name.h"
#include "base/text.h"
#include "engine/engine.h"
#include "engine/hosted.h"
#include "engine/join.h"
#include "engine/pinning.h"
#include "engine/placement.h"
#include "engine/watchdog.h"
#include "machine/environment.h"

namespace netpipe {
namespace {

// What one rank needs before its first command.
struct Ready {
  Plan plan;
  std::unique_ptr<Registry> registry;  // resolved points into it
  Resolved resolved;
  std::vector<int> cpus;  // of the ranks of this host
  int cpu = -1;           // that this process is pinned to
  std::string facts;      // of this host, taken before it was pinned
};

Outcome plan_here(const std::string& text, Ready& ready) {
  const Result<Plan> plan = parse_plan(text);
  if (!plan) return plan.failure();
  ready.plan = *plan;
  Result<Registry> registry = Registry::load({}, ready.plan.module_files);
  if (!registry) {
    return Failure{registry.failure().exit,
                   registry.failure().sentence + "; modules have to be at the same paths on both hosts"};
  }
  if (Outcome bound = registry->bind(modules_of(ready.plan)); !bound) return bound;
  ready.registry = std::make_unique<Registry>(std::move(*registry));
  Result<Resolved> resolved = resolve(ready.plan, *ready.registry);
  if (!resolved) return resolved.failure();
  ready.resolved = std::move(*resolved);
  if (text.starts_with(canonical_text(ready.plan, ready.resolved))) return ok();
  return usage(
      "the two hosts understand the plan differently: their modules have other options or defaults; install the same "
      "netpipe on both");
}

Outcome pin_here(const std::vector<std::string>& host_of_member, int rank, Ready& ready) {
  Placement placement;
  placement.host_of_rank.assign(host_of_member.begin() + 1, host_of_member.end());
  const Placement::Local local = placement.local(rank, host_name());
  Result<std::vector<int>> cpus = choose_cpus(ready.plan.pin, local.count);
  if (!cpus) return cpus.failure();
  ready.cpus = std::move(*cpus);
  ready.cpu = ready.cpus[static_cast<std::size_t>(local.index)];
  ready.facts = environment_json(std::vector<int>{ready.cpu});
  return pin_to(ready.cpu);
}

// What the conductor is told: the processor, and the facts of this host.
Result<std::string> prepare(const std::string& plan_text, const std::vector<std::string>& host_of_member, int rank,
                            Ready& ready) {
  if (Outcome planned = plan_here(plan_text, ready); !planned) return planned.failure();
  if (Outcome pinned = pin_here(host_of_member, rank, ready); !pinned) return pinned.failure();
  return std::to_string(ready.cpu) + " " + ready.facts;
}

}  // namespace

int hosted_rank(const char* rank_text) {
  const Result<std::int64_t> number = parse_integer(rank_text);
  if (!number || *number < 0 || *number > 1) {
    return complain(usage(std::string(rank_variable) + " is '" + rank_text + "', and the ranks are 0 and 1"));
  }
  const auto rank = static_cast<int>(*number);
  if (Outcome watched = Watchdog::install(false); !watched) return complain(watched.failure());
  const Result<Joined> joined = join_job(true, " " + std::to_string(rank) + " " + NETPIPE_VERSION + " " + host_name());
  if (!joined) return complain(joined.failure());
  Group& group = *joined->group;
  // What fails from here on is the conductor's to say.
  const Result<std::vector<std::string>> hosts = group.exchange_text(host_name());
  if (!hosts) return static_cast<int>(hosts.failure().exit);
  Ready ready;
  const Result<std::vector<std::string>> told = group.agree_for_root(prepare(joined->plan_text, *hosts, rank, ready));
  if (!told) return static_cast<int>(told.failure().exit);
  HostedProcess process(rank, ready.cpu);
  RankSetting setting;
  setting.group = &group;
  setting.process = &process;
  setting.plan = &ready.plan;
  setting.resolved = &ready.resolved;
  setting.job = joined->job;
  setting.local_address = joined->local_address;
  setting.oversubscribed = ranks_share_a_cpu(ready.cpus);
  Engine engine(std::move(setting));
  return static_cast<int>(engine.follow_commands() ? Exit::done : Exit::failed);
}

}  // namespace netpipe
