// SPDX-License-Identifier: Apache-2.0
#include "sampling/yardstick.h"

#include <cmath>

namespace netpipe {

int MachineStates::classify(const Yardstick& y) {
  const auto alike = [](double a, double b, double tolerance) {
    return std::abs(std::log(a / b)) < std::log(tolerance);
  };
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    const Seen& s = seen_[i];
    const bool bounce_alike = !s.bounce_ns || !y.bounce_ns || alike(*s.bounce_ns, *y.bounce_ns, bounce_tolerance);
    if (bounce_alike && alike(s.copy_bytes_per_s, y.copy_bytes_per_s, copy_tolerance)) return static_cast<int>(i);
  }
  seen_.push_back({y.bounce_ns, y.copy_bytes_per_s});
  return static_cast<int>(seen_.size()) - 1;
}

}  // namespace netpipe
