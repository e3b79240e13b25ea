// SPDX-License-Identifier: Apache-2.0
// The forked ranks of this host, or the pair with a server on another: rank 0 is this process.
#pragma once

#include "worker/workers/workers.h"

namespace netpipe {

class ForkedWorkers final : public Workers {
 public:
  // The engine is that of rank 0 and outlives this.
  ForkedWorkers(Engine& engine, const Resolved& resolved) : engine_(engine), resolved_(resolved) {}
  Result<Opening> open(std::uint32_t variant) override;
  Result<Report> visit(const Command& command, Gathered& gathered) override;
  Result<std::vector<std::string>> close(std::uint32_t variant) override;
  MemoryUse finish() override;  // this process's own use included
  [[nodiscard]] bool replaceable() const override { return false; }

  // Between visits, when the ranks wait: a failure names one that ended all the same. Waits for nothing.
  [[nodiscard]] Outcome all_here() const;
  [[nodiscard]] MemoryUse memory() const { return engine_.memory(); }  // of this process
  // The ranks wait for the next command; else nothing more is said to them.
  [[nodiscard]] bool in_step() const { return engine_.in_step() && !lost_; }
  void lose() { lost_ = true; }
  Yardstick yardstick();
  // While a visit is not running: tells the ranks that this process lives, so that a server goes on waiting.
  void keep_alive();

 private:
  Engine& engine_;
  const Resolved& resolved_;
  bool lost_ = false;  // a report did not come, or a rank has gone
};

}  // namespace netpipe
