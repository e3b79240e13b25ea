// SPDX-License-Identifier: Apache-2.0
#include "worker/crew.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <functional>

#include "base/clock.h"
#include "engine/watchdog.h"
#include "link/handshake.h"
#include "link/secret.h"
#include "record/json.h"

namespace netpipe {
namespace {

constexpr std::int64_t handshake_ns = 5'000'000'000;
constexpr int last_words_ms = 1500;  // a launcher notices later than we do that a rank has died

// A connection is a descriptor, and many systems give a program 1024 of them until it asks for more.
Outcome make_room(int connections) {
  constexpr rlim_t ours = 64;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return ok();
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (static_cast<rlim_t>(connections) + ours <= limit.rlim_max) return ok();
  return unavailable("a job of " + std::to_string(connections) + " processes needs more open files than the " +
                     std::to_string(limit.rlim_max) +
                     " that this system gives a program; raise that (ulimit -n), or take fewer ranks");
}

void tell(Group& group, const Command& command) {
  for (int peer = 1; peer < group.size(); ++peer) {
    // A peer that has gone shows when its answer is missing.
    (void)static_cast<bool>(group.send(peer, &command, sizeof command));
  }
}

// Who the others waited for, where their progress tells: the end of a sentence.
std::string laggard(const std::vector<std::uint64_t>& progress) {
  const auto [least, most] = std::minmax_element(progress.begin(), progress.end());
  if (*least == *most) return {};
  const std::uint64_t operation = *least / 2 + 1;
  return "; the others waited for rank " + std::to_string(least - progress.begin()) + ", which " +
         (*least % 2 == 0 ? "had not begun operation " : "did not come back from operation ") +
         std::to_string(operation) + " of this visit";
}

// The reports of members 1.. of the group and what they noted, as many numbers of each as there is room for in notes.
// rank_of: by member, -1: it is no rank. worst becomes the first report that is not good, the one that it comes with
// included.
Outcome collect(Group& group, const Command& command, const std::vector<int>& rank_of, RankNotes& notes,
                Report& worst) {
  // Members that have not reported yet wait for the one that has, and see nothing of its report.
  bool told = false;
  const auto abandon = [&] {
    if (worst.status == NP_OK || told) return;
    told = true;
    tell(group, {.verb = Verb::abandon});
  };
  abandon();
  std::vector<std::uint64_t> progress(notes.size(), 0);
  std::vector<std::int32_t> came_to;
  if (rank_of[0] >= 0) came_to.push_back(worst.status);
  if (rank_of[0] >= 0) progress[static_cast<std::size_t>(rank_of[0])] = worst.progress;
  // A peer that reported first is the one that knows: its sentence replaces "stopped because a peer reported".
  bool echo_so_far = worst.status != NP_OK && static_cast<Cause>(worst.cause) == Cause::peer_gone;
  Watchdog::arm(command.deadline_ns + 2 * Watchdog::grace_ns, nullptr, {}, -1);
  Outcome outcome = ok();
  for (int peer = 1; peer < group.size(); ++peer) {
    Report report;
    outcome = group.recv(peer, &report, sizeof report);
    if (!outcome) break;
    worst.verified_bytes += report.verified_bytes;
    if (rank_of[static_cast<std::size_t>(peer)] >= 0) came_to.push_back(report.status);
    const bool echo = static_cast<Cause>(report.cause) == Cause::peer_gone;
    if (report.status != NP_OK && (worst.status == NP_OK || (echo_so_far && !echo))) {
      worst.status = report.status;
      worst.cause = report.cause;
      std::copy(std::begin(report.sentence), std::end(report.sentence), std::begin(worst.sentence));
      echo_so_far = echo;
    }
    abandon();
    const int rank = rank_of[static_cast<std::size_t>(peer)];
    if (rank < 0) continue;
    progress[static_cast<std::size_t>(rank)] = report.progress;
    std::vector<std::int64_t>& theirs = notes[static_cast<std::size_t>(rank)];
    if (report.status == NP_OK && !theirs.empty()) {
      outcome = group.recv(peer, theirs.data(), theirs.size() * sizeof(std::int64_t));
      if (!outcome) break;
    }
  }
  Watchdog::disarm();
  worst.unanimous = std::adjacent_find(came_to.begin(), came_to.end(), std::not_equal_to<>()) == came_to.end() ? 1 : 0;
  if (outcome && worst.status != NP_OK && static_cast<Cause>(worst.cause) == Cause::deadline) {
    const std::size_t length = std::char_traits<char>::length(worst.sentence);
    std::snprintf(worst.sentence + length, sizeof worst.sentence - length, "%s", laggard(progress).c_str());
  }
  return outcome;
}

// Room for what each rank notes in this visit.
void make_room(RankNotes& notes, const Mode& mode, int nranks, const Command& command) {
  notes.resize(static_cast<std::size_t>(nranks));
  for (int rank = 0; rank < nranks; ++rank) {
    const Part part = mode.part(rank, nranks, command.size_bytes);
    notes[static_cast<std::size_t>(rank)].assign(notes_of(*mode.pattern, part, command.samples, command.rounds), 0);
  }
}

MemoryUse most(Group& group, MemoryUse memory) {
  Watchdog::arm(2 * Watchdog::grace_ns, nullptr, {}, -1);
  for (int peer = 1; peer < group.size(); ++peer) {
    MemoryUse theirs;
    if (!group.recv(peer, &theirs, sizeof theirs)) break;
    memory.rss_bytes = std::max(memory.rss_bytes, theirs.rss_bytes);
    memory.buffer_bytes = std::max(memory.buffer_bytes, theirs.buffer_bytes);
  }
  Watchdog::disarm();
  return memory;
}

}  // namespace

// ------------------------------------------------------------------------------------------------- the forked ranks

Result<Opening> NativeCrew::open(std::uint32_t variant) {
  if (!alone(variant)) tell(group_, {.verb = Verb::open, .variant = variant});
  return rig_.open(variant);
}

Result<Report> NativeCrew::visit(const Command& command, RankNotes& notes) {
  const int nranks = rig_.ranks(command.variant);
  const bool single = nranks == 1;
  if (!single) tell(group_, command);
  Report report = rig_.visit(command);
  make_room(notes, resolved_.modes[command.pattern], nranks, command);
  if (!single) {
    std::vector<int> rank_of(static_cast<std::size_t>(group_.size()), -1);
    for (int rank = 0; rank < nranks; ++rank) rank_of[static_cast<std::size_t>(rank)] = rank;
    const Outcome collected = collect(group_, command, rank_of, notes, report);
    if (!collected) {
      const std::string own = report.status != NP_OK ? std::string(" (") + report.sentence + ")" : "";
      return Failure{collected.failure().exit, collected.failure().sentence + own};
    }
  }
  notes[0].swap(rig_.notes());
  return report;
}

Result<std::vector<std::string>> NativeCrew::counters(std::uint32_t variant) {
  if (!alone(variant)) tell(group_, {.verb = Verb::close, .variant = variant});
  Result<std::vector<std::string>> counters = rig_.counters(variant);
  rig_.close(variant);
  return counters;
}

MemoryUse NativeCrew::finish() {
  tell(group_, {.verb = Verb::finish});
  return most(group_, rig_.memory());
}

void NativeCrew::sign_of_life() { tell(group_, {.verb = Verb::abandon}); }

Yardstick NativeCrew::yardstick() {
  tell(group_, {.verb = Verb::yardstick});
  return rig_.yardstick();
}

// ------------------------------------------------------------------------------------------------------------ a job

JobCrew::~JobCrew() {
  if (!joined_.empty()) let_go();
}

// What is left of the job ends with its connection; its launcher, and a rank that is stuck in the library, are for the
// Python side to end.
void JobCrew::let_go() {
  group_.reset();
  for (const int fd : joined_) close(fd);
  joined_.clear();
  if (job_ >= 0) office_.event(Json().open('{').field("event", "stop").field("job", job_).close('}').take());
}

// What the processes of this job are to measure: the plan with this variant alone, and where its module is.
std::string JobCrew::plan_of(std::uint32_t variant) const {
  std::string text = canonical_text(plan_, resolved_, variant);
  text += "module-file " + office_.registry->find(resolved_.variants[variant].module->name)->path + "\n";
  text += "pin " + pin_text(plan_.pin) + "\n";
  return text;
}

// Asks for the processes and waits until all have come and proved that they were sent for.
Outcome JobCrew::gather(std::uint32_t variant, int ranks) {
  const Variant& v = resolved_.variants[variant];
  if (Outcome room = make_room(ranks); !room) return room;
  const Result<Nonce> secret_bytes = fresh_nonce();
  if (!secret_bytes) return secret_bytes.failure();
  const std::string secret = hex(*secret_bytes);
  Json json;
  json.open('{').field("event", "launch").field("job", job_).field("variant", v.name).field("module", v.module->name);
  json.field("ranks", ranks).field("join", endpoint_text(office_.listener.host, office_.listener.port));
  json.field("secret", secret).close('}');
  office_.event(json.take());
  const std::int64_t deadline = now_ns() + static_cast<std::int64_t>(plan_.joining_s * 1e9);
  while (static_cast<int>(joined_.size()) < ranks) {
    if (const std::optional<std::string> why = office_.input->failed(job_, 0)) return failed(*why);
    if (Watchdog::interrupted()) return Failure{Exit::interrupted, "interrupted while its processes were started"};
    if (now_ns() > deadline) {
      return failed("of " + std::to_string(ranks) + " processes " + std::to_string(joined_.size()) +
                    " have come within " + std::to_string(static_cast<int>(plan_.joining_s)) +
                    " s; does its launcher work? Try it by hand: netpipe modules shows it");
    }
    std::array<pollfd, 2> waits{{{office_.listener.socket.get(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}}};
    if (poll(waits.data(), waits.size(), 100) <= 0 || waits[0].revents == 0) continue;
    Descriptor fd(accept4(office_.listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) continue;
    tune_stream(fd.get());
    const std::optional<std::string> said =
        receive_call(fd.get(), secret, now_ns() + handshake_ns, Watchdog::abort_flag());
    // A stranger, or a process of a job that was given up: the next one may be ours.
    if (!said || *said != "join " + std::to_string(job_)) continue;
    joined_.push_back(fd.release());
  }
  return ok();
}

Outcome JobCrew::welcome(std::uint32_t variant) {
  const auto count = static_cast<int>(joined_.size());
  std::vector<int> fds = {-1};
  fds.insert(fds.end(), joined_.begin(), joined_.end());
  joined_.clear();
  group_ = make_socket_group(0, count + 1, std::move(fds), Watchdog::abort_flag());
  for (int member = 1; member <= count; ++member) {
    group_->rename(member, "process " + std::to_string(member) + " of the job");
  }
  const std::string plan = plan_of(variant);
  for (int member = 1; member <= count; ++member) {
    const std::string words = std::to_string(member) + " " + std::to_string(count + 1) + " " + office_.job + "-" +
                              std::to_string(job_) + " " + resolved_.variants[variant].module->name;
    if (Outcome sent = group_->send_text(member, words); !sent) return sent;
    if (Outcome sent = group_->send_text(member, plan); !sent) return sent;
  }
  return ok();
}

Failure JobCrew::lost(const Failure& failure) const {
  const std::optional<std::string> why = office_.input->failed(job_, last_words_ms);
  return {failure.exit, failure.sentence + (why ? "; its launcher says: " + *why : "")};
}

Result<Opening> JobCrew::open(std::uint32_t variant) {
  Result<Opening> opening = open_new(variant);
  if (!opening) let_go();
  return opening;
}

Result<Opening> JobCrew::open_new(std::uint32_t variant) {
  job_ = office_.jobs++;
  const std::int64_t asked_ns = now_ns();
  const Layer& module = *resolved_.variants[variant].module;
  if (Outcome here = gather(variant, ranks_of(module, plan_.ranks)); !here) return here.failure();
  const double launch_s = static_cast<double>(now_ns() - asked_ns) * 1e-9;
  if (Outcome told = welcome(variant); !told) return lost(told.failure());
  tell(*group_, {.verb = Verb::open, .variant = 0});
  Result<Opening> opening = open_job(*group_, plan_, resolved_, module, placement_);
  if (!opening) return lost(opening.failure());
  for (std::size_t rank = 0; rank < placement_.by_rank.size(); ++rank) {
    group_->rename(placement_.by_rank[rank], "rank " + std::to_string(rank));
  }
  opening->launch_s = launch_s;
  return opening;
}

Result<Report> JobCrew::visit(const Command& command, RankNotes& notes) {
  Command there = command;
  there.variant = 0;
  tell(*group_, there);
  Report report;
  Watchdog::arm(command.deadline_ns + 2 * Watchdog::grace_ns, nullptr, {}, -1);
  const Outcome begun = group_->barrier();
  Watchdog::disarm();
  if (!begun) return lost(begun.failure());
  const int nranks = static_cast<int>(placement_.by_rank.size());
  make_room(notes, resolved_.modes[command.pattern], nranks, command);
  std::vector<int> rank_of(static_cast<std::size_t>(group_->size()), -1);
  for (int rank = 0; rank < nranks; ++rank) {
    rank_of[static_cast<std::size_t>(placement_.by_rank[static_cast<std::size_t>(rank)])] = rank;
  }
  const Outcome collected = collect(*group_, there, rank_of, notes, report);
  if (!collected) return lost(collected.failure());
  return report;
}

Result<std::vector<std::string>> JobCrew::counters(std::uint32_t) {
  tell(*group_, {.verb = Verb::close, .variant = 0});
  Watchdog::arm(static_cast<std::int64_t>(plan_.timeout_s * 1e9), nullptr, {}, -1);
  const Result<std::vector<std::string>> texts = group_->gather_text({});
  Watchdog::disarm();
  if (!texts) return lost(texts.failure());
  std::vector<std::string> by_rank;
  by_rank.reserve(placement_.by_rank.size());
  for (const int member : placement_.by_rank) by_rank.push_back((*texts)[static_cast<std::size_t>(member)]);
  return by_rank;
}

MemoryUse JobCrew::finish() {
  if (!group_) return {};
  tell(*group_, {.verb = Verb::finish});
  const MemoryUse memory = most(*group_, {});
  group_.reset();
  return memory;
}

}  // namespace netpipe
