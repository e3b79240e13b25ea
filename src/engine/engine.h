// SPDX-License-Identifier: Apache-2.0
// One rank's engine: its open variants, their memory, and what it does when it is told to. Every public function that
// says so is collective: the ranks that take part call it together.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/commands.h"
#include "engine/opening/opening.h"
#include "engine/visit.h"

namespace netpipe {

struct MemoryUse {
  std::uint64_t rss_bytes = 0;     // the most that was resident: a rank's part of its process
  std::uint64_t buffer_bytes = 0;  // the most that message buffers took, all open variants together

  // The larger of each: what one rank used at most.
  void include(const MemoryUse& other);
};

class Engine {
 public:
  explicit Engine(RankSetting setting);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The members of the group that take part in the variant; only they are told about it.
  Group& group(std::uint32_t variant);
  [[nodiscard]] Group& whole() const { return *set_.group; }
  // false: a talk with the other ranks was left in the middle, because one was silent or the user interrupted. What
  // comes from them now may belong to that one, so nothing more can be said to them.
  [[nodiscard]] bool in_step() const { return in_step_; }

  // Collective, and so are the next three: the endpoint of a variant.
  Result<Opening> open(std::uint32_t variant);
  Report visit(const Command& command);
  // By member of the group, as JSON objects; "" of those whose module counts nothing.
  Result<std::vector<std::string>> counters(std::uint32_t variant);
  void close(std::uint32_t variant);

  // What this rank has to say of the last visit.
  [[nodiscard]] VisitMemory& last_visit() { return visit_memory_; }
  // Collective over all members, where they share a page; else this rank's alone.
  Yardstick yardstick();
  [[nodiscard]] MemoryUse memory() const;

  // Carries out the commands of member 0 until finish. A failure: member 0 has gone, was silent for too long, or sent
  // something that the plan does not have.
  Outcome follow_commands();

 private:
  [[nodiscard]] Outcome check(const Command& command) const;
  [[nodiscard]] std::vector<int> placed() const;
  void check_placement(std::uint32_t variant, Report& report) const;
  Outcome carry_out(const Command& command);
  void note_buffers();

  RankSetting set_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;  // by variant; nullptr: it is not open
  std::vector<int> cpus_;                             // that this process might run on when its first variant was open
  std::map<int, std::unique_ptr<Group>> subgroups_;   // by size
  std::shared_ptr<BufferPool> common_pool_;           // of all variants whose module has no memory of its own
  VisitMemory visit_memory_;
  std::vector<char> yardstick_memory_;
  std::uint64_t most_buffer_bytes_ = 0, most_fresh_bytes_ = 0;
  bool in_step_ = true;
};

}  // namespace netpipe
