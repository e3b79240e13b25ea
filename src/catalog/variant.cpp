// SPDX-License-Identifier: Apache-2.0
#include "catalog/variant.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"
#include "catalog/unsupported.h"

namespace netpipe {
namespace {

struct Value {
  std::int64_t number = 0;
  std::string text;  // canonical, so that equal settings get equal names
};

Result<Value> number_in_range(const np_option& option, std::int64_t number, std::string text) {
  if (number < option.min || number > option.max) {
    const bool size = option.type == NP_SIZE;
    const auto show = [&](std::int64_t n) {
      return size ? size_text(static_cast<std::uint64_t>(n)) : std::to_string(n);
    };
    if (option.min == option.max) return usage(text + " is not possible; it has to be " + show(option.min));
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

// Reads the settings behind the colon of the user's text for chosen.options. kind: "module" or "pattern"; of: its name;
// library: its version, or "".
Outcome choose(ChosenSettings& chosen, const std::string& kind, const char* of, std::string_view text,
               const std::string& library = "") {
  const std::string who = kind + " " + of;
  const std::span<const np_option> options = chosen.options;
  std::vector<std::string> names;
  std::vector<Value> values;
  std::vector<std::string> defaults;
  for (const np_option& option : options) {
    const Result<Value> value = parse_value(option, option.default_value);
    if (!value) {
      return usage(who + ": the default of option '" + option.name + "' is wrong: " + value.failure().sentence);
    }
    names.emplace_back(option.name);
    values.push_back(*value);
    defaults.push_back(value->text);
  }
  const auto colon = text.find(':');
  if (colon != std::string_view::npos) {
    for (const std::string& setting : split(text.substr(colon + 1), ',')) {
      const auto equals = setting.find('=');
      const std::string key{trim(std::string_view(setting).substr(0, equals))};
      if (key.empty()) return usage(who + ": a setting is empty; write " + of + ":OPTION=VALUE,...");
      const auto at = std::find(names.begin(), names.end(), key);
      if (at == names.end()) return usage(who + " has no option '" + key + "'" + did_you_mean(key, names));
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
  if (const std::string why = why_unsupported(options, texts, defaults); !why.empty()) {
    return usage(who + (library.empty() ? "" : " (" + library + ")") + " cannot take " + why);
  }
  chosen.name = of;
  char separator = ':';
  for (std::size_t i = 0; i < values.size(); ++i) {
    chosen.changed.push_back(values[i].text != defaults[i]);
    if (chosen.changed.back()) {
      chosen.name += separator + names[i] + "=" + values[i].text;
      separator = ',';
    }
    chosen.texts.push_back(values[i].text);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    // A move takes the vector's buffer along, so these strings stay where they are.
    chosen.values.push_back({values[i].number, chosen.texts[i].c_str()});
  }
  return ok();
}

// "#2" at the end of a variant, or "". A value may have a # of its own, so only a number from 2 on counts.
std::string_view copy_in(std::string_view text) {
  const auto mark = text.rfind('#');
  if (mark == std::string_view::npos || mark + 1 == text.size() || text.size() - mark > 5) return {};
  const std::string_view number = text.substr(mark + 1);
  const bool digits = std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits && number[0] != '0' && number != "1" ? text.substr(mark) : std::string_view{};
}

// Defaults of the common options are the plan's: these are only in force until then.
enum CommonOfPattern { common_buffers, common_reuse, common_send_offset, common_recv_offset };
constexpr std::array<np_option, 4> of_patterns{{
    {"buffers", NP_CHOICE, "warm", 0, 0, buffer_choices, "", buffers_help, 1},
    {"reuse", NP_INT, "100", 0, 100, nullptr, "%",
     "percentage of messages that reuse a buffer; each of the others takes pages that were mapped for it", 1},
    {"send_offset", NP_SIZE, "0", 0, most_offset_bytes, nullptr, "bytes",
     "where messages start, counted from a page boundary", 1},
    {"recv_offset", NP_SIZE, "0", 0, most_offset_bytes, nullptr, "bytes",
     "where messages land, counted from a page boundary", 1},
}};
enum CommonOfVariant { common_ranks, common_pages, common_node };
constexpr std::array<np_option, 3> of_variants{{
    {"ranks", NP_INT, "2", 1, most_ranks, nullptr, "",
     "number of processes that take part; by default what --ranks says", 0},
    {"pages", NP_CHOICE, "auto", 0, 0, page_choices, "", pages_help, 0},
    {"node", NP_INT, "-1", -1, most_node, nullptr, "",
     "NUMA node that message memory is on; -1 leaves it to the kernel", 0},
}};

std::optional<std::size_t> place_of(std::span<const np_option> options, std::string_view name) {
  const auto at = std::find_if(options.begin(), options.end(), [&](const np_option& one) { return one.name == name; });
  return at == options.end() ? std::nullopt : std::optional(static_cast<std::size_t>(at - options.begin()));
}

// Whether the settings behind the colon of a variant's text name this option.
bool names_option(std::string_view text, std::string_view name) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  const std::vector<std::string> settings = split(text.substr(colon + 1), ',');
  return std::any_of(settings.begin(), settings.end(), [&](const std::string& setting) {
    return trim(std::string_view(setting).substr(0, setting.find('='))) == name;
  });
}

// A layer that stays in one process is the floor of a comparison, however many ranks the others have.
Outcome takes_ranks(const Layer& module, int ranks) {
  if (module.max_ranks == 1 || (ranks >= module.min_ranks && ranks <= module.max_ranks)) return ok();
  const std::string name = module.name;
  const std::string least = std::to_string(module.min_ranks);
  const std::string most = module.min_ranks == module.max_ranks ? ""
                           : module.max_ranks < INT32_MAX       ? " to " + std::to_string(module.max_ranks)
                                                                : " or more";
  const std::string nearest = std::to_string(possible_ranks(module, ranks));
  return usage("module " + name + " takes " + least + most + " ranks, and --ranks asks for " + std::to_string(ranks) +
               "; write " + name + ":ranks=" + nearest + " to measure it with " + nearest + ", or leave it out");
}

}  // namespace

std::string name_in(std::string_view text) { return std::string(trim(text.substr(0, text.find_first_of(":#")))); }

std::string ChosenSettings::full_name() const {
  std::string text = name_in(name);
  for (std::size_t i = 0; i < texts.size(); ++i)
    text += (i == 0 ? ":" : ",") + std::string(options[i].name) + "=" + texts[i];
  return text + copy;
}

int possible_ranks(const Layer& module, int ranks) { return std::clamp(ranks, module.min_ranks, module.max_ranks); }

Result<Variant> parse_variant(std::string_view whole, const Registry& registry, int ranks) {
  const std::string_view copy = copy_in(whole);
  const std::string_view text = whole.substr(0, whole.size() - copy.size());
  const std::string name = name_in(text);
  const Result<const LoadedModule*> loaded = registry.require(name);
  if (!loaded) return loaded.failure();
  const Layer& module = *(*loaded)->layer;
  Variant variant;
  variant.module = &module;
  variant.lack = (*loaded)->reason;
  variant.options.assign(module.options, module.options + module.noptions);
  // Those that all variants have, unless the module has one of the same name: behind its own.
  const std::size_t own = variant.options.size();
  for (const np_option& common : of_variants) {
    if (!place_of(std::span(variant.options).first(own), common.name)) variant.options.push_back(common);
  }
  const auto added = [&](CommonOfVariant which) {
    const std::optional<std::size_t> place =
        place_of(std::span<const np_option>(variant.options).subspan(own), of_variants[which].name);
    return place ? std::optional(own + *place) : std::nullopt;
  };
  const std::optional<std::size_t> count = added(common_ranks);
  variant.ranks = possible_ranks(module, ranks);
  const std::string by_default = std::to_string(variant.ranks);
  if (!count || !names_option(text, of_variants[common_ranks].name)) {
    if (Outcome takes = takes_ranks(module, ranks); !takes) return takes.failure();
  }
  if (count) {
    np_option& option = variant.options[*count];
    option.default_value = by_default.c_str();
    option.min = module.min_ranks;
    option.max = module.max_ranks;
  }
  Outcome chosen = choose(variant, "module", module.name, text, module.version);
  if (!chosen) return chosen.failure();
  if (count) {
    variant.options[*count].default_value = of_variants[common_ranks].default_value;
    variant.ranks = static_cast<int>(variant.values[*count].number);
  }
  if (const auto pages = added(common_pages)) variant.pages.kind = static_cast<Pages>(variant.values[*pages].number);
  if (const auto node = added(common_node)) variant.pages.node = static_cast<int>(variant.values[*node].number);
  variant.copy = copy;
  variant.name += copy;
  return variant;
}

std::span<const np_option> common_variant_options() { return of_variants; }
std::span<const np_option> common_options() { return of_patterns; }

Result<ChosenPattern> parse_pattern(std::string_view text, const BufferPolicy& buffers) {
  const std::string name = name_in(text);
  std::vector<std::string> names;
  ChosenPattern chosen;
  for (const Pattern* pattern : all_patterns()) {
    names.emplace_back(pattern->name);
    if (name == pattern->name) chosen.pattern = pattern;
  }
  if (chosen.pattern == nullptr) return usage("there is no pattern '" + name + "'" + did_you_mean(name, names));
  const Pattern& pattern = *chosen.pattern;
  chosen.options.assign(pattern.options.begin(), pattern.options.end());
  chosen.options.insert(chosen.options.end(), of_patterns.begin(), of_patterns.end());
  const std::span<np_option> common = std::span(chosen.options).subspan(pattern.options.size());
  const std::string reuse = std::to_string(buffers.reuse_percent);
  const std::string send_offset = size_text(buffers.send_offset_bytes);
  const std::string recv_offset = size_text(buffers.recv_offset_bytes);
  const std::string kind = split(buffer_choices, '|')[static_cast<std::size_t>(buffers.kind)];
  common[common_buffers].default_value = kind.c_str();
  common[common_reuse].default_value = reuse.c_str();
  common[common_send_offset].default_value = send_offset.c_str();
  common[common_recv_offset].default_value = recv_offset.c_str();
  Outcome settings = choose(chosen, "pattern", pattern.name, text);
  for (np_option& option : common) option.default_value = nullptr;  // what it pointed to ends here
  if (!settings) return settings.failure();
  const np_value* const values = &chosen.values[pattern.options.size()];
  chosen.buffers.kind = static_cast<Buffers>(values[common_buffers].number);
  chosen.buffers.reuse_percent = static_cast<int>(values[common_reuse].number);
  chosen.buffers.send_offset_bytes = static_cast<std::uint64_t>(values[common_send_offset].number);
  chosen.buffers.recv_offset_bytes = static_cast<std::uint64_t>(values[common_recv_offset].number);
  const bool once = chosen.buffers.kind == Buffers::cold || chosen.buffers.kind == Buffers::fresh;
  if (once && chosen.buffers.reuse_percent < 100) {
    return usage("pattern " + chosen.name + ": " + chosen.texts[pattern.options.size() + common_buffers] +
                 " buffers are never reused; leave out either buffers or reuse");
  }
  return chosen;
}

}  // namespace netpipe
