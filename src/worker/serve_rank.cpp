// SPDX-License-Identifier: Apache-2.0
// What a server does for a client: checks the client's plan, and is rank 1 of it.
#include "engine/pinning.h"
#include "engine/watchdog.h"
#include "machine/environment.h"
#include "worker/complain.h"
#include "worker/rank_life.h"
#include "worker/run.h"

namespace netpipe {

int serve_rank(int control_fd, const std::string& plan_text, const std::string& local_address, const std::string& job) {
  const Result<Plan> plan = parse_plan(plan_text);
  if (!plan) return complain(plan.failure());
  Result<Registry> registry = Registry::load(module_directories(), {});
  if (!registry) return complain(registry.failure());
  if (Outcome bound = registry->bind(modules_of(*plan)); !bound) return complain(bound.failure());
  const Result<Resolved> resolved = resolve(*plan, *registry);
  if (!resolved) return complain(resolved.failure());
  const auto group = make_socket_group(1, 2, {control_fd}, Watchdog::abort_flag());
  // A client on the same host has taken the first of the sensible processors; this is rank 1 wherever it runs.
  const std::vector<int> cpus = sensible_cpus(2);
  ForkedProcess process({.plan = &*plan, .rank = 1, .cpu = cpus.size() < 2 ? -1 : cpus[1], .one_host = false});
  RankSetting setting;
  setting.group = group.get();
  setting.process = &process;
  setting.plan = &*plan;
  setting.resolved = &*resolved;
  setting.job = job;
  setting.local_address = local_address;
  // While a job comes to life (its launcher, then two deadlines to open the library) nobody speaks to this rank.
  const double job_s = has_jobs(*resolved) ? plan->joining_s + 3 * plan->timeout_s : 0;
  setting.silence_ns = static_cast<std::int64_t>((plan->timeout_s + job_s) * 1e9);
  if (Outcome watched = Watchdog::install(true); !watched) return complain(watched.failure());
  return live_as_rank(std::move(setting), true);
}

Outcome check_remote_plan(const std::string& plan_text, const Bounds& bounds) {
  const Result<Plan> plan = parse_plan(plan_text);
  if (!plan) return plan.failure();
  if (!plan->module_files.empty() || plan->record != "-" || !plan->host.empty()) {
    return usage("the plan names files or another host; a server measures with its own modules and writes nothing");
  }
  const Result<Registry> registry = Registry::load(module_directories(), {});
  if (!registry) return registry.failure();
  const Result<Resolved> resolved = resolve(*plan, *registry);
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
  const std::uint64_t memory = 2 * half_bytes(resolved->pool) * resolved->variants.size();
  if (bounds.max_memory_bytes != 0 && memory > bounds.max_memory_bytes) {
    return usage("the plan needs " + std::to_string(memory) + " bytes of buffers, above this server's limit of " +
                 std::to_string(bounds.max_memory_bytes) +
                 "; measure fewer variants or smaller messages, or serve with a larger --max-memory");
  }
  return ok();
}

}  // namespace netpipe
