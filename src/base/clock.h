// SPDX-License-Identifier: Apache-2.0
// The one clock: CLOCK_MONOTONIC, read through the vDSO, in integer nanoseconds.
#pragma once

#include <cstdint>
#include <ctime>

namespace netpipe {

inline std::int64_t now_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// How long this machine was suspended since it started: CLOCK_MONOTONIC, and so every deadline, stands still meanwhile.
std::int64_t suspended_ns();

struct ClockFacts {
  double cost_ns = 0;        // of one reading, the median of batches
  double resolution_ns = 0;  // the smallest step ever seen between two readings
};

ClockFacts measure_clock();

// An interval should last at least 20 times the clock's cost. One reading falls inside each interval, so at 20 the
// clock itself would be 5 % of the number. We ask for more: below single_factor operations are batched, and a batch
// lasts batch_factor readings, which keeps the clock's share under 0.5 % and 0.1 %. Beginning anew after a reading
// costs about as much again as the reading (docs/decisions/0002-the-number.md).
inline constexpr double smallest_factor = 20;
inline constexpr double single_factor = 200;
inline constexpr double batch_factor = 1000;

}  // namespace netpipe
