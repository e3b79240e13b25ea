// SPDX-License-Identifier: Apache-2.0
// METHOD rule 17: machines change under a run. What two processors can do with nothing of a layer between them is
// measured again and again beside the layers, and tells the states of the machine apart.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/clock.h"

namespace netpipe {

// Memory shared by the two ranks of one host, made before the fork.
struct alignas(128) Arena {
  alignas(128) volatile std::uint64_t ping = 0;
  alignas(128) volatile std::uint64_t pong = 0;
  alignas(128) std::uint32_t turn = 0;  // a futex
  std::int64_t woken_ns = 0;            // when rank 1 ran again
};

struct Yardstick {
  ClockFacts clock;
  double copy_bytes_per_s = 0;      // memcpy of 4 MiB, warm
  std::optional<double> bounce_ns;  // a cache line from one rank to the other, one way; only on one host
  std::optional<double> wakeup_ns;  // from a futex wake to the woken process running, one way
};

// Makes and frees the shared page. nullptr when there is no memory.
Arena* make_arena();

// What one rank can tell alone; memory is what it copies in, of yardstick_memory_bytes, touched.
inline constexpr std::size_t yardstick_memory_bytes = 8U << 20;
Yardstick measure_alone(std::span<char> memory);
// Both ranks call this at the same time. The abort flag ends it early; then nothing is known.
void measure_together(Arena& arena, int rank, const volatile int* abort, bool oversubscribed, Yardstick& yardstick);

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
