// SPDX-License-Identifier: Apache-2.0
#include "worker/run.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/complain.h"
#include "base/host_name.h"
#include "base/sha256.h"
#include "engine/engine.h"
#include "engine/processes/forked.h"
#include "engine/processes/pinning.h"
#include "engine/processes/rank_life.h"
#include "engine/watchdog.h"
#include "link/rendezvous.h"
#include "link/secret.h"
#include "machine/environment.h"
#include "record/foreign_json.h"
#include "worker/checks.h"
#include "worker/results/records.h"
#include "worker/session.h"
#include "worker/workers/children.h"

namespace netpipe {
namespace {

std::string random_job() {
  std::array<std::byte, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    std::abort();  // the kernel has no entropy at all
  return hex(bytes);
}

// What rank 0 needs on either way to its group.
struct Leader {
  const Plan& plan;
  const Registry& registry;
  const Resolved& resolved;
  LauncherInput& input;

  // Rank 0's part once the group is there. cpus: by rank, -1 where it is not known here. far_host: of rank 1, where
  // that is on another host.
  int lead(RankSetting setting, ForkedProcess::Setting process, const std::vector<int>& cpus,
           const std::string& far_host = {}) const;
  int run_with_server() const;
  int run_here() const;
};

// Listens only where the plan has jobs, whose processes then join.
Result<JobServer> make_job_server(const Leader& leader, const std::string& job) {
  JobServer server;
  server.job = job;
  server.input = &leader.input;
  server.event = say;
  server.registry = &leader.registry;
  if (!has_jobs(leader.resolved) && !starts_on_hosts(leader.plan)) return server;
  Result<Listener> listener = listen_at(leader.plan.bind, 0);
  if (!listener) return listener.failure();
  server.listener = std::move(*listener);
  return server;
}

int Leader::lead(RankSetting setting, ForkedProcess::Setting process, const std::vector<int>& cpus,
                 const std::string& far_host) const {
  Group& group = *setting.group;
  Result<JobServer> job_server = make_job_server(*this, setting.job);
  if (!job_server) return complain(job_server.failure());
  const std::string facts = environment_json(process.one_host ? cpus : std::vector<int>{process.cpu});
  if (Outcome pinned = pin_to(process.cpu); !pinned) return complain(pinned.failure());
  Result<RunFile> file = RunFile::open(plan.record);
  if (!file) return complain(file.failure());
  // The ranks of one host have one environment.
  std::vector<std::string> environments = {environment_record(plan.launch, 0, host_name(), facts)};
  const Result<std::vector<std::string>> told = gather_facts(group, plan, {});
  if (!told) return complain(told.failure());
  if (!process.one_host) {
    const std::optional<std::string> theirs = rewritten_object((*told)[1]);
    if (!theirs) return complain(failed(group.name(1) + " sent facts about its host that are not a JSON object"));
    environments.push_back(environment_record(plan.launch, 1, far_host, *theirs));
  }
  // A job for each number of ranks. The largest says which processors and hosts there are.
  std::map<int, std::unique_ptr<HostedWorkers>> hosted;
  std::vector<HostedWorkers::Host> hosts;
  if (starts_on_hosts(plan)) {
    for (const std::uint32_t v : own_variants(resolved)) hosted[resolved.variants[v].ranks] = nullptr;
  }
  for (auto& [ranks, workers] : hosted) {
    workers = std::make_unique<HostedWorkers>(*job_server, plan, resolved, ranks);
    Result<std::vector<HostedWorkers::Host>> begun = workers->begin();
    if (!begun) return complain(begun.failure());
    hosts = std::move(*begun);
  }
  process.record_fd = file->descriptor();
  ForkedProcess own(process);
  setting.process = &own;
  setting.plan = &plan;
  setting.resolved = &resolved;
  Engine engine(std::move(setting));
  ForkedWorkers forked(engine, resolved);
  SessionSetting session;
  session.plan = &plan;
  session.resolved = &resolved;
  session.forked = &forked;
  for (const auto& [ranks, workers] : hosted) session.hosted[ranks] = workers.get();
  session.job_server = &*job_server;
  session.file = &*file;
  session.hash = plan_hash(canonical_text(plan, resolved));
  session.pin = cpus;
  session.environments = std::move(environments);
  if (!hosts.empty()) {
    session.pin.clear();
    session.environments.clear();
  }
  for (HostedWorkers::Host& host : hosts) {
    session.pin.push_back(host.cpu);
    if (!host.environment.empty()) session.environments.push_back(std::move(host.environment));
  }
  session.event = say;
  session.wait_for_go = [this](const std::function<void()>& alive) { return input.wait_for_go(alive); };
  return static_cast<int>(Session(std::move(session)).run());
}

int Leader::run_with_server() const {
  const Result<std::string> token = read_token(plan.token_file);
  if (!token) return complain(token.failure());
  if (Outcome watched = Watchdog::install(true); !watched) return complain(watched.failure());
  CallOptions options;
  options.host = plan.host;
  if (plan.port != 0) options.port = static_cast<std::uint16_t>(plan.port);
  options.token = *token;
  options.plan_text = canonical_text(plan, resolved);
  options.deadline_ns = now_ns() + static_cast<std::int64_t>(plan.timeout_s * 1e9);
  options.abort = Watchdog::abort_flag();
  const Result<Link> link = call(options);
  if (!link) return complain(link.failure());
  const auto group = make_socket_group(0, 2, {-1, link->fd}, Watchdog::abort_flag(), {{}, link->keys});
  group->rename(1, "rank 1 on " + plan.host);
  const Result<std::vector<int>> cpus = choose_cpus(plan.pin, 1);
  if (!cpus) return complain(cpus.failure());
  RankSetting setting;
  setting.group = group.get();
  setting.job = link->job;
  setting.local_address = link->local_address;
  return lead(std::move(setting), {.plan = &plan, .rank = 0, .cpu = (*cpus)[0], .one_host = false}, {(*cpus)[0], -1},
              link->server_host);
}

int Leader::run_here() const {
  const int ranks = resolved.nranks;
  const Result<std::vector<int>> cpus = choose_cpus(plan.pin, ranks);
  if (!cpus) return complain(cpus.failure());
  RankSetting common;
  common.plan = &plan;
  common.resolved = &resolved;
  common.shared_page = ranks > 1 ? make_shared_page() : nullptr;
  common.job = random_job();
  common.local_address = "127.0.0.1";
  common.oversubscribed = ranks_share_a_cpu(*cpus);
  Watchdog::hold_interrupts();
  // Opened before the fork, so that the watchdog of a rank that hangs can leave its last words in it.
  const Result<RunFile> file = RunFile::open(plan.record);
  if (!file) return complain(file.failure());
  const auto process_of = [&](int rank) {
    return ForkedProcess::Setting{.plan = &plan,
                                  .rank = rank,
                                  .cpu = (*cpus)[static_cast<std::size_t>(rank)],
                                  .one_host = true,
                                  .record_fd = file->descriptor()};
  };
  Children children;  // reaped after the group has gone, which tells them to end
  const Result<std::unique_ptr<Group>> group = children.fork_ranks(ranks, [&](Group& own, int rank) {
    ForkedProcess process(process_of(rank));
    RankSetting setting = common;
    setting.group = &own;
    setting.process = &process;
    // What goes wrong is rank 0's to say, which also knows that this one has gone.
    return static_cast<int>(live_as_rank(std::move(setting), {}) ? Exit::done : Exit::failed);
  });
  if (!group) return complain(group.failure());
  if (Outcome watched = Watchdog::install(true); !watched) return complain(watched.failure());
  common.group = group->get();
  return lead(std::move(common), process_of(0), *cpus);
}

}  // namespace

int run(const Plan& plan, LauncherInput& input) {
  Result<Registry> registry = Registry::load(module_directories(), plan.module_files);
  if (!registry) return complain(registry.failure());
  if (Outcome bound = registry->bind(modules_of(plan)); !bound) return complain(bound.failure());
  const Result<Resolved> resolved = resolve(plan, *registry);
  if (!resolved) return complain(resolved.failure());
  if (Outcome can = can_run_here(plan, *resolved); !can) return complain(can.failure());
  const Leader leader{plan, *registry, *resolved, input};
  return plan.host.empty() ? leader.run_here() : leader.run_with_server();
}

}  // namespace netpipe
