// SPDX-License-Identifier: Apache-2.0
#include "worker/listing.h"

#include <algorithm>
#include <map>
#include <span>

#include "base/text.h"
#include "catalog/absent.h"
#include "catalog/contract.h"
#include "netpipe/waiting.h"
#include "plan/plan_keys.h"
#include "record/json.h"
#include "sampling/yardstick.h"
#include "serving/serve.h"

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
      .field("tunable", option.tunable != NP_NOT_TUNABLE);
  const np_tunable tunable = tunable_of(option);
  const bool asked = tunable == NP_TUNABLE_WAITING || tunable == NP_TUNABLE_CALLING;
  asked ? json.field("about", tunable_word(tunable)) : json.field_null("about");
  json.close('}');
}

template <typename Options>
void add_options(Json& json, const char* name, const Options& options) {
  json.key(name).open('[');
  for (const np_option& option : options) add_option(json, option);
  json.close(']');
}

void add_measure(Json& json, const char* name, const char* unit, const char* help, Worse worse) {
  json.open('{').field("name", name).field("unit", unit).field("help", help);
  const char* const which = worse == Worse::more ? "more" : worse == Worse::less ? "less" : nullptr;
  text_or_null(json, "worse", which);
  json.close('}');
}

// Whether the layer carries the pattern with the defaults of its options.
bool carries(const Layer& m, const Pattern& pattern) {
  const int ranks = std::max(default_ranks, pattern.min_ranks);
  if (!skip_reason(pattern, m, ranks).empty()) return false;
  const Result<ChosenPattern> chosen = parse_pattern(pattern.name);
  return chosen && pattern.unfit(chosen->part(0, std::min(ranks, m.max_ranks), 0), m).empty();
}

void add_default(Json& json, const std::string& module_path) {
  json.key("default").open('[');
  for (const std::string& variant : default_variants(module_path)) json.value(variant);
  json.close(']');
}

void add_module(Json& json, const LoadedModule& module) {
  const Layer& m = *module.layer;
  json.open('{')
      .field("name", m.name)
      .field("summary", m.summary)
      .field("version", m.version)
      .field("path", module.path)
      .field("launched", launched(m));
  text_or_null(json, "description", module.description.empty() ? nullptr : module.description.c_str());
  json.field("available", module.reason.empty());
  text_or_null(json, "reason", module.reason.empty() ? nullptr : module.reason.c_str());
  add_default(json, module.path);
  text_or_null(json, "below", m.below);
  text_or_null(json, "adds", m.adds);
  json.field("idle", m.idle != 0).field("min_ranks", m.min_ranks).field("max_ranks", m.max_ranks);
  json.field("max_threads", std::max(m.max_threads, 1U))
      .field("crosses_hosts", m.crosses_hosts != 0)
      .field("to_itself", m.to_itself != 0);
  json.key("operations").open('[');
  for (const std::string_view operation : operations(m)) json.value(operation);
  json.close(']');
  add_options(json, "options", std::span(m.options, m.noptions));
  json.key("patterns").open('[');
  for (const Pattern* pattern : all_patterns()) {
    if (carries(m, *pattern)) json.value(pattern->name);
  }
  json.close(']').key("measures").open('[');
  for (const np_measure& one : std::span(m.measures, m.nmeasures)) {
    add_measure(json, one.name, one.unit, one.help, Worse::more);
  }
  json.close(']').close('}');
}

// A layer that was not built: all that is known is its name, its summary, and why.
void add_absent(Json& json, const AbsentModule& module) {
  json.open('{').field("name", module.name).field("summary", module.summary).field("version", "");
  json.field("path", module.path).field("launched", false).field_null("description");
  json.field("available", false).field("reason", module.reason);
  add_default(json, module.path);
  json.field_null("below").field_null("adds");
  json.field("idle", false)
      .field("min_ranks", 1)
      .field("max_ranks", 1)
      .field("max_threads", 1)
      .field("crosses_hosts", false)
      .field("to_itself", false);
  for (const char* empty : {"operations", "options", "patterns", "measures"}) json.key(empty).open('[').close(']');
  json.close('}');
}

void add_plan_key(Json& json, const PlanKey& key) {
  const auto bound = [&](const char* name, const std::optional<double>& value) {
    if (!value) {
      json.field_null(name);
    } else if (key.type == PlanType::integer || key.type == PlanType::size) {
      json.field(name, static_cast<std::int64_t>(*value));
    } else {
      json.field(name, *value);
    }
  };
  json.open('{').field("name", key.name);
  text_or_null(json, "option", key.option);
  text_or_null(json, "metavar", key.metavar);
  json.field("type", type_name(key.type)).field("default", default_of(key));
  bound("min", key.least);
  bound("max", key.most);
  json.key("choices").open('[');
  for (const std::string& choice : key.choices) json.value(choice);
  json.close(']').field("unit", key.unit).field("help", key.help);
  json.field("repeatable", repeatable(key)).field("shown", key.option != nullptr).field("agreed", key.agreed);
  json.close('}');
}

// What needs no module: the fields of `keys`, which are in `list` too.
void add_fixed(Json& json) {
  json.field("netpipe", NETPIPE_VERSION).field("abi", NP_ABI).key("plan_keys").open('[');
  for (const PlanKey& key : plan_keys()) add_plan_key(json, key);
  json.close(']');
  add_options(json, "variant_options", common_variant_options());
  add_options(json, "pattern_options", common_options());
  json.key("exit_codes").open('[');
  for (const ExitCode& code : exit_codes) {
    json.open('{').field("code", static_cast<int>(code.exit)).field("name", code.name);
    json.field("meaning", code.meaning).close('}');
  }
  json.close(']').key("waiting").open('[');
#define NETPIPE_WAITING(number, word, verb, meaning) \
  json.open('{').field("word", word).field("verb", verb).field("meaning", meaning).close('}');
  NP_WAITING(NETPIPE_WAITING)
#undef NETPIPE_WAITING
  json.close(']').key("serve_options").open('[');
  for (const ServeOptionText& option : serve_option_texts()) {
    json.open('{').field("name", option.name).field("metavar", option.metavar);
    json.field("default", option.preset).field("help", option.help).close('}');
  }
  json.close(']').key("module_directories").open('[');
  for (const ModuleDirectory& directory : module_search_path()) {
    json.open('{').field("path", directory.path).field("kind", directory.kind).close('}');
  }
  json.close(']').key("state_tolerances").open('{');
  json.field("bounce", MachineStates::bounce_tolerance).field("copy", MachineStates::copy_tolerance).close('}');
}

// "mpi" stands for every added library: {"mpi": ["mpi@mpich", "mpi@openmpi"]}.
void add_libraries(Json& json, const Registry& registry) {
  std::map<std::string, std::vector<std::string>> libraries;
  for (const LoadedModule& module : registry.modules()) {
    const std::string name = module.layer->name;
    const auto at = name.find('@');
    if (at != std::string::npos) libraries[name.substr(0, at)].push_back(name);
  }
  json.key("libraries").open('{');
  for (const auto& [base, names] : libraries) {
    json.key(base).open('[');
    for (const std::string& name : names) json.value(name);
    json.close(']');
  }
  json.close('}');
}

// Sizes of this curve that are measured, as far as the plan alone tells.
// Of an adaptive schedule: at least so many.
std::size_t points_of(const Plan& plan, const Resolved& resolved, const ChosenPattern& pattern, int nranks) {
  const bool adaptive = plan.schedule.kind == Schedule::Kind::adaptive;
  return static_cast<std::size_t>(
      std::count_if(resolved.sizes.begin(), resolved.sizes.end(), [&](std::uint64_t size_bytes) {
        return (!adaptive || is_coarse(plan.schedule, size_bytes)) && takes_size(resolved, pattern, nranks, size_bytes);
      }));
}

}  // namespace

std::string keys_json() {
  Json json;
  json.open('{');
  add_fixed(json);
  json.close('}');
  return json.take();
}

std::string listing_json(const Registry& registry) {
  Json json;
  json.open('{');
  add_fixed(json);
  json.key("modules").open('[');
  for (const LoadedModule& module : registry.modules()) add_module(json, module);
  for (const AbsentModule& module : registry.absent()) add_absent(json, module);
  json.close(']');
  add_libraries(json, registry);
  json.key("patterns").open('[');
  for (const Pattern* pattern : all_patterns()) {
    json.open('{').field("name", pattern->name).field("summary", pattern->summary).field("formula", pattern->formula);
    json.field("source", pattern->source).field("min_ranks", pattern->min_ranks).field("max_ranks", pattern->max_ranks);
    add_options(json, "options", pattern->options);
    json.key("measures").open('[');
    for (const Measure& one : pattern->measures) add_measure(json, one.name, one.unit, one.help, one.worse);
    json.close(']').close('}');
  }
  json.close(']').key("refused").open('[');
  for (const RefusedModule& refused : registry.refused()) {
    json.open('{').field("path", refused.path).field("reason", refused.why.sentence).close('}');
  }
  json.close(']').close('}');
  return json.take();
}

std::string resolved_plan_json(const Plan& plan, const Resolved& resolved) {
  std::string record = plan_record(plan, resolved, plan_hash(canonical_text(plan, resolved)), plan.pin.cpus);
  record.pop_back();  // the record's closing bracket: more fields follow
  Json json;
  json.open('{');
  double seconds = 0;
  json.key("curves").open('[');
  for (const Variant& variant : resolved.variants) {
    for (const ChosenPattern& chosen : resolved.patterns) {
      const std::string reason = foreseen_obstacle(plan, chosen, variant);
      const std::size_t points = reason.empty() ? points_of(plan, resolved, chosen, variant.ranks) : 0;
      seconds += reason.empty() ? launch_budget_s(plan) : 0;
      json.open('{').field("variant", variant.name).field("pattern", chosen.name).field("ranks", variant.ranks);
      json.field("points", points).key("reason");
      reason.empty() ? json.null() : json.value(reason);
      json.close('}');
    }
  }
  json.close(']').field("expected_s", seconds).field("memory_bytes", buffer_bytes(plan, resolved)).close('}');
  return record + "," + json.text().substr(1);
}

}  // namespace netpipe
