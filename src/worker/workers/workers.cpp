// SPDX-License-Identifier: Apache-2.0
#include "worker/workers/workers.h"

#include <algorithm>

#include "engine/watchdog.h"
#include "worker/results/reports.h"

namespace netpipe {
namespace {

constexpr int look_every_ms = 100;  // whether the user has interrupted

void make_room(Gathered& gathered, const ChosenPattern& chosen, int nranks, const Command& command) {
  for (RankNumbers* numbers : {&gathered.notes, &gathered.counters, &gathered.lost}) {
    numbers->resize(static_cast<std::size_t>(nranks));
    for (std::vector<std::int64_t>& of_rank : *numbers) of_rank.clear();
  }
  for (int rank = 0; rank < nranks; ++rank) {
    const Part part = chosen.part(rank, nranks, command.size_bytes);
    gathered.notes[static_cast<std::size_t>(rank)].assign(
        notes_of(*chosen.pattern, part, command.samples, command.rounds), 0);
  }
}

// Readings of a clock, counts and differences of both, such that a few of them can be added: 36 years in nanoseconds.
constexpr std::int64_t largest_note = std::int64_t{1} << 60;
// Messages of one sample: the samples of a visit can be added.
constexpr std::int64_t most_lost = std::int64_t{1} << 48;

bool within(const std::vector<std::int64_t>& numbers, std::int64_t least, std::int64_t most) {
  return std::all_of(numbers.begin(), numbers.end(), [&](std::int64_t one) { return one >= least && one <= most; });
}

// What follows the report of a good visit, as many numbers as are expected here.
Outcome receive_numbers(Group& group, int peer, int rank, const Report& report, Gathered& gathered) {
  const auto r = static_cast<std::size_t>(rank);
  gathered.counters[r].resize(report.counters);
  gathered.lost[r].resize(report.losses);
  for (auto* numbers : {&gathered.notes[r], &gathered.counters[r], &gathered.lost[r]}) {
    if (numbers->empty()) continue;
    if (Outcome got = group.recv(peer, numbers->data(), numbers->size() * sizeof(std::int64_t)); !got) return got;
  }
  if (!within(gathered.notes[r], -largest_note, largest_note) || !within(gathered.lost[r], 0, most_lost)) {
    return failed(group.name(peer) + " sent readings that no clock has, or lost more messages than there are");
  }
  // Of a layer that counts nonsense nothing else is wrong: it is not known.
  for (std::int64_t& one : gathered.counters[r]) {
    if (one < -largest_note || one > largest_note) one = INT64_MIN;
  }
  return ok();
}

}  // namespace

void tell(Group& group, const Command& command) {
  for (int peer = 1; peer < group.size(); ++peer) {
    // A peer that has gone shows when its answer is missing.
    (void)static_cast<bool>(group.send(peer, &command, sizeof command));
  }
}

Result<Report> collect(Group& group, const Command& command, const Visited& visited, const std::vector<int>& rank_of,
                       const Report* own, Gathered& gathered) {
  const auto nranks =
      static_cast<int>(std::count_if(rank_of.begin(), rank_of.end(), [](int rank) { return rank >= 0; }));
  make_room(gathered, visited.chosen, nranks, command);
  Reports reports(nranks);
  if (own != nullptr) reports.add(rank_of[0], *own);
  // Members that have not reported yet wait for the one that has, and see nothing of its report.
  bool told = false;
  const auto stop_the_others = [&] {
    if (reports.good() || told) return;
    told = true;
    tell(group, {.verb = Verb::abandon});
  };
  stop_the_others();
  Watchdog::arm_talk((told ? 0 : command.deadline_ns) + 2 * Watchdog::grace_ns);
  Outcome outcome = ok();
  for (int peer = 1; peer < group.size() && outcome; ++peer) {
    const int rank = rank_of[static_cast<std::size_t>(peer)];
    // After an interrupt every report is still waited for: left in the stream it would be taken for what comes next.
    while (!group.arrives(peer, look_every_ms) && *Watchdog::abort_flag() == 0) {
      if (told || !Watchdog::interrupted()) continue;
      told = true;
      tell(group, {.verb = Verb::abandon});
      Watchdog::arm_talk(2 * Watchdog::grace_ns);
    }
    Report report;
    outcome = group.recv(peer, &report, sizeof report);
    if (!outcome) break;
    if (Outcome fine = accept_report(report, visited.layer.ncounters, command.samples); !fine) {
      outcome = failed(group.name(peer) + " " + fine.failure().sentence + "; is the same netpipe installed there?");
      break;
    }
    reports.add(rank, report);
    stop_the_others();
    if (report.status == NP_OK) outcome = receive_numbers(group, peer, rank, report, gathered);
  }
  Watchdog::disarm();
  if (!outcome) return outcome.failure();
  return reports.joined();
}

MemoryUse collect_memory_use(Group& group) {
  MemoryUse most;
  Watchdog::arm_talk(2 * Watchdog::grace_ns);
  for (int peer = 1; peer < group.size(); ++peer) {
    MemoryUse theirs;
    if (!group.recv(peer, &theirs, sizeof theirs)) break;
    most.include(theirs);
  }
  Watchdog::disarm();
  return most;
}

}  // namespace netpipe
