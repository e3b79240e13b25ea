// SPDX-License-Identifier: Apache-2.0
#include "catalog/unsupported.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "base/text.h"

namespace netpipe {
namespace {

struct Other {
  std::string option;
  std::vector<std::string> values;
};

struct Clause {
  std::vector<std::string> values;  // empty: every value but the default
  std::vector<Other> others;        // all of them
  std::string reason;
};

std::optional<std::vector<std::string>> words(std::string_view text) {
  std::vector<std::string> found = split(text, '|');
  for (const std::string& word : found) {
    const auto usual = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
             c == '.';
    };
    if (word.empty() || !std::all_of(word.begin(), word.end(), usual)) return std::nullopt;
  }
  return found;
}

std::vector<std::string> parts(std::string_view text, std::string_view between) {
  std::vector<std::string> found;
  for (auto end = text.find(between); end != std::string_view::npos; end = text.find(between)) {
    found.emplace_back(text.substr(0, end));
    text.remove_prefix(end + between.size());
  }
  found.emplace_back(text);
  return found;
}

// Without a condition the whole text is the reason.
Clause parse_clause(const std::string& text) {
  Clause plain;
  plain.reason = text;
  const auto colon = text.find(": ");
  if (colon == std::string::npos) return plain;
  Clause clause;
  clause.reason = text.substr(colon + 2);
  std::string_view condition = std::string_view(text).substr(0, colon);
  const auto with = condition.starts_with("with ") ? 0 : condition.find(" with ");
  if (with != std::string_view::npos) {
    for (const std::string& other : parts(trim(condition.substr(with)).substr(5), " and ")) {
      const auto equals = other.find('=');
      if (equals == std::string::npos) return plain;
      const auto values = words(other.substr(equals + 1));
      if (!values) return plain;
      clause.others.push_back({other.substr(0, equals), *values});
    }
    condition = condition.substr(0, with);
  }
  if (condition.empty()) return clause;
  const auto values = words(condition);
  if (!values) return plain;
  clause.values = *values;
  return clause;
}

// Is the value, of an option that is a number, one of "1..16383" or "3.."?
bool within(const np_option& option, const std::string& value, const std::string& word) {
  const auto dots = word.find("..");
  if (dots == std::string::npos || (option.type != NP_INT && option.type != NP_SIZE)) return false;
  const std::string last = word.substr(dots + 2);
  const Result<std::uint64_t> number = parse_size(value);  // one below 0 is none
  const Result<std::uint64_t> low = parse_size(word.substr(0, dots));
  const Result<std::uint64_t> high = last.empty() ? std::numeric_limits<std::uint64_t>::max() : parse_size(last);
  return number && low && high && *low <= *number && *number <= *high;
}

bool among(const np_option& option, const std::string& value, const std::vector<std::string>& values) {
  return std::any_of(values.begin(), values.end(),
                     [&](const std::string& one) { return one == value || within(option, value, one); });
}

// " with op=write and ranks=4", as these options are; nothing if one of them has another value, or is not there.
std::optional<std::string> beside(const std::vector<Other>& others, std::span<const np_option> options,
                                  std::span<const std::string> texts) {
  std::string said;
  for (const Other& other : others) {
    const auto found = std::find_if(options.begin(), options.end(),
                                    [&](const np_option& option) { return other.option == option.name; });
    if (found == options.end()) return std::nullopt;
    const std::string& value = texts[static_cast<std::size_t>(found - options.begin())];
    if (!among(*found, value, other.values)) return std::nullopt;
    said += (said.empty() ? " with " : " and ") + other.option + "=" + value;
  }
  return said;
}

}  // namespace

std::string why_unsupported(std::span<const np_option> options, std::span<const std::string> texts,
                            std::span<const std::string> defaults) {
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (options[i].unsupported == nullptr || *options[i].unsupported == '\0' || texts[i] == defaults[i]) continue;
    for (const std::string& text : parts(options[i].unsupported, "; ")) {
      const Clause clause = parse_clause(text);
      if (!clause.values.empty() && !among(options[i], texts[i], clause.values)) continue;
      const std::optional<std::string> others = beside(clause.others, options, texts);
      if (others) return std::string(options[i].name) + "=" + texts[i] + *others + ": " + clause.reason;
    }
  }
  return "";
}

}  // namespace netpipe
