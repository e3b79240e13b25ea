// SPDX-License-Identifier: Apache-2.0
#include "engine/processes/rank_life.h"

#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "engine/processes/pinning.h"
#include "engine/watchdog.h"

namespace netpipe {

Result<std::vector<std::string>> gather_facts(Group& group, const Plan& plan, const std::string& mine) {
  Watchdog::arm(static_cast<std::int64_t>(plan.timeout_s * 1e9), nullptr, {}, -1);
  Result<std::vector<std::string>> all = group.gather_text(mine);
  const Cause cause = Watchdog::disarm();
  if (!all && cause == Cause::interrupted)
    return Failure{Exit::interrupted, "interrupted before anything was measured"};
  return all;
}

Outcome live_as_rank(RankSetting setting, const std::string& facts) {
  if (Outcome pinned = pin_to(setting.process->cpu()); !pinned) return pinned;
  if (const auto sent = gather_facts(*setting.group, *setting.plan, facts); !sent) return sent.failure();
  Engine engine(std::move(setting));
  return engine.follow_commands();
}

bool has_jobs(const Resolved& resolved) {
  return std::any_of(resolved.variants.begin(), resolved.variants.end(),
                     [](const Variant& variant) { return launched(*variant.module); });
}

}  // namespace netpipe
