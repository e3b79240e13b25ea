// SPDX-License-Identifier: Apache-2.0
#include "serving/measuring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/complain.h"
#include "base/text.h"
#include "engine/processes/forked.h"
#include "engine/processes/rank_life.h"
#include "engine/watchdog.h"
#include "link/secret.h"
#include "machine/environment.h"
#include "machine/files.h"
#include "machine/memory.h"
#include "serving/confine.h"

namespace netpipe {
namespace {

constexpr const char* own_program = "/proc/self/exe";  // also after an update has replaced the file
constexpr std::size_t most_bytes = 1U << 20;           // of an admission

std::optional<Admission> read_admission(const Descriptor& paper) {
  std::string text(most_bytes, '\0');
  const ssize_t got = ::read(paper.get(), text.data(), text.size());
  return parse_admission(text.substr(0, static_cast<std::size_t>(std::max<ssize_t>(got, 0))));
}

// What is known of this host before anything of the client's is looked at, because a confined process cannot find it
// out.
struct ServingHost {
  Registry registry;
  int cpu = -1;       // that rank 1 is pinned to
  std::string facts;  // environment_json
};

Result<ServingHost> look_around() {
  Result<Registry> registry = Registry::load(module_directories(), {});
  if (!registry) return registry.failure();
  // The code of all that a client can choose.
  std::vector<std::string> choices;
  for (const LoadedModule& module : registry->modules()) {
    const bool own = module.description.empty() && module.reason.empty();
    if (own && can_be_served(*module.layer)) choices.emplace_back(module.layer->name);
  }
  if (Outcome bound = registry->bind(choices); !bound) return bound.failure();
  // A client on the same host has taken the first of the sensible processors; this is rank 1 wherever it runs.
  const std::vector<int> cpus = sensible_cpus(2);
  const int cpu = cpus.size() < 2 ? -1 : cpus[1];
  last_level_cache_bytes();  // remembers it
  keep_open({"/proc/self/status", "/proc/self/smaps", "/proc/self/smaps_rollup", "/proc/meminfo"});
  return ServingHost{std::move(*registry), cpu, environment_json(std::array{cpu})};
}

// Rank 1 of a client's plan.
Outcome serve_rank(Descriptor control, const Admission& admission, const ServingHost& host, const RemotePlan& remote) {
  const auto& [plan, resolved] = remote;
  const auto group = make_socket_group(1, 2, {control.release()}, Watchdog::abort_flag(), {admission.keys});
  group->rename(0, "the client " + admission.peer_host);
  ForkedProcess process({.plan = &plan, .rank = 1, .cpu = host.cpu, .one_host = false});
  RankSetting setting;
  setting.group = group.get();
  setting.process = &process;
  setting.plan = &plan;
  setting.resolved = &resolved;
  setting.job = admission.job;
  setting.local_address = admission.local_address;
  // While a job comes to life (its launcher, then two deadlines to open the library) nobody speaks to this rank.
  const double job_s = has_jobs(resolved) ? plan.joining_s + 3 * plan.timeout_s : 0;
  setting.silence_ns = static_cast<std::int64_t>((plan.timeout_s + job_s) * 1e9);
  if (Outcome watched = Watchdog::install(true); !watched) return watched;
  return live_as_rank(std::move(setting), host.facts);
}

Ending serve_admitted(Descriptor control, const Admission& admission) {
  const Result<ServingHost> host = look_around();
  const Outcome confined = confine();
  if (!host) return turn_away(control, host.failure());
  // That a kernel has no filters, the server has said when it began.
  if (!confined && confined.failure().exit != Exit::unavailable) return turn_away(control, confined.failure());
  const Result<RemotePlan> remote = check_remote_plan(admission.plan_text, admission.bounds, host->registry);
  if (!remote) return turn_away(control, remote.failure());
  if (!let_in(control, admission)) return {.sentence = "the client went away before it was accepted"};
  const Outcome served = serve_rank(std::move(control), admission, *host, *remote);
  return served ? Ending{.exit = 0} : Ending{static_cast<int>(served.failure().exit), true, served.failure().sentence};
}

}  // namespace

Ending become_serving(Descriptor control, int words_fd, const Admission& admission) {
  const auto cannot = [&](const char* what) {
    return turn_away(control, unavailable(std::string("the server cannot start a program for the measurement: ") +
                                          what + ": " + std::strerror(errno)));
  };
  const Descriptor paper(::memfd_create("netpipe-admission", 0));
  if (!paper) return cannot("memfd_create");
  const std::string text = admission_text(admission);
  if (::pwrite(paper.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) return cannot("memfd");
  for (const int fd : {control.get(), words_fd}) ::fcntl(fd, F_SETFD, 0);
  ::unsetenv(token_variable);
  std::array<std::string, 5> words = {"netpipe-worker", serving_command, std::to_string(control.get()),
                                      std::to_string(words_fd), std::to_string(paper.get())};
  std::array<char*, 6> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  ::execv(own_program, arguments.data());
  return cannot(own_program);
}

int serving_main(std::span<const std::string> arguments) {
  std::array<int, 3> fds{};
  bool whole = arguments.size() == fds.size();
  for (std::size_t i = 0; i < fds.size() && whole; ++i) {
    const Result<std::int64_t> fd = parse_integer(arguments[i]);
    whole = fd && *fd > STDERR_FILENO && *fd < 1 << 20;
    if (whole) fds[i] = static_cast<int>(*fd);
  }
  const std::optional<Admission> admission = whole ? read_admission(Descriptor(fds[2])) : std::nullopt;
  if (!admission) return complain(usage("only netpipe-worker serve starts this"));
  Child::live(fds[1], [&] { return serve_admitted(Descriptor(fds[0]), *admission); });
}

Result<RemotePlan> check_remote_plan(const std::string& plan_text, const Bounds& bounds, const Registry& registry) {
  Result<Plan> plan = parse_plan(plan_text);
  if (!plan) return plan.failure();
  if (!plan->module_files.empty() || plan->record != "-" || !plan->host.empty()) {
    return usage("the plan names files or another host; a server measures with its own modules and writes nothing");
  }
  Result<Resolved> resolved = resolve(*plan, registry);
  if (!resolved) return resolved.failure();
  for (const Variant& variant : resolved->variants) {
    if (can_be_served(*variant.module)) continue;
    return usage(std::string("a server does not measure module ") + variant.module->name);
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
  constexpr std::uint64_t no_end = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t memory = 0;
  for (const Variant& variant : resolved->variants) {
    const std::uint64_t half = half_bytes(resolved->pool, variant.pages.kind) + resolved->pool.fresh_bytes;
    memory = half > (no_end - memory) / 2 ? no_end : memory + 2 * half;
  }
  if (bounds.max_memory_bytes != 0 && memory > bounds.max_memory_bytes) {
    return usage("the plan needs " + std::to_string(memory) + " bytes of buffers, above this server's limit of " +
                 std::to_string(bounds.max_memory_bytes) +
                 "; measure fewer variants or smaller messages, or serve with a larger --max-memory");
  }
  return RemotePlan{std::move(*plan), std::move(*resolved)};
}

}  // namespace netpipe
