// SPDX-License-Identifier: Apache-2.0
#include "worker/counts.h"

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

// The ratio estimator of cluster sampling (Cochran, Sampling Techniques, 1977, section 6.3): a visit is a cluster.
LossShare loss_share(std::span<const Losses> visits) {
  double lost = 0, messages = 0;
  for (const Losses& visit : visits) {
    lost += static_cast<double>(visit.lost);
    messages += static_cast<double>(visit.messages);
  }
  LossShare result;
  if (messages == 0) return result;
  result.share = lost / messages;
  const auto n = static_cast<double>(visits.size());
  result.bounded = visits.size() >= fewest_passes;
  if (!result.bounded) return result;
  double squares = 0;
  for (const Losses& visit : visits) {
    const double off = static_cast<double>(visit.lost) - result.share * static_cast<double>(visit.messages);
    squares += off * off;
  }
  constexpr double two_sided_95 = 2.365;  // Student's t with 7 degrees of freedom, those of the fewest visits
  const double error = two_sided_95 * std::sqrt(squares * n / (n - 1)) / messages;
  result.low = std::max(result.share - error, 0.0);
  result.high = std::min(std::max(result.share + error, 3 / messages), 1.0);
  return result;
}

}  // namespace netpipe
