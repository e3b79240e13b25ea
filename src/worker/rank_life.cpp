// SPDX-License-Identifier: Apache-2.0
#include "worker/rank_life.h"

#include <algorithm>

#include "base/host_name.h"
#include "engine/engine.h"
#include "engine/pinning.h"
#include "engine/watchdog.h"
#include "machine/environment.h"
#include "worker/complain.h"
#include "worker/records.h"

namespace netpipe {

std::string environment_here(const Plan& plan, int rank, const std::vector<int>& cpus) {
  return environment_record(plan.launch, rank, host_name(), environment_json(cpus));
}

Result<std::vector<std::string>> gather_environments(Group& group, const Plan& plan, const std::string& mine) {
  Watchdog::arm(static_cast<std::int64_t>(plan.timeout_s * 1e9), nullptr, {}, -1);
  Result<std::vector<std::string>> all = group.gather_text(mine);
  const Cause cause = Watchdog::disarm();
  if (!all && cause == Cause::interrupted)
    return Failure{Exit::interrupted, "interrupted before anything was measured"};
  return all;
}

int live_as_rank(RankSetting setting, bool remote) {
  Group& group = *setting.group;
  const int cpu = setting.process->cpu();
  const Plan& plan = *setting.plan;
  // Rank 0 knows the environment of its own host.
  const std::string environment = remote ? environment_here(plan, group.rank(), {cpu}) : "";
  if (Outcome pinned = pin_to(cpu); !pinned) return complain(pinned.failure());
  if (const auto sent = gather_environments(group, plan, environment); !sent) return complain(sent.failure());
  Engine engine(std::move(setting));
  const Outcome followed = engine.follow_commands();
  if (followed) return 0;
  return remote ? complain(followed.failure()) : static_cast<int>(Exit::failed);
}

bool has_jobs(const Resolved& resolved) {
  return std::any_of(resolved.variants.begin(), resolved.variants.end(),
                     [](const Variant& variant) { return launched(*variant.module); });
}

}  // namespace netpipe
