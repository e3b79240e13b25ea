// SPDX-License-Identifier: Apache-2.0
#include "worker/join.h"

#include <unistd.h>

#include <cstdlib>

#include "base/text.h"
#include "engine/pinning.h"
#include "engine/rig.h"
#include "engine/watchdog.h"
#include "link/rendezvous.h"
#include "worker/complain.h"

namespace netpipe {
namespace {

constexpr std::int64_t joining_ns = 20'000'000'000;

}  // namespace

int join(const ModuleLoader& load, int ranks_here) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  const std::string where = variable("NETPIPE_JOIN");
  const std::string secret = variable("NETPIPE_JOIN_SECRET");
  const auto colon = where.rfind(':');
  const Result<std::int64_t> port = parse_integer(colon == std::string::npos ? "" : where.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535 || secret.empty()) {
    return complain(
        usage("this process was not sent for: NETPIPE_JOIN, NETPIPE_JOB and NETPIPE_JOIN_SECRET did not reach "
              "it; 'netpipe-worker join' is what netpipe gives to the launcher of an MPI"));
  }
  // The library's own children need not know it; but a rank after this one in the same process does.
  if (ranks_here == 1) unsetenv("NETPIPE_JOIN_SECRET");
  if (Outcome watched = Watchdog::install(false); !watched) return complain(watched.failure());
  CallOptions options;
  options.host = where.substr(0, colon);
  if (options.host.starts_with('[')) options.host = options.host.substr(1, options.host.size() - 2);
  options.port = static_cast<std::uint16_t>(*port);
  options.token = secret;
  options.plan_text = "join " + variable("NETPIPE_JOB");
  options.deadline_ns = now_ns() + joining_ns;
  options.abort = Watchdog::abort_flag();
  const Result<Link> link = call(options);
  if (!link) return complain(link.failure());
  std::string words;
  std::string text;
  {
    const auto first = make_socket_group(1, 2, {dup(link->fd)}, Watchdog::abort_flag());
    first->rename(0, "the conductor");
    for (std::string* one : {&words, &text}) {
      if (Outcome got = first->recv_text(0, *one); !got) return complain(got.failure());
    }
  }
  const std::vector<std::string> told = split(words, ' ');  // member, members, job, name of the module
  const Result<std::int64_t> member = parse_integer(told[0]);
  const Result<std::int64_t> members = parse_integer(told.size() == 4 ? told[1] : "");
  if (!member || !members) return complain(failed("the conductor said '" + words + "', which is no welcome"));
  const Result<Plan> plan = parse_plan(text);
  if (!plan) return complain(plan.failure());
  const Meter meter(ranks_here);
  const Result<Registry> registry = load(plan->module_files.empty() ? "" : plan->module_files[0], told[3]);
  if (!registry) return complain(registry.failure());
  const Cost loading = meter.spent();
  const Result<Resolved> resolved = resolve(*plan, *registry);
  if (!resolved) return complain(resolved.failure());
  const auto group =
      make_socket_group(static_cast<int>(*member), static_cast<int>(*members), {link->fd}, Watchdog::abort_flag());
  group->rename(0, "the conductor");
  RigSetting setting;
  setting.group = group.get();
  setting.plan = &*plan;
  setting.resolved = &*resolved;
  setting.job = told[2];
  setting.record_fd = STDERR_FILENO;
  setting.loading = loading;
  setting.ranks_here = ranks_here;
  setting.local_address = link->local_address;
  const Result<std::vector<int>> all = choose_cpus(plan->pin, static_cast<int>(*members) - 1);
  if (!all) return complain(all.failure());
  setting.oversubscribed = ranks_share_a_cpu(*all);
  setting.settle = [&plan](int local, int locals) -> Result<int> {
    if (plan->pin.kind == Pinning::Kind::nearness && locals != 2) {
      return usage("pin " + pin_text(plan->pin) + " is of two ranks of one host, and here is one; name processors");
    }
    const Result<std::vector<int>> cpus = choose_cpus(plan->pin, locals);
    if (!cpus) return cpus.failure();
    const int cpu = (*cpus)[static_cast<std::size_t>(local)];
    if (Outcome pinned = pin_to(cpu); !pinned) return pinned.failure();
    return cpu;
  };
  Rig rig(std::move(setting));
  const Outcome followed = rig.follow();
  // What went wrong is the conductor's to say, which also knows that it has gone.
  return followed ? 0 : static_cast<int>(Exit::failed);
}

}  // namespace netpipe
