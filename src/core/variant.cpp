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

}  // namespace

Result<Variant> parse_variant(std::string_view text, const Registry& registry) {
  const auto colon = text.find(':');
  const std::string_view name = trim(text.substr(0, colon));
  const LoadedModule* loaded = registry.find(name);
  if (loaded == nullptr) {
    return usage("there is no module '" + std::string(name) + "'" + did_you_mean(name, registry.names()));
  }
  const np_module& module = *loaded->table;
  Variant variant;
  variant.module = &module;
  std::vector<std::string> option_names;
  std::vector<Value> values;
  std::vector<std::string> defaults;
  for (std::uint32_t i = 0; i < module.noptions; ++i) {
    const np_option& option = module.options[i];
    option_names.emplace_back(option.name);
    const Result<Value> value = parse_value(option, option.default_value);
    if (!value) {
      return usage("module " + std::string(module.name) + ": the default of option '" + option.name +
                   "' is wrong: " + value.failure().sentence);
    }
    values.push_back(*value);
    defaults.push_back(value->text);
  }
  if (colon != std::string_view::npos) {
    for (const std::string& setting : split(text.substr(colon + 1), ',')) {
      const auto equals = setting.find('=');
      const std::string key{trim(std::string_view(setting).substr(0, equals))};
      const auto at = std::find(option_names.begin(), option_names.end(), key);
      if (at == option_names.end()) {
        return usage("module " + std::string(module.name) + " has no option '" + key + "'" +
                     (option_names.empty() ? "; it has no options" : did_you_mean(key, option_names)));
      }
      if (equals == std::string::npos) {
        return usage("option '" + key + "' of module " + module.name + " needs a value: " + key + "=VALUE");
      }
      const std::size_t index = static_cast<std::size_t>(at - option_names.begin());
      const Result<Value> value =
          parse_value(module.options[index], trim(std::string_view(setting).substr(equals + 1)));
      if (!value) {
        return usage("option '" + key + "' of module " + module.name + ": " + value.failure().sentence);
      }
      values[index] = *value;
    }
  }
  variant.name = module.name;
  char separator = ':';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].text != defaults[i]) {
      variant.name += separator + option_names[i] + "=" + values[i].text;
      separator = ',';
    }
    variant.texts.push_back(values[i].text);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Moving a Variant moves the vector's buffer and so keeps these strings where they are.
    variant.values.push_back({values[i].number, variant.texts[i].c_str()});
  }
  return variant;
}

}  // namespace netpipe
