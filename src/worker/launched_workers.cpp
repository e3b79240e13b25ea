// SPDX-License-Identifier: Apache-2.0
#include "worker/launched_workers.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "base/clock.h"
#include "engine/watchdog.h"
#include "link/handshake.h"
#include "link/secret.h"
#include "record/json.h"
#include "worker/checks.h"

namespace netpipe {
namespace {

constexpr std::int64_t handshake_ns = 5'000'000'000;
constexpr int last_words_ms = 1500;  // a launcher notices later than we do that a rank has died

// Everybody in a job's group knows the variant by this number: the plan that it receives has no other.
constexpr std::uint32_t only_variant = 0;

}  // namespace

// What is left of the job ends with its connection. The Python side ends its launcher, and a rank that is stuck in the
// library.
void LaunchedWorkers::abandon() {
  group_.reset();
  joined_.clear();
  if (job_ >= 0) server_.event(Json().open('{').field("event", "stop").field("job", job_).close('}').take());
}

// What the processes of this job measure: the plan with this variant alone, and where its module is.
std::string LaunchedWorkers::plan_of(std::uint32_t variant) const {
  std::string text = canonical_text(plan_, resolved_, variant);
  text += "module-file " + server_.registry->find(resolved_.variants[variant].module->name)->path + "\n";
  text += "pin " + pin_text(plan_.pin) + "\n";
  return text;
}

void LaunchedWorkers::request(std::uint32_t variant, int ranks, const std::string& secret) {
  const Variant& v = resolved_.variants[variant];
  Json json;
  json.open('{').field("event", "launch").field("job", job_).field("variant", v.name).field("module", v.module->name);
  json.field("ranks", ranks).field("join", endpoint_text(server_.listener.host, server_.listener.port));
  json.field("secret", secret).close('}');
  server_.event(json.take());
}

// Requests the processes and waits until all have joined and proved that they belong to this job.
Outcome LaunchedWorkers::gather(std::uint32_t variant, int ranks) {
  if (Outcome room = room_for_connections(ranks); !room) return room;
  const Result<Nonce> secret_bytes = fresh_nonce();
  if (!secret_bytes) return secret_bytes.failure();
  const std::string secret = hex(*secret_bytes);
  request(variant, ranks, secret);
  const std::int64_t deadline = now_ns() + static_cast<std::int64_t>(plan_.joining_s * 1e9);
  while (static_cast<int>(joined_.size()) < ranks) {
    if (const std::optional<std::string> why = server_.input->failed(job_, 0)) return failed(*why);
    if (Watchdog::interrupted()) return Failure{Exit::interrupted, "interrupted while its processes were started"};
    if (now_ns() > deadline) {
      return failed(std::to_string(joined_.size()) + " of " + std::to_string(ranks) + " processes joined within " +
                    std::to_string(static_cast<int>(plan_.joining_s)) +
                    " s; try the launcher by hand: netpipe modules shows its command");
    }
    // The end of standard input is ready for ever, and would make this a loop without a pause.
    const int input = server_.input->closed() ? -1 : STDIN_FILENO;
    std::array<pollfd, 2> waits{{{server_.listener.socket.get(), POLLIN, 0}, {input, POLLIN, 0}}};
    if (poll(waits.data(), waits.size(), 100) > 0 && waits[0].revents != 0) admit_one(secret);
  }
  return ok();
}

void LaunchedWorkers::admit_one(const std::string& secret) {
  Descriptor fd(accept4(server_.listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd) return;
  tune_stream(fd.get());
  const std::optional<Caller> caller = receive_call(fd.get(), secret, now_ns() + handshake_ns, Watchdog::abort_flag());
  // Anything else is a stranger, or a process of a job that was given up: the next one may be ours.
  if (caller && caller->plan_text == "join " + std::to_string(job_)) joined_.push_back({std::move(fd), caller->keys});
}

Outcome LaunchedWorkers::welcome(std::uint32_t variant) {
  std::vector<int> fds = {-1};
  std::vector<FrameKeys> keys = {{}};
  for (Joined& one : joined_) {
    fds.push_back(one.fd.release());
    keys.push_back(one.keys);
  }
  joined_.clear();
  const auto members = static_cast<int>(fds.size());
  group_ = make_socket_group(0, members, std::move(fds), Watchdog::abort_flag(), keys);
  const std::string plan = plan_of(variant);
  for (int member = 1; member < members; ++member) {
    group_->rename(member, "process " + std::to_string(member) + " of the job");
    const std::string words = std::to_string(member) + " " + std::to_string(members) + " " + server_.job + "-" +
                              std::to_string(job_) + " " + resolved_.variants[variant].module->name;
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

Result<Opening> LaunchedWorkers::open_new(std::uint32_t variant) {
  job_ = server_.jobs++;
  const std::int64_t requested_ns = now_ns();
  const Layer& module = *resolved_.variants[variant].module;
  if (Outcome here = gather(variant, resolved_.variants[variant].ranks); !here) return here.failure();
  const double launch_s = static_cast<double>(now_ns() - requested_ns) * 1e-9;
  if (Outcome told = welcome(variant); !told) return with_last_words(told.failure());
  tell(*group_, {.verb = Verb::open, .variant = only_variant});
  Result<Opening> opening = conduct_opening(*group_, plan_, resolved_, module, placement_);
  if (!opening) return with_last_words(opening.failure());
  for (int rank = 0; rank < placement_.nranks(); ++rank) {
    group_->rename(placement_.member_of_rank[static_cast<std::size_t>(rank)], "rank " + std::to_string(rank));
  }
  opening->launch_s = launch_s;
  return opening;
}

Result<Report> LaunchedWorkers::visit(const Command& command, Gathered& gathered) {
  Command there = command;
  there.variant = only_variant;
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
  const Visited visited{resolved_.modes[command.pattern], *resolved_.variants[command.variant].module};
  Result<Report> report = collect(*group_, there, visited, rank_of, nullptr, gathered);
  if (!report) return with_last_words(report.failure());
  return report;
}

Result<std::vector<std::string>> LaunchedWorkers::close(std::uint32_t) {
  tell(*group_, {.verb = Verb::close, .variant = only_variant});
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
