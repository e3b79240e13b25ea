// SPDX-License-Identifier: Apache-2.0
#include "catalog/variant.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "catalog/unsupported.h"

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

// text: as the user wrote it; kind: "module" or "pattern", for sentences; library: its version, or "".
Outcome choose(Choice& choice, const std::string& kind, const char* of, const np_option* options, std::uint32_t count,
               std::string_view text, const std::string& library = "") {
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
  std::vector<std::string> texts;
  for (const Value& value : values) texts.push_back(value.text);
  if (const std::string why = why_unsupported({options, count}, texts, defaults); !why.empty()) {
    return usage(who + (library.empty() ? "" : " (" + library + ")") + " cannot take " + why);
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

enum Common { common_buffers, common_reuse, common_send_offset, common_recv_offset };
constexpr std::int64_t most_offset = 1LL << 30;  // far below what would overflow when a message and its pool are added
constexpr std::array<np_option, 4> common{{
    {"buffers", NP_CHOICE, "warm", 0, 0, "warm|cold", "",
     "whether a message is where the one before was, in the cache, or at a new place in main memory", 0},
    {"reuse", NP_INT, "100", 0, 100, nullptr, "%",
     "of a hundred messages so many use one buffer again, all others one that was not used before", 0},
    {"send_offset", NP_SIZE, "0", 0, most_offset, nullptr, "bytes", "from a page boundary to where messages start", 0},
    {"recv_offset", NP_SIZE, "0", 0, most_offset, nullptr, "bytes", "from a page boundary to where messages land", 0},
}};

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
  const Outcome chosen = choose(variant, "module", module.name, module.options, module.noptions, text, module.version);
  if (!chosen) return chosen.failure();
  return variant;
}

std::span<const np_option> common_options() { return common; }

Result<Mode> parse_mode(std::string_view text, const BufferPolicy& buffers) {
  const std::string name = name_in(text);
  std::vector<std::string> names;
  Mode mode;
  for (const Pattern* pattern : all_patterns()) {
    names.emplace_back(pattern->name);
    if (name == pattern->name) mode.pattern = pattern;
  }
  if (mode.pattern == nullptr) return usage("there is no pattern '" + name + "'" + did_you_mean(name, names));
  const Pattern& pattern = *mode.pattern;
  mode.options.assign(pattern.options.begin(), pattern.options.end());
  mode.options.insert(mode.options.end(), common.begin(), common.end());
  np_option* const shared = &mode.options[pattern.options.size()];
  const std::string reuse = std::to_string(buffers.reuse_percent);
  const std::string send_offset = size_text(buffers.send_offset_bytes);
  const std::string recv_offset = size_text(buffers.recv_offset_bytes);
  shared[common_buffers].default_value = buffers.cold ? "cold" : "warm";
  shared[common_reuse].default_value = reuse.c_str();
  shared[common_send_offset].default_value = send_offset.c_str();
  shared[common_recv_offset].default_value = recv_offset.c_str();
  const auto count = static_cast<std::uint32_t>(mode.options.size());
  Outcome chosen = choose(mode, "pattern", pattern.name, mode.options.data(), count, text);
  for (np_option& option : std::span(mode.options).subspan(pattern.options.size())) option.default_value = nullptr;
  if (!chosen) return chosen.failure();
  const np_value* const values = &mode.values[pattern.options.size()];
  mode.buffers.cold = values[common_buffers].number != 0;
  mode.buffers.reuse_percent = static_cast<int>(values[common_reuse].number);
  mode.buffers.send_offset_bytes = static_cast<std::uint64_t>(values[common_send_offset].number);
  mode.buffers.recv_offset_bytes = static_cast<std::uint64_t>(values[common_recv_offset].number);
  if (mode.buffers.cold && mode.buffers.reuse_percent < 100) {
    return usage("pattern " + mode.name + ": cold buffers are never used again; leave out reuse or buffers");
  }
  return mode;
}

}  // namespace netpipe
