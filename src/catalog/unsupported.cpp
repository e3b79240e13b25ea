// SPDX-License-Identifier: Apache-2.0
#include "catalog/unsupported.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/text.h"

namespace netpipe {
namespace {

struct Clause {
  std::vector<std::string> values;  // empty: every value but the default
  std::string with;                 // another option, or ""
  std::vector<std::string> with_values;
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
    const std::string_view other = trim(condition.substr(with)).substr(5);
    const auto equals = other.find('=');
    if (equals == std::string_view::npos) return plain;
    const auto values = words(other.substr(equals + 1));
    if (!values) return plain;
    clause.with = other.substr(0, equals);
    clause.with_values = *values;
    condition = condition.substr(0, with);
  }
  if (condition.empty()) return clause;
  const auto values = words(condition);
  if (!values) return plain;
  clause.values = *values;
  return clause;
}

std::vector<std::string> clauses(std::string_view text) {
  std::vector<std::string> found;
  for (auto end = text.find("; "); end != std::string_view::npos; end = text.find("; ")) {
    found.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 2);
  }
  found.emplace_back(text);
  return found;
}

bool among(const std::string& value, const std::vector<std::string>& values) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

std::string why_unsupported(std::span<const np_option> options, std::span<const std::string> texts,
                            std::span<const std::string> defaults) {
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (options[i].unsupported == nullptr || *options[i].unsupported == '\0' || texts[i] == defaults[i]) continue;
    for (const std::string& text : clauses(options[i].unsupported)) {
      const Clause clause = parse_clause(text);
      if (!clause.values.empty() && !among(texts[i], clause.values)) continue;
      std::string beside;
      if (!clause.with.empty()) {
        const auto other = std::find_if(options.begin(), options.end(),
                                        [&](const np_option& option) { return clause.with == option.name; });
        if (other == options.end()) continue;
        const std::string& value = texts[static_cast<std::size_t>(other - options.begin())];
        if (!among(value, clause.with_values)) continue;
        beside = " with " + clause.with + "=" + value;
      }
      return std::string(options[i].name) + "=" + texts[i] + beside + ": " + clause.reason;
    }
  }
  return "";
}

}  // namespace netpipe
