// SPDX-License-Identifier: Apache-2.0
#include "patterns/kit/departures.h"

#include <cmath>

namespace netpipe {

void Departures::lay_out(std::span<std::int64_t> moments) {
  double gaps = 0;
  for (std::int64_t& moment : moments) {
    // Not std::exponential_distribution: its numbers differ between libraries, and the hosts of a pair may.
    const double uniform = static_cast<double>(random_() >> 11U) * 0x1p-53;
    gaps += at_random_ ? -std::log1p(-uniform) : 1;
    moment = std::llround(gaps * gap_ns_);
  }
}

}  // namespace netpipe
