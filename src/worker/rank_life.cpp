// SPDX-License-Identifier: Apache-2.0
#include "worker/rank_life.h"

#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "engine/pinning.h"

namespace netpipe {

Outcome live_as_rank(RankSetting setting, const std::string& facts) {
  if (Outcome pinned = pin_to(setting.process->cpu()); !pinned) return pinned;
  if (const auto sent = setting.group->gather_text(facts); !sent) return sent.failure();
  Engine engine(std::move(setting));
  return engine.follow_commands();
}

bool has_jobs(const Resolved& resolved) {
  return std::any_of(resolved.variants.begin(), resolved.variants.end(),
                     [](const Variant& variant) { return launched(*variant.module); });
}

}  // namespace netpipe
