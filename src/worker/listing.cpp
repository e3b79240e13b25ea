// SPDX-License-Identifier: Apache-2.0
#include "worker/listing.h"

#include "base/text.h"
#include "catalog/contract.h"
#include "record/json.h"

namespace netpipe {
namespace {

void text_or_null(Json& json, const char* name, const char* text) {
  json.key(name);
  text != nullptr ? json.value(text) : json.null();
}

void add_option(Json& json, const np_option& option) {
  json.open('{').field("name", option.name).field("type", type_name(option.type));
  json.field("default", option.default_value);
  const bool ranged = option.type == NP_INT || option.type == NP_SIZE;
  ranged ? json.field("min", option.min).field("max", option.max) : json.field_null("min").field_null("max");
  json.key("choices").open('[');
  if (option.type == NP_CHOICE) {
    for (const std::string& choice : split(option.choices, '|')) json.value(choice);
  }
  json.close(']')
      .field("unit", option.unit)
      .field("help", option.help)
      .field("tunable", option.tunable != 0)
      .close('}');
}

void add_module(Json& json, const LoadedModule& module) {
  const Layer& m = *module.layer;
  const std::string reason = probe_reason(m);
  json.open('{')
      .field("name", m.name)
      .field("summary", m.summary)
      .field("version", m.version)
      .field("path", module.path)
      .field("launched", launched(m));
  text_or_null(json, "description", module.description.empty() ? nullptr : module.description.c_str());
  json.field("available", reason.empty()).key("reason");
  reason.empty() ? json.null() : json.value(reason);
  text_or_null(json, "below", m.below);
  text_or_null(json, "adds", m.adds);
  json.field("min_ranks", m.min_ranks).field("max_ranks", m.max_ranks).field("crosses_hosts", m.crosses_hosts != 0);
  json.key("operations").open('[');
  for (const std::string_view operation : operations(m)) json.value(operation);
  json.close(']').key("options").open('[');
  for (std::uint32_t i = 0; i < m.noptions; ++i) add_option(json, m.options[i]);
  json.close(']').key("patterns").open('[');
  for (const Pattern* pattern : all_patterns()) {
    if (skip_reason(*pattern, m).empty()) json.value(pattern->name);
  }
  json.close(']').close('}');
}

}  // namespace

std::string listing_json(const Registry& registry) {
  Json json;
  json.open('{').field("netpipe", NETPIPE_VERSION).field("abi", NP_ABI).key("modules").open('[');
  for (const LoadedModule& module : registry.modules()) add_module(json, module);
  json.close(']').key("patterns").open('[');
  for (const Pattern* pattern : all_patterns()) {
    json.open('{').field("name", pattern->name).field("summary", pattern->summary).field("formula", pattern->formula);
    json.field("source", pattern->source).field("min_ranks", pattern->min_ranks).field("max_ranks", pattern->max_ranks);
    json.key("options").open('[');
    for (const np_option& option : pattern->options) add_option(json, option);
    json.close(']').key("measures").open('[');
    for (const Measure& measure : pattern->measures) {
      json.open('{').field("name", measure.name).field("unit", measure.unit).field("help", measure.help).close('}');
    }
    json.close(']').close('}');
  }
  json.close(']').key("pattern_options").open('[');
  for (const np_option& option : common_options()) add_option(json, option);
  json.close(']').key("refused").open('[');
  for (const RefusedModule& refused : registry.refused()) {
    json.open('{').field("path", refused.path).field("reason", refused.reason).close('}');
  }
  json.close(']').close('}');
  return json.take();
}

std::string resolved_plan_json(const Plan& plan, const Resolved& resolved) {
  std::string record = plan_record(plan, resolved, plan_hash(canonical_text(plan, resolved)), plan.pin.cpus);
  record.pop_back();  // goes on behind the record's fields
  Json json;
  json.open('{');
  double seconds = 0;
  json.key("curves").open('[');
  for (const Variant& variant : resolved.variants) {
    for (const Mode& mode : resolved.modes) {
      const std::string reason = skip_reason(mode, *variant.module, plan.ranks);
      const std::size_t points = reason.empty() ? resolved.sizes.size() : 0;
      seconds += reason.empty() ? plan.budget_s : 0;
      json.open('{').field("variant", variant.name).field("pattern", mode.name).field("points", points).key("reason");
      reason.empty() ? json.null() : json.value(reason);
      json.close('}');
    }
  }
  const std::uint64_t memory = 2 * half_bytes(resolved.pool) * resolved.variants.size();
  json.close(']').field("expected_s", seconds).field("memory_bytes", memory).close('}');
  return record + "," + json.text().substr(1);
}

}  // namespace netpipe
