// SPDX-License-Identifier: Apache-2.0
// Modules and patterns with chosen settings, as the user writes them: a variant is one module with settings,
// "tcp:sndbuf=512k,wait=poll", and a chosen pattern is one pattern with settings, "window:in_flight=64".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "catalog/registry.h"
#include "patterns/kit/pattern.h"
#include "patterns/kit/slots.h"

namespace netpipe {

inline constexpr std::int64_t most_offset_bytes = 1LL << 30;  // a message and its pool can be added without overflow
inline constexpr std::int32_t most_ranks = 1 << 20;
inline constexpr int default_ranks = 2;

// A value for every option of a module or a pattern.
struct ChosenSettings {
  ChosenSettings() = default;
  ChosenSettings(ChosenSettings&&) = default;
  ChosenSettings& operator=(ChosenSettings&&) = default;
  ChosenSettings(const ChosenSettings&) = delete;  // values point into texts
  ChosenSettings& operator=(const ChosenSettings&) = delete;
  ~ChosenSettings() = default;

  std::string name;                // canonical: the options that differ from their defaults, in the table's order
  std::vector<np_option> options;  // those of the module or pattern itself, then those that all of them have
  std::vector<std::string> texts;  // the value of each option as text
  std::vector<np_value> values;    // the same for the module or pattern; text points into texts
  std::vector<bool> changed;       // of each option, whether its value differs from the default
  std::string copy;                // "#2" of tcp#2, which is tcp once more, to be measured beside itself; ""

  // The name with the value of every option in it, defaults included.
  [[nodiscard]] std::string full_name() const;
};

struct Variant : ChosenSettings {
  const Layer* module = nullptr;
  int ranks = default_ranks;  // processes that take part: within what the module can
  PageChoice pages;           // of the memory of its messages
  std::string lack;           // why its module cannot be used on this host; "": it can, or that is not known

  // What it is a copy of: tcp of tcp#2.
  [[nodiscard]] std::string original() const { return name.substr(0, name.size() - copy.size()); }
};

struct ChosenPattern : ChosenSettings {
  const Pattern* pattern = nullptr;
  BufferPolicy buffers;
  // The part of one rank in a visit of this size.
  [[nodiscard]] Part part(int rank, int nranks, std::uint64_t size_bytes) const {
    return {rank, nranks, size_bytes, values.data()};
  }
  // Does it need the memory of a peer?
  [[nodiscard]] bool reaches() const { return pattern->reach(part(0, 1, 0)) != NP_REACH_NONE; }
};

// The name of a module in the text of a variant, and of the pattern in that of a pattern.
std::string name_in(std::string_view text);

// ranks: of a variant that does not choose any itself. A module that cannot have so many is refused, except one that
// stays in one process.
Result<Variant> parse_variant(std::string_view text, const Registry& registry, int ranks = default_ranks);
// buffers: of a pattern that does not choose its own.
Result<ChosenPattern> parse_pattern(std::string_view text, const BufferPolicy& buffers = {});

// The options of every variant, and of every pattern, beside its own. The plan has their defaults.
std::span<const np_option> common_variant_options();
std::span<const np_option> common_options();

// The number of ranks nearest to the wanted one that this module can have. Of a variant it is Variant::ranks.
int possible_ranks(const Layer& module, int ranks);

}  // namespace netpipe
