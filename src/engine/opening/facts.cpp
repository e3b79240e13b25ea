// SPDX-License-Identifier: Apache-2.0
#include "engine/opening/facts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "record/json.h"

namespace netpipe {
namespace {

// Run files have always held settings as text: "yes", "65536".
std::string text_of(const np_fact& fact) {
  std::array<char, 32> room{};
  char* const end = room.data() + room.size();
  switch (fact.kind) {
    case NP_FACT_TEXT: return fact.text != nullptr ? fact.text : "";
    case NP_FACT_INTEGER: return {room.data(), std::to_chars(room.data(), end, fact.integer).ptr};
    case NP_FACT_REAL: return {room.data(), std::to_chars(room.data(), end, fact.real).ptr};
    case NP_FACT_BOOL: return fact.integer != 0 ? "yes" : "no";
    default: return "";  // of a newer module
  }
}

struct Described {
  Json settings;
  std::string below;
};

void take_fact(void* to, const np_fact* given) {
  np_fact fact{};
  std::memcpy(&fact, given, std::min<std::size_t>(given->size, sizeof fact));
  auto& described = *static_cast<Described*>(to);
  if (fact.name == nullptr) return;
  if (std::string_view(fact.name) == "below") {
    described.below = text_of(fact);
  } else {
    described.settings.field(fact.name, text_of(fact));
  }
}

}  // namespace

LayerFacts facts_of(const Layer& layer, np_endpoint* endpoint) {
  Described described;
  described.settings.open('{');
  if (layer.describe != nullptr) layer.describe(endpoint, take_fact, &described);
  described.settings.close('}');
  return {described.settings.take(), described.below};
}

void read_counters(const Layer& layer, np_endpoint* endpoint, std::vector<std::int64_t>& values) {
  values.assign(layer.ncounters, INT64_MIN);
  if (layer.read_counters != nullptr) layer.read_counters(endpoint, values.data());
}

void count_since(const Layer& layer, const std::vector<std::int64_t>& before, std::vector<std::int64_t>& after) {
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (layer.counters[i].kind == NP_GAUGE || after[i] == INT64_MIN) continue;
    after[i] = before[i] == INT64_MIN ? INT64_MIN : after[i] - before[i];
  }
}

std::string counters_of(const Layer& layer, np_endpoint* endpoint) {
  if (layer.read_counters == nullptr) return {};
  std::vector<std::int64_t> values;
  read_counters(layer, endpoint, values);
  Json json;
  json.open('{');
  for (std::uint32_t i = 0; i < layer.ncounters; ++i) {
    if (values[i] != INT64_MIN) json.field(layer.counters[i].name, std::to_string(values[i]));
  }
  json.close('}');
  return json.take();
}

np_status limits_of(const Layer& layer, np_endpoint* endpoint, np_limits& limits) {
  // A newer module that assigns its longer struct as a whole must not write over what lies behind ours.
  union {
    np_limits ours;
    std::array<char, 512> room;
  } answer{};
  answer.ours.size = sizeof(np_limits);
  answer.ours.delivers = 1;
  answer.ours.idle = layer.idle;
  const np_status status = layer.limits != nullptr ? layer.limits(endpoint, &answer.ours) : NP_OK;
  if (status == NP_OK) limits = answer.ours;
  return status;
}

}  // namespace netpipe
