// SPDX-License-Identifier: Apache-2.0
// When the messages of an offered load leave: in open loop, whatever became of those before.
#pragma once

#include <cstdint>
#include <random>
#include <span>

namespace netpipe {

class Departures {
 public:
  // at_random: the gaps are exponential, as between independent callers (a Poisson process); else all are the same.
  // Both ends of a measurement that are given the same seed come to the same moments.
  Departures(std::int64_t rate_per_s, bool at_random, std::uint64_t seed)
      : gap_ns_(1e9 / static_cast<double>(rate_per_s)), at_random_(at_random), random_(seed) {}

  // The moments of so many messages, in ns from the beginning of the batch on; a gap lies before the first one too. Of
  // the next batch the random gaps are others.
  void lay_out(std::span<std::int64_t> moments);

 private:
  double gap_ns_;
  bool at_random_;
  std::mt19937_64 random_;
};

}  // namespace netpipe
