// SPDX-License-Identifier: Apache-2.0
#include "worker/results/counts.h"

#include <algorithm>
#include <cmath>

#include "record/json.h"

namespace netpipe {

void add_counters(const Layer& layer, std::span<const std::int64_t> counters, std::vector<std::int64_t>& total) {
  if (counters.size() != layer.ncounters) return;
  if (total.empty()) total.assign(counters.size(), INT64_MIN);
  for (std::size_t i = 0; i < counters.size(); ++i) {
    if (counters[i] == INT64_MIN) continue;
    const bool adds = layer.counters[i].kind == NP_COUNTS_UP && total[i] != INT64_MIN;
    // A count of another host may be anything: at the largest number it stays.
    if (!adds) {
      total[i] = std::max(total[i], counters[i]);
    } else if (__builtin_add_overflow(total[i], counters[i], &total[i])) {
      total[i] = INT64_MAX;
    }
  }
}

std::string counters_json(const Layer& layer, std::span<const std::int64_t> total, bool with_zeros) {
  Json json;
  json.open('{');
  for (std::size_t i = 0; i < total.size(); ++i) {
    if (total[i] != INT64_MIN && (with_zeros || total[i] != 0)) json.field(layer.counters[i].name, total[i]);
  }
  json.close('}');
  return json.take();
}

void add_to_measures(const Layer& layer, std::span<const std::int64_t> counters,
                     std::vector<std::vector<Ratio>>& of_layer) {
  if (counters.size() != layer.ncounters) return;
  of_layer.resize(layer.nmeasures);
  for (std::uint32_t m = 0; m < layer.nmeasures; ++m) {
    const std::int64_t sum = counters[layer.measures[m].sum], count = counters[layer.measures[m].count];
    if (sum >= 0 && count > 0) of_layer[m].push_back({static_cast<double>(sum), static_cast<double>(count)});
  }
}

// The ratio estimator of cluster sampling (Cochran, Sampling Techniques, 1977, section 6.3): a visit is a cluster.
RatioEstimate estimate_ratio(std::span<const Ratio> visits, bool share) {
  double sum = 0, count = 0;
  for (const Ratio& visit : visits) {
    sum += visit.sum;
    count += visit.count;
  }
  RatioEstimate result;
  if (count == 0) return result;
  result.value = sum / count;
  const auto n = static_cast<double>(visits.size());
  result.bounded = visits.size() >= fewest_passes;
  if (!result.bounded) return result;
  double squares = 0;
  for (const Ratio& visit : visits) {
    const double off = visit.sum - result.value * visit.count;
    squares += off * off;
  }
  constexpr double two_sided_95 = 2.365;  // Student's t with 7 degrees of freedom, those of the fewest visits
  const double error = two_sided_95 * std::sqrt(squares * n / (n - 1)) / count;
  result.low = std::max(result.value - error, 0.0);
  result.high = result.value + error;
  if (share) result.high = std::min(std::max(result.high, 3 / count), 1.0);
  return result;
}

RatioEstimate loss_share(std::span<const Losses> visits) {
  std::vector<Ratio> ratios;
  for (const Losses& visit : visits) {
    ratios.push_back({static_cast<double>(visit.lost), static_cast<double>(visit.messages)});
  }
  return estimate_ratio(ratios, true);
}

}  // namespace netpipe
