// SPDX-License-Identifier: Apache-2.0
// Simulated: the library's launcher runs all ranks of a job in one process, on a machine that does not exist.
#pragma once

#include "engine/processes/launched.h"

namespace netpipe {

class SimulatedProcess final : public LaunchedProcess {
 public:
  explicit SimulatedProcess(int ranks) : ranks_(ranks) {}
  [[nodiscard]] int in_process() const override { return ranks_; }
  [[nodiscard]] bool computes() const override { return false; }

 private:
  int ranks_;
};

}  // namespace netpipe
