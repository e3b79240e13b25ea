// SPDX-License-Identifier: Apache-2.0
#include "worker/workers/hosted_rank.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/complain.h"
#include "base/host_name.h"
#include "base/text.h"
#include "engine/engine.h"
#include "engine/processes/hosted.h"
#include "engine/processes/join.h"
#include "engine/processes/pinning.h"
#include "engine/processes/placement.h"
#include "engine/watchdog.h"
#include "machine/environment.h"

namespace netpipe {
namespace {

// What one rank needs before its first command.
struct Ready {
  Plan plan;
  std::unique_ptr<Registry> registry;  // resolved points into it
  Resolved resolved;
  Placement::Local local;  // among the ranks of this host
  std::vector<int> cpus;   // of the ranks of this host
  int cpu = -1;            // that this process is pinned to
  std::string facts;       // of this host, taken before it was pinned
};

Outcome plan_here(const std::string& text, Ready& ready) {
  const Result<Plan> plan = parse_plan(text);
  if (!plan) return plan.failure();
  ready.plan = *plan;
  Result<Registry> registry = Registry::load({}, ready.plan.module_files);
  if (!registry) {
    return Failure{registry.failure().exit,
                   registry.failure().sentence + "; modules have to be at the same paths on all hosts"};
  }
  if (Outcome bound = registry->bind(modules_of(ready.plan)); !bound) return bound;
  ready.registry = std::make_unique<Registry>(std::move(*registry));
  Result<Resolved> resolved = resolve(ready.plan, *ready.registry);
  if (!resolved) return resolved.failure();
  ready.resolved = std::move(*resolved);
  if (text.starts_with(canonical_text(ready.plan, ready.resolved))) return ok();
  return usage(
      "the hosts understand the plan differently: their modules have other options or defaults; install the same "
      "netpipe on all");
}

Outcome pin_here(const std::vector<std::string>& host_of_member, int rank, Ready& ready) {
  Placement placement;
  placement.host_of_rank.assign(host_of_member.begin() + 1, host_of_member.end());
  ready.local = placement.local(rank, host_name());
  Result<std::vector<int>> cpus = choose_cpus(ready.plan.pin, ready.local.count);
  if (!cpus) return cpus.failure();
  ready.cpus = std::move(*cpus);
  ready.cpu = ready.cpus[static_cast<std::size_t>(ready.local.index)];
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

// One rank, from joining to its end. Returns the exit code of its process.
int live_as(int rank) {
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
  HostedProcess process(rank, ready.cpu, ready.local);
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

constexpr std::int64_t parting_ns = 500'000'000;

struct Ranks {
  int first, last;
};

std::optional<Ranks> parse_ranks(const std::string& text) {
  const std::size_t dash = text.find('-');
  const Result<std::int64_t> first = parse_integer(text.substr(0, dash));
  const Result<std::int64_t> last = dash == std::string::npos ? first : parse_integer(text.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first || *last >= most_ranks) return std::nullopt;
  return Ranks{static_cast<int>(*first), static_cast<int>(*last)};
}

// The exit code that this end of a rank comes to.
int code_of(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  return complain(failed("a rank was ended by signal " + std::to_string(WTERMSIG(status))));
}

// Until all have ended. After the first that failed the others have a moment, in which the conductor sees which one it
// was and tells them to end.
int await_ranks(int count) {
  int code = 0, status = 0;
  std::int64_t deadline_ns = 0;
  while (count > 0 && (deadline_ns == 0 || now_ns() < deadline_ns)) {
    const pid_t done = waitpid(-1, &status, deadline_ns == 0 ? 0 : WNOHANG);
    if (done > 0) {
      --count;
      const int ended = code_of(status);
      if (code == 0) code = ended;
      if (code != 0 && deadline_ns == 0) deadline_ns = now_ns() + parting_ns;
    } else if (done < 0 && errno != EINTR) {
      break;
    } else if (deadline_ns != 0) {
      const timespec pause{0, 10'000'000};
      nanosleep(&pause, nullptr);
    }
  }
  return code;
}

// A process for each. This one is what ssh started; those that are left end with it.
int live_as_all(Ranks ranks) {
  const pid_t parent = getpid();
  for (int rank = ranks.first; rank <= ranks.last; ++rank) {
    const pid_t pid = fork();
    if (pid < 0) {
      return complain(failed("rank " + std::to_string(rank) + " cannot be started: " + std::strerror(errno)));
    }
    if (pid != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(static_cast<int>(Exit::failed));  // it died before the line above
    _exit(live_as(rank));
  }
  return await_ranks(ranks.last - ranks.first + 1);
}

}  // namespace

int hosted_rank(const char* text) {
  const std::optional<Ranks> ranks = parse_ranks(text);
  if (!ranks) {
    return complain(
        usage(std::string(rank_variable) + " is '" + text + "', which is not a rank, nor ranks such as 4-7"));
  }
  return ranks->first == ranks->last ? live_as(ranks->first) : live_as_all(*ranks);
}

}  // namespace netpipe
