// SPDX-License-Identifier: Apache-2.0
#include "worker/workers/hosted_workers.h"

#include <set>
#include <utility>

#include "base/text.h"
#include "engine/watchdog.h"
#include "link/handshake.h"
#include "record/foreign_json.h"
#include "worker/results/records.h"

namespace netpipe {

HostedWorkers::HostedWorkers(JobServer& server, const Plan& plan, const Resolved& resolved, int ranks)
    : LaunchedWorkers(server, plan, resolved, own_variants(resolved, ranks)),
      ranks_(ranks),
      names_(static_cast<std::size_t>(ranks)) {}

std::string HostedWorkers::remedy() const {
  return "the hosts must be able to connect to " + endpoint_text(server().listener.host, server().listener.port) +
         " here; --bind names another address of this host";
}

// " RANK VERSION HOST"
Outcome HostedWorkers::admit(const std::string& words, Caller process) {
  const std::vector<std::string> said = split(words, ' ');
  // A host may be called anything, also with blanks: the first word of it is enough.
  const bool whole = said.size() >= 4;
  const Result<std::int64_t> rank = parse_integer(whole ? said[1] : "");
  const std::string version = whole ? printable(said[2]) : "older";
  if (version != NETPIPE_VERSION) {
    const std::string where = whole ? printable(said[3]) : "one of the hosts";
    return unavailable("netpipe on " + where + " is version " + version +
                       ", and here it is " NETPIPE_VERSION "; install the same version at the same path on all hosts");
  }
  if (!rank || *rank < 0 || *rank >= ranks_) return ok();
  if (!joined().emplace(static_cast<int>(*rank), std::move(process)).second) {
    return failed("two processes are rank " + std::to_string(*rank) +
                  ": ssh or srun did not start each rank once; see --launcher and --remote-shell");
  }
  names_[static_cast<std::size_t>(*rank)] = printable(said[3]);
  return ok();
}

Result<std::vector<HostedWorkers::Host>> HostedWorkers::begin() {
  if (Outcome started = start(ranks_); !started) {
    lose();
    return started.failure();
  }
  for (int rank = 0; rank < ranks_; ++rank) {
    group()->rename(rank + 1, "rank " + std::to_string(rank) + " on " + names_[static_cast<std::size_t>(rank)]);
  }
  Watchdog::arm(static_cast<std::int64_t>(plan().timeout_s * 1e9) + 2 * Watchdog::grace_ns, nullptr, {}, -1);
  Result<std::vector<Host>> heard = hear();
  const Cause cause = Watchdog::disarm();
  if (heard) return heard;
  // A rank that knows what is wrong has said it; of one that is gone ssh or srun may know more.
  const Failure& said = heard.failure();
  const Failure failure = said.exit == Exit::failed ? with_last_words(said) : said;
  lose();
  return cause == Cause::interrupted ? Failure{Exit::interrupted, "interrupted while its processes were started"}
                                     : failure;
}

Result<std::vector<HostedWorkers::Host>> HostedWorkers::hear() {
  if (const auto told = group()->exchange_text(""); !told) return told.failure();
  const Result<std::vector<std::string>> all = group()->agree_for_root(std::string());
  if (!all) return all.failure();
  std::vector<Host> hosts;
  // One record for each host; of as many hosts as ranks two may have one name.
  const bool one_on_each = split(plan().hosts, ',').size() == names_.size();
  std::set<std::string> known;
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::string& text = (*all)[static_cast<std::size_t>(rank) + 1];
    const auto blank = text.find(' ');
    const Result<std::int64_t> cpu = parse_integer(text.substr(0, blank));
    const auto facts =
        rewritten_object(blank == std::string::npos ? std::string_view() : std::string_view(text).substr(blank + 1));
    if (!cpu || !facts) {
      return failed(group()->name(rank + 1) + " sent malformed facts about its host");
    }
    const std::string& host = names_[static_cast<std::size_t>(rank)];
    const bool is_new = known.insert(host).second || one_on_each;
    hosts.push_back({static_cast<int>(*cpu), is_new ? environment_record(plan().launch, rank, host, *facts) : ""});
  }
  return hosts;
}

// Without one of them nothing more can be measured.
void HostedWorkers::lose() { LaunchedWorkers::abandon(); }

Result<Opening> HostedWorkers::open(std::uint32_t variant) {
  if (group() == nullptr) return failed("the processes on the hosts were lost");
  Result<Opening> opening = conduct(variant);
  if (opening || !(group()->any_gone() || Watchdog::interrupted())) return opening;
  const Failure failure = with_last_words(opening.failure());
  lose();
  return failure;
}

Result<Report> HostedWorkers::visit(const Command& command, Gathered& gathered) {
  Result<Report> report = LaunchedWorkers::visit(command, gathered);
  if (!report) lose();
  return report;
}

Result<std::vector<std::string>> HostedWorkers::close(std::uint32_t variant) {
  if (group() == nullptr) return failed("the processes on the hosts were lost");
  Result<std::vector<std::string>> counters = LaunchedWorkers::close(variant);
  if (!counters) lose();
  return counters;
}

}  // namespace netpipe
