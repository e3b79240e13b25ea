// SPDX-License-Identifier: Apache-2.0
// What a layer says about an open endpoint, outside the timed region.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layer/layer.h"

namespace netpipe {

struct LayerFacts {
  std::string settings;  // as they really are: a JSON object of texts, by the names that describe gave
  std::string below;     // the layer that these settings really stand on, where describe says so
};
LayerFacts facts_of(const Layer& layer, np_endpoint* endpoint);

// The counters as they are now, as a JSON object of texts; "": the layer has none.
std::string counters_of(const Layer& layer, np_endpoint* endpoint);

// The counters as they are now, in the order of the table; INT64_MIN: cannot be read.
void read_counters(const Layer& layer, np_endpoint* endpoint, std::vector<std::int64_t>& values);
// after becomes what a visit counted: of a gauge its value at the end, of all others the difference.
void count_since(const Layer& layer, const std::vector<std::int64_t>& before, std::vector<std::int64_t>& after);

// limits becomes what the endpoint can do; that of a layer that does not say is unlimited.
np_status limits_of(const Layer& layer, np_endpoint* endpoint, np_limits& limits);

}  // namespace netpipe
