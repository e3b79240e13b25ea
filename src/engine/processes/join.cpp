// SPDX-License-Identifier: Apache-2.0
#include "engine/processes/join.h"

#include <cstdlib>

#include "base/clock.h"
#include "base/host_name.h"
#include "base/text.h"
#include "engine/engine.h"
#include "engine/processes/pinning.h"
#include "engine/watchdog.h"
#include "link/rendezvous.h"

namespace netpipe {
namespace {

constexpr std::int64_t joining_ns = 20'000'000'000;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Calls the conductor that requested this process.
Result<Link> call_conductor(bool last_of_process, const std::string& words) {
  const std::string where = variable("NETPIPE_JOIN");
  const std::string secret = variable("NETPIPE_JOIN_SECRET");
  const auto colon = where.rfind(':');
  const Result<std::int64_t> port = parse_integer(colon == std::string::npos ? "" : where.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535 || secret.empty()) {
    return usage(
        "no run requested this process: NETPIPE_JOIN, NETPIPE_JOB and NETPIPE_JOIN_SECRET are not in its environment; "
        "only netpipe starts 'netpipe-worker join', through ssh, srun or the launcher of an MPI");
  }
  // The library's own children need not know it; a rank that follows in the same process does.
  if (last_of_process) unsetenv("NETPIPE_JOIN_SECRET");
  CallOptions options;
  options.host = where.substr(0, colon);
  if (options.host.starts_with('[')) options.host = options.host.substr(1, options.host.size() - 2);
  options.port = static_cast<std::uint16_t>(*port);
  options.token = secret;
  options.plan_text = "join " + variable("NETPIPE_JOB") + words;
  options.deadline_ns = now_ns() + joining_ns;
  options.abort = Watchdog::abort_flag();
  options.remedy = "name an address of the host where netpipe was started that this host can reach with --bind";
  Result<Link> link = call(options);
  if (!link) {
    return Failure{link.failure().exit, host_name() + " cannot connect back to the run: " + link.failure().sentence};
  }
  return link;
}

// What the conductor tells a process that has joined.
struct Welcome {
  int member = 0, members = 0;
  std::string job, module, plan_text;
};

Result<Welcome> receive_welcome(Group& conductor) {
  std::string words;
  Welcome welcome;
  for (std::string* text : {&words, &welcome.plan_text}) {
    if (Outcome got = conductor.recv_text(0, *text); !got) return got.failure();
  }
  const std::vector<std::string> told = split(words, ' ');
  const Result<std::int64_t> member = parse_integer(told[0]);
  const Result<std::int64_t> members = parse_integer(told.size() == 4 ? told[1] : "");
  if (!member || !members || *members < 2 || *members > most_ranks + 1 || *member < 1 || *member >= *members) {
    return failed("the conductor sent a malformed welcome: '" + without_controls(words) + "'");
  }
  welcome.member = static_cast<int>(*member);
  welcome.members = static_cast<int>(*members);
  welcome.job = told[2];
  welcome.module = told[3];
  return welcome;
}

}  // namespace

Result<Joined> join_job(bool last_of_process, const std::string& words) {
  const Result<Link> link = call_conductor(last_of_process, words);
  if (!link) return link.failure();
  auto connection = make_socket_group(1, 2, {link->fd}, Watchdog::abort_flag(), {link->keys});
  connection->rename(0, "the conductor");
  const Result<Welcome> welcome = receive_welcome(*connection);
  if (!welcome) return welcome.failure();
  Joined joined{.job = welcome->job,
                .module = welcome->module,
                .plan_text = welcome->plan_text,
                .local_address = link->local_address,
                .connection = std::move(connection),
                .group = nullptr};
  joined.group = make_member(*joined.connection, welcome->member, welcome->members);
  joined.group->rename(0, "the conductor");
  return joined;
}

Result<Exit> join(const ModuleLoader& load, LaunchedProcess& process) {
  if (Outcome watched = Watchdog::install(false); !watched) return watched.failure();
  const Result<Joined> joined = join_job(process.in_process() == 1);
  if (!joined) return joined.failure();
  const Result<Plan> plan = parse_plan(joined->plan_text);
  if (!plan) return plan.failure();
  const Meter meter(process.in_process());
  const Result<Registry> registry = load(plan->module_files.empty() ? "" : plan->module_files[0], joined->module);
  if (!registry) return registry.failure();
  process.prepare(plan->pin, meter.spent());
  const Result<Resolved> resolved = resolve(*plan, *registry);
  if (!resolved) return resolved.failure();
  const Result<std::vector<int>> cpus = choose_cpus(plan->pin, joined->group->size() - 1);
  if (!cpus) return cpus.failure();
  RankSetting setting;
  setting.group = joined->group.get();
  setting.process = &process;
  setting.plan = &*plan;
  setting.resolved = &*resolved;
  setting.job = joined->job;
  setting.local_address = joined->local_address;
  setting.oversubscribed = ranks_share_a_cpu(*cpus);
  Engine engine(std::move(setting));
  const Outcome followed = engine.follow_commands();
  // What went wrong is the conductor's to say, which also knows that it has gone.
  return followed ? Exit::done : Exit::failed;
}

}  // namespace netpipe
