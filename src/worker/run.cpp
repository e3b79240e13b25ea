// SPDX-License-Identifier: Apache-2.0
#include "worker/run.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>

#include "base/sha256.h"
#include "base/text.h"
#include "engine/pinning.h"
#include "engine/rig.h"
#include "engine/watchdog.h"
#include "link/rendezvous.h"
#include "link/secret.h"
#include "machine/environment.h"
#include "record/json.h"
#include "worker/checks.h"
#include "worker/complain.h"
#include "worker/launcher_io.h"
#include "worker/session.h"

namespace netpipe {
namespace {

std::string random_job() {
  std::array<std::byte, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    std::abort();  // the kernel has no entropy at all
  return hex(bytes);
}

std::string environment_record(const Plan& plan, int rank, const std::vector<int>& cpus) {
  Json json;
  json.open('{')
      .field("type", "environment")
      .field("launch", plan.launch)
      .field("rank", rank)
      .field("host", host_name());
  json.field_raw("facts", environment_json(cpus)).close('}');
  return json.take();
}

// The other rank processes of this host, and the ends of the socket pairs that lead to them.
struct Children {
  std::vector<pid_t> pids;
  // Gives each the time to end by itself, then ends it.
  void reap() {
    for (const pid_t pid : pids) {
      bool gone = false;
      for (int waited_ms = 0; waited_ms < 2500 && !gone; waited_ms += 10) {
        const pid_t done = waitpid(pid, nullptr, WNOHANG);
        gone = done == pid || (done < 0 && errno == ECHILD);
        const timespec pause{0, 10'000'000};
        if (!gone) nanosleep(&pause, nullptr);
      }
      if (gone) continue;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
};

// What a rank process does from its start on, on whichever host. cpu: -1 is unpinned.
int rank_life(const Plan& plan, const Resolved& resolved, RigSetting setting) {
  Group& group = *setting.group;
  // Before the pinning, which narrows what this process may use.
  const std::string environment = environment_record(plan, group.rank(), {setting.cpu});
  if (Outcome pinned = pin_to(setting.cpu); !pinned) return complain(pinned.failure());
  setting.plan = &plan;
  setting.resolved = &resolved;
  if (const auto sent = group.gather_text(environment); !sent) return complain(sent.failure());
  const bool remote = setting.silence_ns > 0;
  Rig rig(std::move(setting));
  const Outcome followed = rig.follow();
  if (followed) return 0;
  // On one host rank 0 says what happened; on another nobody here would know.
  return remote ? complain(followed.failure()) : static_cast<int>(Exit::failed);
}

// Makes the ranks 1.. of this host. Returns rank 0's ends; in a child it does not return.
Result<std::vector<int>> fork_ranks(const Plan& plan, const Resolved& resolved, const RigSetting& common,
                                    const std::vector<int>& cpus, Children& children) {
  const int ranks = resolved.nranks;
  std::vector<int> ends = {-1};
  const pid_t parent = getpid();
  for (int rank = 1; rank < ranks; ++rank) {
    std::array<int, 2> pair{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
      return failed(std::string("the ranks' control connection cannot be made: ") + std::strerror(errno));
    }
    const pid_t pid = fork();
    if (pid < 0) return failed("rank " + std::to_string(rank) + " cannot be started: " + std::strerror(errno));
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(static_cast<int>(Exit::failed));
      for (const int end : ends) {
        if (end >= 0) close(end);
      }
      close(pair[0]);
      // Events and the launcher's words are rank 0's.
      const int nowhere = open("/dev/null", O_RDWR);
      if (nowhere < 0) _exit(static_cast<int>(Exit::failed));
      dup2(nowhere, STDIN_FILENO);
      dup2(nowhere, STDOUT_FILENO);
      RigSetting setting = common;
      const auto group = make_socket_group(rank, ranks, {pair[1]}, Watchdog::abort_flag());
      setting.group = group.get();
      setting.cpu = cpus[static_cast<std::size_t>(rank)];
      // Ctrl-C reaches every process of a terminal; rank 0 decides for all.
      if (Outcome watched = Watchdog::install(false); !watched) _exit(complain(watched.failure()));
      _exit(rank_life(plan, resolved, std::move(setting)));
    }
    close(pair[1]);
    ends.push_back(pair[0]);
    children.pids.push_back(pid);
  }
  return ends;
}

bool has_jobs(const Resolved& resolved) {
  return std::any_of(resolved.variants.begin(), resolved.variants.end(),
                     [](const Variant& variant) { return launched(*variant.module); });
}

// A place that the processes of jobs can come to, where there are jobs.
Result<JobOffice> open_office(const Registry& registry, const Plan& plan, const Resolved& resolved,
                              const std::string& job, LauncherInput& input) {
  JobOffice office;
  office.job = job;
  office.input = &input;
  office.event = say;
  office.registry = &registry;
  if (!has_jobs(resolved)) return office;
  Result<Listener> listener = listen_at(plan.bind, 0);
  if (!listener) return listener.failure();
  office.listener = std::move(*listener);
  return office;
}

// Rank 0, once its group is there.
int lead(const Plan& plan, const Registry& registry, const Resolved& resolved, RigSetting setting,
         const std::vector<int>& cpus, LauncherInput& input) {
  Group& group = *setting.group;
  Result<JobOffice> office = open_office(registry, plan, resolved, setting.job, input);
  if (!office) return complain(office.failure());
  const bool one_host = plan.host.empty();
  const std::string environment = environment_record(plan, 0, one_host ? cpus : std::vector<int>{setting.cpu});
  if (Outcome pinned = pin_to(setting.cpu); !pinned) return complain(pinned.failure());
  Result<RunFile> file = RunFile::open(plan.record);
  if (!file) return complain(file.failure());
  const Result<std::vector<std::string>> environments = group.gather_text(environment);
  if (!environments) return complain(environments.failure());
  setting.plan = &plan;
  setting.resolved = &resolved;
  setting.record_fd = file->descriptor();
  Rig rig(std::move(setting));
  NativeCrew native(group, rig, plan, resolved);
  SessionSetting session;
  session.plan = &plan;
  session.resolved = &resolved;
  session.native = &native;
  session.office = &*office;
  session.file = &*file;
  session.hash = plan_hash(canonical_text(plan, resolved));
  session.pin = cpus;
  // The ranks of one host have one environment.
  session.environments.assign(environments->begin(), one_host ? environments->begin() + 1 : environments->end());
  session.event = say;
  session.wait_for_go = [&input](const std::function<void()>& alive) { return input.wait_for_go(alive); };
  return static_cast<int>(Session(std::move(session)).run());
}

}  // namespace

int run(const Plan& plan, LauncherInput& input) {
  const Result<Registry> registry = Registry::load(module_directories(), plan.module_files);
  if (!registry) return complain(registry.failure());
  Result<Resolved> resolved = resolve(plan, *registry);
  if (!resolved) return complain(resolved.failure());
  if (Outcome can = can_run_here(plan, *resolved); !can) return complain(can.failure());
  RigSetting setting;
  if (!plan.host.empty()) {
    const Result<std::string> token = read_token(plan.token_file);
    if (!token) return complain(token.failure());
    if (Outcome watched = Watchdog::install(true); !watched) return complain(watched.failure());
    CallOptions call_options;
    call_options.host = plan.host;
    if (plan.port != 0) call_options.port = static_cast<std::uint16_t>(plan.port);
    call_options.token = *token;
    call_options.plan_text = canonical_text(plan, *resolved);
    call_options.deadline_ns = now_ns() + static_cast<std::int64_t>(plan.timeout_s * 1e9);
    call_options.abort = Watchdog::abort_flag();
    const Result<Link> link = call(call_options);
    if (!link) return complain(link.failure());
    const auto group = make_socket_group(0, 2, {-1, link->fd}, Watchdog::abort_flag());
    const Result<std::vector<int>> chosen = choose_cpus(plan.pin, 1);
    if (!chosen) return complain(chosen.failure());
    const std::vector<int>& cpus = *chosen;
    setting.group = group.get();
    setting.job = link->job;
    setting.local_address = link->local_address;
    setting.cpu = cpus[0];
    return lead(plan, *registry, *resolved, std::move(setting), {cpus[0], -1}, input);
  }
  const Result<std::vector<int>> chosen = choose_cpus(plan.pin, resolved->nranks);
  if (!chosen) return complain(chosen.failure());
  const std::vector<int>& cpus = *chosen;
  setting.arena = resolved->nranks > 1 ? make_arena() : nullptr;
  setting.job = random_job();
  setting.local_address = "127.0.0.1";
  setting.oversubscribed = ranks_share_a_cpu(cpus);
  // Opened before the fork, so that the watchdog of a hung rank can leave its last words in it.
  const Result<RunFile> early = RunFile::open(plan.record);
  if (!early) return complain(early.failure());
  setting.record_fd = early->descriptor();
  Children children;
  const Result<std::vector<int>> ends = fork_ranks(plan, *resolved, setting, cpus, children);
  if (!ends) {
    children.reap();
    return complain(ends.failure());
  }
  int code = 0;
  {
    if (Outcome watched = Watchdog::install(true); !watched) return complain(watched.failure());
    const auto group = resolved->nranks > 1 ? make_socket_group(0, resolved->nranks, *ends, Watchdog::abort_flag())
                                            : make_single_group();
    setting.group = group.get();
    setting.cpu = cpus[0];
    code = lead(plan, *registry, *resolved, std::move(setting), cpus, input);
  }
  children.reap();
  return code;
}

int serve_rank(int control_fd, const std::string& plan_text, const std::string& local_address, const std::string& job) {
  const Result<Plan> plan = parse_plan(plan_text);
  if (!plan) return complain(plan.failure());
  const Result<Registry> registry = Registry::load(module_directories(), {});
  if (!registry) return complain(registry.failure());
  const Result<Resolved> resolved = resolve(*plan, *registry);
  if (!resolved) return complain(resolved.failure());
  const auto group = make_socket_group(1, 2, {control_fd}, Watchdog::abort_flag());
  RigSetting setting;
  setting.group = group.get();
  setting.job = job;
  setting.local_address = local_address;
  // A client on the same host has taken the first of the sensible processors; this is rank 1 wherever it runs.
  const std::vector<int> cpus = sensible_cpus(2);
  setting.cpu = cpus.size() < 2 ? -1 : cpus[1];
  // While a job comes to life (its launcher, then two deadlines to open the library) nobody speaks to this rank.
  const double job_s = has_jobs(*resolved) ? plan->joining_s + 3 * plan->timeout_s : 0;
  setting.silence_ns = static_cast<std::int64_t>((plan->timeout_s + job_s) * 1e9);
  if (Outcome watched = Watchdog::install(true); !watched) return complain(watched.failure());
  return rank_life(*plan, *resolved, std::move(setting));
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
    if (variant.module->crosses_hosts == 0)
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
