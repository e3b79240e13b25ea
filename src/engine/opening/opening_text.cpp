// SPDX-License-Identifier: Apache-2.0
#include "engine/opening/opening_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "plan/pool_need.h"
#include "record/foreign_json.h"

namespace netpipe {
namespace {

// The numbers of np_limits that rank 0 of the group uses, and whether the machine is a simulated one.
constexpr std::size_t number_count = 10;

}  // namespace

// Four lines: limits, version, layer below, settings.
std::string facts_text(const RankFacts& facts) {
  const np_limits& limits = facts.limits;
  return std::to_string(limits.max_message_bytes) + " " + std::to_string(limits.delivers) + " " +
         std::to_string(limits.idle) + " " + std::to_string(limits.lossy) + " " + std::to_string(limits.alignment) +
         " " + std::to_string(limits.empty) + " " + std::to_string(limits.any_memory) + " " +
         std::to_string(limits.unordered) + " " + std::to_string(limits.max_inline_bytes) +
         (facts.simulated ? " 1\n" : " 0\n") + without_controls(facts.version) + "\n" + facts.below + "\n" +
         facts.settings;
}

std::optional<RankFacts> parse_facts(std::string_view text) {
  const auto first = text.find('\n');
  const auto second = first == std::string_view::npos ? first : text.find('\n', first + 1);
  const auto third = second == std::string_view::npos ? second : text.find('\n', second + 1);
  if (third == std::string_view::npos) return std::nullopt;
  const std::vector<std::string> words = split(text.substr(0, first), ' ');
  if (words.size() != number_count) return std::nullopt;
  std::array<std::uint64_t, number_count> numbers{};
  for (std::size_t i = 0; i < number_count; ++i) {
    const char* const end = words[i].data() + words[i].size();
    const auto parsed = std::from_chars(words[i].data(), end, numbers[i]);
    if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  }
  RankFacts facts;
  facts.limits.max_message_bytes = numbers[0];
  facts.limits.delivers = static_cast<std::uint32_t>(numbers[1]);
  facts.limits.idle = static_cast<std::uint32_t>(numbers[2]);
  facts.limits.lossy = static_cast<std::uint32_t>(numbers[3]);
  facts.limits.alignment = numbers[4];
  facts.limits.empty = static_cast<std::uint32_t>(numbers[5]);
  facts.limits.any_memory = static_cast<std::uint32_t>(numbers[6]);
  facts.limits.unordered = static_cast<std::uint32_t>(numbers[7]);
  facts.limits.max_inline_bytes = numbers[8];
  facts.simulated = numbers[9] != 0;
  if (!possible_alignment(facts.limits.alignment)) return std::nullopt;
  facts.version = trim(without_controls(text.substr(first + 1, second - first - 1)));
  facts.below = without_controls(text.substr(second + 1, third - second - 1));
  std::optional<std::string> settings = rewritten_object(text.substr(third + 1));
  if (!settings) return std::nullopt;
  facts.settings = std::move(*settings);
  return facts;
}

std::string keys_text(const std::vector<np_region>& regions) {
  std::string text;
  for (const np_region& region : regions) {
    const std::uint64_t base = reinterpret_cast<std::uintptr_t>(region.base);
    const std::uint32_t key_bytes = std::min<std::uint32_t>(region.key_bytes, NP_KEY_BYTES);
    text.append(reinterpret_cast<const char*>(&base), sizeof base);
    text.append(reinterpret_cast<const char*>(&region.bytes), sizeof region.bytes);
    text.append(reinterpret_cast<const char*>(&key_bytes), sizeof key_bytes);
    text.append(reinterpret_cast<const char*>(region.key), key_bytes);
  }
  return text;
}

std::vector<np_region> parse_keys(std::string_view text) {
  std::vector<np_region> regions;
  const auto take = [&text](void* to, std::size_t bytes) {
    if (text.size() < bytes) return false;
    std::memcpy(to, text.data(), bytes);
    text.remove_prefix(bytes);
    return true;
  };
  while (!text.empty()) {
    np_region region{};
    std::uint64_t base = 0;
    const bool whole = take(&base, sizeof base) && take(&region.bytes, sizeof region.bytes) &&
                       take(&region.key_bytes, sizeof region.key_bytes) && region.key_bytes <= NP_KEY_BYTES &&
                       take(region.key, region.key_bytes);
    if (!whole) return {};
    region.base = reinterpret_cast<void*>(base);  // NOLINT(performance-no-int-to-ptr): an address of the peer's
    regions.push_back(region);
  }
  return regions;
}

}  // namespace netpipe
