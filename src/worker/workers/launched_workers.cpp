// SPDX-License-Identifier: Apache-2.0
#include "worker/workers/launched_workers.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/clock.h"
#include "engine/watchdog.h"
#include "link/handshake.h"
#include "link/secret.h"
#include "record/json.h"
#include "worker/checks.h"

namespace netpipe {
namespace {

// A launcher notices later than we do that a rank has died: mpirun of Open MPI 4 takes two seconds to end the others.
constexpr int last_words_ms = 5000;

}  // namespace

// What is left of the job ends with its connection. The Python side ends its launcher, and a rank that is stuck in the
// library.
void LaunchedWorkers::abandon() {
  group_.reset();
  joined_.clear();
  if (job_ >= 0) server_.event(Json().open('{').field("event", "stop").field("job", job_).close('}').take());
}

std::uint32_t LaunchedWorkers::number_there(std::uint32_t variant) const {
  return static_cast<std::uint32_t>(std::find(variants_.begin(), variants_.end(), variant) - variants_.begin());
}

// What the processes of this job measure: the plan with their variants alone, and where the modules are.
std::string LaunchedWorkers::plan_there() const {
  std::string text = canonical_text(plan_, resolved_, variants_);
  std::set<std::string> files;
  for (const std::uint32_t v : variants_) {
    files.insert(server_.registry->find(resolved_.variants[v].module->name)->path);
  }
  for (const std::string& file : files) text += "module-file " + file + "\n";
  text += "pin " + pin_text(plan_.pin) + "\n";
  if (!plan_.hosts.empty()) text += "hosts " + plan_.hosts + "\n";
  return text;
}

std::pair<std::string, std::string> LaunchedWorkers::requested() const {
  const Variant& v = resolved_.variants[variants_[0]];
  return {v.name, v.module->name};
}

void LaunchedWorkers::request(int ranks, const std::string& secret) {
  const auto [variant, module] = requested();
  Json json;
  json.open('{').field("event", "launch").field("job", job_).field("variant", variant).field("module", module);
  json.field("ranks", ranks).field("join", endpoint_text(server_.listener.host, server_.listener.port));
  json.field("secret", secret).close('}');
  server_.event(json.take());
}

// Requests the processes and waits until all have joined and proved that they belong to this job.
Outcome LaunchedWorkers::gather(int ranks) {
  if (Outcome room = room_for_connections(ranks); !room) return room;
  const Result<Nonce> secret_bytes = fresh_nonce();
  if (!secret_bytes) return secret_bytes.failure();
  const std::string secret = hex(*secret_bytes);
  Reception reception(secret, static_cast<std::size_t>(ranks));
  request(ranks, secret);
  const std::int64_t deadline = now_ns() + static_cast<std::int64_t>(plan_.joining_s * 1e9);
  while (static_cast<int>(joined_.size()) < ranks) {
    if (const std::optional<std::string> why = server_.input->failed(job_, 0)) return Failure{lack(), *why};
    if (Watchdog::interrupted()) return Failure{Exit::interrupted, "interrupted while its processes were started"};
    if (now_ns() > deadline) {
      return Failure{lack(), std::to_string(joined_.size()) + " of " + std::to_string(ranks) +
                                 " processes joined within " + std::to_string(static_cast<int>(plan_.joining_s)) +
                                 " s; " + remedy()};
    }
    // The end of standard input is ready for ever, and would make this a loop without a pause.
    const int input = server_.input->closed() ? -1 : STDIN_FILENO;
    for (Caller& caller : reception.attend(server_.listener.socket.get(), input, 100)) {
      if (Outcome admitted = admit_one(std::move(caller)); !admitted) return admitted;
    }
  }
  return ok();
}

Outcome LaunchedWorkers::admit_one(Caller caller) {
  // Anything else is a process of a job that was given up: the next one may be ours.
  const std::string ours = "join " + std::to_string(job_);
  if (!caller.plan_text.starts_with(ours)) return ok();
  const std::string words = caller.plan_text.substr(ours.size());
  return words.empty() || words[0] == ' ' ? admit(words, std::move(caller)) : ok();
}

Outcome LaunchedWorkers::admit(const std::string& words, Caller process) {
  if (words.empty()) joined_.emplace(static_cast<int>(joined_.size()), std::move(process));
  return ok();
}

Outcome LaunchedWorkers::welcome() {
  std::vector<int> fds = {-1};
  std::vector<FrameKeys> keys = {{}};
  for (auto& [order, process] : joined_) {
    fds.push_back(process.fd.release());
    keys.push_back(process.keys);
  }
  joined_.clear();
  const auto members = static_cast<int>(fds.size());
  group_ = make_socket_group(0, members, std::move(fds), Watchdog::abort_flag(), keys);
  const std::string plan = plan_there();
  const std::string module = requested().second;
  for (int member = 1; member < members; ++member) {
    group_->rename(member, "process " + std::to_string(member) + " of the job");
    const std::string words = std::to_string(member) + " " + std::to_string(members) + " " + server_.job + "-" +
                              std::to_string(job_) + " " + (module.empty() ? "-" : module);
    if (Outcome sent = group_->send_text(member, words); !sent) return sent;
    if (Outcome sent = group_->send_text(member, plan); !sent) return sent;
  }
  return ok();
}

// A failure with what the launcher says about it. Nobody asks for that after an interrupt.
Failure LaunchedWorkers::with_last_words(const Failure& failure) const {
  if (Watchdog::interrupted()) return failure;
  const std::optional<std::string> why = server_.input->failed(job_, last_words_ms);
  return {failure.exit, failure.sentence + (why ? "; its launcher says: " + *why : "")};
}

Result<Opening> LaunchedWorkers::open(std::uint32_t variant) {
  Result<Opening> opening = open_new(variant);
  if (!opening) abandon();
  return opening;
}

Outcome LaunchedWorkers::start(int ranks) {
  job_ = server_.jobs++;
  if (Outcome here = gather(ranks); !here) return here;
  if (Outcome told = welcome(); !told) return with_last_words(told.failure());
  return ok();
}

Result<Opening> LaunchedWorkers::conduct(std::uint32_t variant) {
  tell(*group_, {.verb = Verb::open, .variant = number_there(variant)});
  return conduct_opening(*group_, plan_, resolved_, *resolved_.variants[variant].module, placement_);
}

Result<Opening> LaunchedWorkers::open_new(std::uint32_t variant) {
  const std::int64_t requested_ns = now_ns();
  if (Outcome started = start(resolved_.variants[variant].ranks); !started) return started.failure();
  const double launch_s = static_cast<double>(now_ns() - requested_ns) * 1e-9;
  Result<Opening> opening = conduct(variant);
  if (!opening) return with_last_words(opening.failure());
  for (int rank = 0; rank < placement_.nranks(); ++rank) {
    group_->rename(placement_.member_of_rank[static_cast<std::size_t>(rank)], "rank " + std::to_string(rank));
  }
  opening->launch_s = launch_s;
  return opening;
}

Result<Report> LaunchedWorkers::visit(const Command& command, Gathered& gathered) {
  Command there = command;
  there.variant = number_there(command.variant);
  tell(*group_, there);
  // The members of a group begin a visit together, this one included.
  Watchdog::arm_talk(command.deadline_ns + 2 * Watchdog::grace_ns);
  const Outcome begun = group_->barrier();
  Watchdog::disarm();
  if (!begun) return with_last_words(begun.failure());
  std::vector<int> rank_of(static_cast<std::size_t>(group_->size()), -1);
  for (int rank = 0; rank < placement_.nranks(); ++rank) {
    rank_of[static_cast<std::size_t>(placement_.member_of_rank[static_cast<std::size_t>(rank)])] = rank;
  }
  const Visited visited{resolved_.patterns[command.pattern], *resolved_.variants[command.variant].module};
  Result<Report> report = collect(*group_, there, visited, rank_of, nullptr, gathered);
  if (!report) return with_last_words(report.failure());
  return report;
}

Result<std::vector<std::string>> LaunchedWorkers::close(std::uint32_t variant) {
  tell(*group_, {.verb = Verb::close, .variant = number_there(variant)});
  Watchdog::arm_talk(static_cast<std::int64_t>(plan_.timeout_s * 1e9));
  const Result<std::vector<std::string>> texts = group_->gather_text({});
  Watchdog::disarm();
  if (!texts) return with_last_words(texts.failure());
  std::vector<std::string> by_rank;
  by_rank.reserve(placement_.member_of_rank.size());
  for (const int member : placement_.member_of_rank) by_rank.push_back((*texts)[static_cast<std::size_t>(member)]);
  return by_rank;
}

MemoryUse LaunchedWorkers::finish() {
  if (!group_) return {};
  tell(*group_, {.verb = Verb::finish});
  const MemoryUse most = collect_memory_use(*group_);
  group_.reset();
  return most;
}

}  // namespace netpipe
