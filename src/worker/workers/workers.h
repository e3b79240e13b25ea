// SPDX-License-Identifier: Apache-2.0
// The ranks that measure a variant, as the session sees them: the other half of each process model
// (engine/processes/process.h). Forked ranks, of which rank 0 is the session's own process, are in forked_workers.h;
// the processes of a job, which a library's launcher started, in launched_workers.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "catalog/variant.h"
#include "engine/commands.h"
#include "engine/engine.h"
#include "link/group.h"

namespace netpipe {

// Numbers of each rank, by rank.
using RankNumbers = std::vector<std::vector<std::int64_t>>;

// What the ranks have to say of a good visit.
struct Gathered {
  RankNumbers notes;     // nothing where the clock of a rank does not count
  RankNumbers counters;  // of the layer, in the order of its table; nothing where it has none
  RankNumbers lost;      // of a lossy layer: messages of each sample that did not arrive there
};

class Workers {
 public:
  Workers() = default;
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  virtual ~Workers() = default;
  // Each is collective and comes to an end. variant: of the plan.
  virtual Result<Opening> open(std::uint32_t variant) = 0;
  // What all ranks came to (reports.h), and what they have to say of it. A failure: a rank has gone.
  virtual Result<Report> visit(const Command& command, Gathered& gathered) = 0;
  // Closes the variant. Its counters by rank, as JSON objects; "" where the module counts nothing.
  virtual Result<std::vector<std::string>> close(std::uint32_t variant) = 0;
  // Ends the processes that are not this one. What a rank used at most.
  virtual MemoryUse finish() = 0;
  // After a failure: ends whatever is left of a job now.
  virtual void abandon() {}
  // Can the variant be measured again after a failure, by processes that are started anew?
  [[nodiscard]] virtual bool replaceable() const = 0;
};

// For both kinds of workers. group: its member 0 is this process.
void tell(Group& group, const Command& command);
// What is visited: a pattern over a layer.
struct Visited {
  const ChosenPattern& chosen;
  const Layer& layer;
};
// The reports of members 1.. of the group, and what each has to say. rank_of: by member, -1: this one is no rank. own:
// the report of this process, where it is a rank; nullptr where it is not. gathered: on return by rank, without what
// this process has to say itself.
Result<Report> collect(Group& group, const Command& command, const Visited& visited, const std::vector<int>& rank_of,
                       const Report* own, Gathered& gathered);
// Waits for the last words of members 1..: what one of them used at most.
MemoryUse collect_memory_use(Group& group);

}  // namespace netpipe
