// SPDX-License-Identifier: Apache-2.0
// What a layer says about an open endpoint, outside the timed region.
#pragma once

#include <string>

#include "layer/layer.h"

namespace netpipe {

struct LayerFacts {
  std::string settings;  // as they really are: a JSON object of texts, by the names that describe gave
  std::string below;     // the layer that these settings really stand on, where describe says so
};
LayerFacts facts_of(const Layer& layer, np_endpoint* endpoint);

// The counters as they are now, as a JSON object of texts; "": the layer has none.
std::string counters_of(const Layer& layer, np_endpoint* endpoint);

// limits becomes what the endpoint can do; that of a layer that does not say is unlimited.
np_status limits_of(const Layer& layer, np_endpoint* endpoint, np_limits& limits);

}  // namespace netpipe
