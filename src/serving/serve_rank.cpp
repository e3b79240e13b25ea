// SPDX-License-Identifier: Apache-2.0
#include "serving/serve_rank.h"

#include <limits>

#include "engine/forked.h"
#include "engine/rank_life.h"
#include "engine/watchdog.h"
#include "plan/plan.h"

namespace netpipe {

Ending serve_rank(int control_fd, const Admission& admission, const ServingHost& host) {
  const auto group = make_socket_group(1, 2, {control_fd}, Watchdog::abort_flag(), {admission.keys});
  group->rename(0, "the client " + admission.peer_host);
  const auto ended = [](const Failure& why) { return Ending{static_cast<int>(why.exit), true, why.sentence}; };
  const Result<Plan> plan = parse_plan(admission.plan_text);
  if (!plan) return ended(plan.failure());
  const Result<Resolved> resolved = resolve(*plan, host.registry);
  if (!resolved) return ended(resolved.failure());
  ForkedProcess process({.plan = &*plan, .rank = 1, .cpu = host.cpu, .one_host = false});
  RankSetting setting;
  setting.group = group.get();
  setting.process = &process;
  setting.plan = &*plan;
  setting.resolved = &*resolved;
  setting.job = admission.job;
  setting.local_address = admission.local_address;
  // While a job comes to life (its launcher, then two deadlines to open the library) nobody speaks to this rank.
  const double job_s = has_jobs(*resolved) ? plan->joining_s + 3 * plan->timeout_s : 0;
  setting.silence_ns = static_cast<std::int64_t>((plan->timeout_s + job_s) * 1e9);
  if (Outcome watched = Watchdog::install(true); !watched) return ended(watched.failure());
  if (Outcome lived = live_as_rank(std::move(setting), host.facts); !lived) return ended(lived.failure());
  return Ending{static_cast<int>(Exit::done), true, {}};
}

Outcome check_remote_plan(const std::string& plan_text, const Bounds& bounds, const Registry& registry) {
  const Result<Plan> plan = parse_plan(plan_text);
  if (!plan) return plan.failure();
  if (!plan->module_files.empty() || plan->record != "-" || !plan->host.empty()) {
    return usage("the plan names files or another host; a server measures with its own modules and writes nothing");
  }
  const Result<Resolved> resolved = resolve(*plan, registry);
  if (!resolved) return resolved.failure();
  for (const Variant& variant : resolved->variants) {
    if (variant.module->crosses_hosts != 0) continue;
    return usage(std::string("module ") + variant.module->name + " does not cross hosts");
  }
  if (canonical_text(*plan, *resolved) != plan_text) {
    return usage(
        "the two hosts understand the plan differently: their modules have other options or defaults; install the same "
        "netpipe on both");
  }
  const std::uint64_t largest = resolved->sizes.back();
  if (bounds.max_message_bytes != 0 && largest > bounds.max_message_bytes) {
    return usage("messages of " + std::to_string(largest) + " bytes are above this server's limit of " +
                 std::to_string(bounds.max_message_bytes) +
                 "; end the schedule earlier, or serve with a larger --max-size");
  }
  const std::uint64_t half = half_bytes(resolved->pool);
  const std::uint64_t halves = 2 * resolved->variants.size();
  constexpr std::uint64_t no_end = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t memory = half > no_end / halves ? no_end : half * halves;
  if (bounds.max_memory_bytes != 0 && memory > bounds.max_memory_bytes) {
    return usage("the plan needs " + std::to_string(memory) + " bytes of buffers, above this server's limit of " +
                 std::to_string(bounds.max_memory_bytes) +
                 "; measure fewer variants or smaller messages, or serve with a larger --max-memory");
  }
  return ok();
}

}  // namespace netpipe
