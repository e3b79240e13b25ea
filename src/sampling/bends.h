// SPDX-License-Identifier: Apache-2.0
// Where a curve bends or steps, by all launches so far, and where to look closer. Pure, as the sampler is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sampling/statistics.h"

namespace netpipe {

// What one launch says of each size of a curve; a median of 0: it was not measured there.
using Spreads = std::vector<Spread>;

// A size that this launch measures.
struct Measured {
  std::size_t point = 0;
  double bytes = 0;
  bool asked = true;  // a coarse one
};

// A gap between two neighbours, as points: to be halved, or, where the time steps by much, cut into four, because
// passes are few where a machine is busy.
struct Gap {
  std::size_t before = 0, after = 0;
  bool in_four = false;
  bool operator==(const Gap&) const = default;
};

// The gaps between neighbours of `sizes` that are to be cut, the steepest first. As long as there is a large step, all
// else waits: each cut takes visits, and a threshold is worth more than the exact shape of what fills a cache.
//
// A size bends that the line between its neighbours does not
// predict; latency and rate make a line over the bytes, so a curve that has nothing else has none. Each launch has a
// level of its own, so a size is held against the line of the same launch, and what remains is pooled over the
// launches. Where neighbours bend, the gap between them in which the time changes most is cut.
//
// A handful of visits says little of how far visits lie apart, and may lie together by chance; but all sizes of a curve
// wander alike. So the variance of a size in a launch is the mean of its own and of the usual one there, which counts
// as a few visits more.
std::vector<Gap> gaps_to_cut(std::span<const Measured> sizes, std::vector<Spreads> launches);

}  // namespace netpipe
