// SPDX-License-Identifier: Apache-2.0
// What a layer counted beside the times, and what it lost, over the ranks of a visit and the visits of a point. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "layer/layer.h"
#include "sampling/sampler.h"

namespace netpipe {

// Adds what one rank or one visit counted, in the order of the layer's table. A count is a sum, a gauge the largest
// value seen; INT64_MIN is not known and changes nothing. total: the same; empty before the first. Counters of another
// number than the layer's (of another version of it, on another host) are left out.
void add_counters(const Layer& layer, std::span<const std::int64_t> counters, std::vector<std::int64_t>& total);

// A JSON object of integers by name, without those that are not known.
std::string counters_json(const Layer& layer, std::span<const std::int64_t> total, bool with_zeros);

// Adds what a visit counted over all ranks to each measure of the layer. of_layer: as Point has it.
void add_to_measures(const Layer& layer, std::span<const std::int64_t> counters,
                     std::vector<std::vector<Ratio>>& of_layer);

// The sum over all visits by the count over all visits, and the 95 % interval of that, from how much it differs from
// visit to visit: what is counted comes in bursts. share: the sum is of things that the count counts too, so it is at
// most 1, and where there were none the upper end is 3 / count (Hanley and Lippman-Hand, If nothing goes wrong, is
// everything all right?, 1983).
struct RatioEstimate {
  double value = 0, low = 0, high = 0;
  bool bounded = false;  // false: too few visits for an interval
};
RatioEstimate estimate_ratio(std::span<const Ratio> visits, bool share);
// Of messages that did not arrive, over messages.
RatioEstimate loss_share(std::span<const Losses> visits);

}  // namespace netpipe
