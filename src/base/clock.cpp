// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <algorithm>
#include <array>

namespace netpipe {

std::int64_t suspended_ns() {
  std::int64_t least = INT64_MAX;
  for (int i = 0; i < 3; ++i) {  // a process that is interrupted between the two readings sees more
    const std::int64_t running = now_ns();
    timespec since_start;
    clock_gettime(CLOCK_BOOTTIME, &since_start);
    least = std::min(least, std::int64_t{since_start.tv_sec} * 1'000'000'000 + since_start.tv_nsec - running);
  }
  return least;
}

ClockFacts measure_clock() {
  constexpr int batches = 21;
  constexpr int readings = 64;
  std::array<double, batches> cost{};
  std::int64_t step = INT64_MAX;
  for (double& one : cost) {
    const std::int64_t begin = now_ns();
    std::int64_t last = begin;
    for (int i = 0; i < readings; ++i) {
      const std::int64_t t = now_ns();
      if (t > last) step = std::min(step, t - last);
      last = t;
    }
    one = static_cast<double>(last - begin) / readings;
  }
  std::nth_element(cost.begin(), cost.begin() + batches / 2, cost.end());
  // A step is never seen smaller than one reading takes, so this is an upper bound of the true resolution.
  return {cost[batches / 2], step == INT64_MAX ? cost[batches / 2] : static_cast<double>(step)};
}

}  // namespace netpipe
