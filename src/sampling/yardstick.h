// SPDX-License-Identifier: Apache-2.0
// Machines change under a run. What two processors can do with nothing of a layer between them is
// measured again and again beside the layers (engine/yardsticks.h), and tells the states of the machine apart.
#pragma once

#include <optional>
#include <vector>

#include "base/clock.h"

namespace netpipe {

struct Yardstick {
  ClockFacts clock;
  double multiply_ns = 0;           // of 64-bit integers, each needing the one before: the processor's own speed
  double copy_bytes_per_s = 0;      // memcpy of 4 MiB, warm
  std::optional<double> bounce_ns;  // a cache line from one rank to the other, one way; only on one host
  std::optional<double> wakeup_ns;  // from a futex wake to the woken process running, one way
};

// Tells the states of the machine apart: two yardsticks are of one state when their bounce and copy rates are alike.
class MachineStates {
 public:
  // A measured value wanders by some percent within one state; a moved core changes it by half or more.
  static constexpr double bounce_tolerance = 1.4;
  static constexpr double copy_tolerance = 1.8;

  // The state that this yardstick shows: a known one, or a new one.
  int classify(const Yardstick& yardstick);
  [[nodiscard]] int count() const { return static_cast<int>(seen_.size()); }

 private:
  struct Seen {
    std::optional<double> bounce_ns;
    double copy_bytes_per_s;
  };
  std::vector<Seen> seen_;
};

}  // namespace netpipe
