// SPDX-License-Identifier: Apache-2.0
#include "worker/rank_life.h"

#include <algorithm>

#include "base/host_name.h"
#include "engine/engine.h"
#include "engine/pinning.h"
#include "machine/environment.h"
#include "worker/complain.h"
#include "worker/records.h"

namespace netpipe {

std::string environment_here(const Plan& plan, int rank, const std::vector<int>& cpus) {
  return environment_record(plan.launch, rank, host_name(), environment_json(cpus));
}

int live_as_rank(RankSetting setting, bool remote) {
  Group& group = *setting.group;
  const int cpu = setting.process->cpu();
  const std::string environment = environment_here(*setting.plan, group.rank(), {cpu});
  if (Outcome pinned = pin_to(cpu); !pinned) return complain(pinned.failure());
  if (const auto sent = group.gather_text(environment); !sent) return complain(sent.failure());
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
