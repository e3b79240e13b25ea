// SPDX-License-Identifier: Apache-2.0
#include "core/variant.h"

#include <algorithm>

#include "core/text.h"

namespace netpipe {
namespace {

struct Value {
  std::int64_t number = 0;
  std::string text;  // canonical, so that equal settings have equal names
};

Result<Value> number_in_range(const np_option& option, std::int64_t number, std::string text) {
  if (number < option.min || number > option.max) {
    const bool size = option.type == NP_SIZE;
    const auto show = [&](std::int64_t n) {
      return size ? size_text(static_cast<std::uint64_t>(n)) : std::to_string(n);
    };
    return usage(text + " is outside " + show(option.min) + " to " + show(option.max));
  }
  return Value{number, std::move(text)};
}

Result<Value> parse_value(const np_option& option, std::string_view text) {
  switch (option.type) {
    case NP_BOOL: {
      const Result<bool> yes = parse_yes_no(text);
      if (!yes) return yes.failure();
      return Value{*yes ? 1 : 0, *yes ? "yes" : "no"};
    }
    case NP_INT: {
      const Result<std::int64_t> number = parse_integer(text);
      if (!number) return number.failure();
      return number_in_range(option, *number, std::to_string(*number));
    }
    case NP_SIZE: {
      const Result<std::uint64_t> size = parse_size(text);
      if (!size) return size.failure();
      return number_in_range(option, static_cast<std::int64_t>(*size), size_text(*size));
    }
    case NP_CHOICE: {
      const std::vector<std::string> choices = split(option.choices, '|');
      const auto at = std::find(choices.begin(), choices.end(), text);
      if (at == choices.end())
        return usage("'" + std::string(text) + "' is not one of its choices" + did_you_mean(text, choices));
      return Value{at - choices.begin(), *at};
    }
    case NP_TEXT: break;
  }
  return Value{0, std::string(text)};
}

// settings: what stands behind the colon of the user's text; kind: "module" or "pattern", for sentences.
Outcome choose(Choice& choice, const std::string& kind, const char* of, const np_option* options, std::uint32_t count,
               std::string_view text) {
  const std::string who = kind + " " + of;
  std::vector<std::string> names;
  std::vector<Value> values;
  std::vector<std::string> defaults;
  for (std::uint32_t i = 0; i < count; ++i) {
    names.emplace_back(options[i].name);
    const Result<Value> value = parse_value(options[i], options[i].default_value);
    if (!value) {
      return usage(who + ": the default of option '" + names.back() + "' is wrong: " + value.failure().sentence);
    }
    values.push_back(*value);
    defaults.push_back(value->text);
  }
  const auto colon = text.find(':');
  if (colon != std::string_view::npos) {
    for (const std::string& setting : split(text.substr(colon + 1), ',')) {
      const auto equals = setting.find('=');
      const std::string key{trim(std::string_view(setting).substr(0, equals))};
      const auto at = std::find(names.begin(), names.end(), key);
      if (at == names.end()) {
        return usage(who + " has no option '" + key + "'" +
                     (names.empty() ? "; it has no options" : did_you_mean(key, names)));
      }
      if (equals == std::string::npos) {
        return usage("option '" + key + "' of " + who + " needs a value: " + key + "=VALUE");
      }
      const auto index = static_cast<std::size_t>(at - names.begin());
      const Result<Value> value = parse_value(options[index], trim(std::string_view(setting).substr(equals + 1)));
      if (!value) return usage("option '" + key + "' of " + who + ": " + value.failure().sentence);
      values[index] = *value;
    }
  }
  choice.name = of;
  char separator = ':';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].text != defaults[i]) {
      choice.name += separator + names[i] + "=" + values[i].text;
      separator = ',';
    }
    choice.texts.push_back(values[i].text);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Moving a Choice moves the vector's buffer and so keeps these strings where they are.
    choice.values.push_back({values[i].number, choice.texts[i].c_str()});
  }
  return ok();
}

std::string name_in(std::string_view text) { return std::string(trim(text.substr(0, text.find(':')))); }

}  // namespace

std::string Choice::whole(const char* of, const np_option* options) const {
  std::string text = of;
  for (std::size_t i = 0; i < texts.size(); ++i)
    text += (i == 0 ? ":" : ",") + std::string(options[i].name) + "=" + texts[i];
  return text;
}

Result<Variant> parse_variant(std::string_view text, const Registry& registry) {
  const std::string name = name_in(text);
  const LoadedModule* loaded = registry.find(name);
  if (loaded == nullptr) return usage("there is no module '" + name + "'" + did_you_mean(name, registry.names()));
  const np_module& module = *loaded->table;
  Variant variant;
  variant.module = &module;
  if (Outcome chosen = choose(variant, "module", module.name, module.options, module.noptions, text); !chosen) {
    return chosen.failure();
  }
  return variant;
}

Result<Mode> parse_mode(std::string_view text) {
  const std::string name = name_in(text);
  std::vector<std::string> names;
  Mode mode;
  for (const Pattern* pattern : all_patterns()) {
    names.emplace_back(pattern->name);
    if (name == pattern->name) mode.pattern = pattern;
  }
  if (mode.pattern == nullptr) return usage("there is no pattern '" + name + "'" + did_you_mean(name, names));
  const Pattern& pattern = *mode.pattern;
  const auto count = static_cast<std::uint32_t>(pattern.options.size());
  if (Outcome chosen = choose(mode, "pattern", pattern.name, pattern.options.data(), count, text); !chosen) {
    return chosen.failure();
  }
  return mode;
}

}  // namespace netpipe
