// SPDX-License-Identifier: Apache-2.0
#include "worker/workers/forked_workers.h"

#include <numeric>

namespace netpipe {

Result<Opening> ForkedWorkers::open(std::uint32_t variant) {
  tell(engine_.group(variant), {.verb = Verb::open, .variant = variant});
  return engine_.open(variant);
}

Result<Report> ForkedWorkers::visit(const Command& command, Gathered& gathered) {
  Group& group = engine_.group(command.variant);
  tell(group, command);
  const Report own = engine_.visit(command);
  std::vector<int> rank_of(static_cast<std::size_t>(group.size()));
  std::iota(rank_of.begin(), rank_of.end(), 0);
  const Visited visited{resolved_.patterns[command.pattern], *resolved_.variants[command.variant].module};
  Result<Report> report = collect(group, command, visited, rank_of, &own, gathered);
  if (!report) {
    lost_ = true;
    const std::string mine = own.status != NP_OK ? std::string(" (") + own.sentence + ")" : "";
    return Failure{report.failure().exit, report.failure().sentence + mine};
  }
  VisitMemory& mine = engine_.last_visit();
  gathered.notes[0].swap(mine.notes);
  gathered.counters[0].swap(mine.counters);
  gathered.lost[0].swap(mine.lost);
  return report;
}

Result<std::vector<std::string>> ForkedWorkers::close(std::uint32_t variant) {
  tell(engine_.group(variant), {.verb = Verb::close, .variant = variant});
  Result<std::vector<std::string>> counters = engine_.counters(variant);
  engine_.close(variant);
  return counters;
}

MemoryUse ForkedWorkers::finish() {
  tell(engine_.whole(), {.verb = Verb::finish});
  MemoryUse most = engine_.memory();
  most.include(collect_memory_use(engine_.whole()));
  return most;
}

Yardstick ForkedWorkers::yardstick() {
  tell(engine_.whole(), {.verb = Verb::yardstick});
  return engine_.yardstick();
}

Outcome ForkedWorkers::all_here() const {
  const Group& group = engine_.whole();
  for (int peer = 1; peer < group.size(); ++peer) {
    if (!group.gone(peer)) continue;
    return failed(group.name(peer) +
                  " has gone while it waited: its process ended or the connection to its host broke");
  }
  return ok();
}

void ForkedWorkers::keep_alive() { tell(engine_.whole(), {.verb = Verb::abandon}); }

}  // namespace netpipe
