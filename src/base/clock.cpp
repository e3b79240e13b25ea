// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <algorithm>
#include <array>

namespace netpipe {

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
