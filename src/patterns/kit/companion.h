// SPDX-License-Identifier: Apache-2.0
// Somebody who computes beside this process's communication: a thread that works on and off, and counts what it got
// done. It runs where the thread that starts it may run: of a pinned rank on that rank's processor.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "base/result.h"
#include "patterns/kit/work.h"

namespace netpipe {

class Companion {
 public:
  // It rests at first. load_percent (1 to 100): of each millisecond so much is work, counted in units of a speed that
  // is found out here, on an idle processor; the rest is sleep, as far as something else did not take the processor.
  static Result<std::unique_ptr<Companion>> start(int load_percent, std::uint64_t memory_bytes);
  ~Companion();
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;

  void compute();  // comes back when it has begun
  void rest();     // comes back when it sleeps
  // Units that it has done, some 20 us behind.
  [[nodiscard]] std::uint64_t units() const { return units_.load(std::memory_order_relaxed); }

 private:
  enum Command : std::uint8_t { to_rest, to_compute, to_end };
  Companion(int load_percent, std::uint64_t memory_bytes);
  void live();
  void work_until_told();

  Work work_;
  bool sleeps_;
  std::uint64_t piece_, of_cycle_;  // units
  std::atomic<Command> command_{to_rest};
  std::atomic<bool> resting_{true};
  std::atomic<std::uint64_t> units_{0};
  std::thread thread_;
};

}  // namespace netpipe
