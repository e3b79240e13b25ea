// SPDX-License-Identifier: Apache-2.0
#include "plan/pool_need.h"

#include <algorithm>

#include "machine/memory.h"
#include "patterns/kit/slots.h"

namespace netpipe {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t verify_bytes = 16ULL << 20;  // distinct places of one direction for a visit that is verified

std::uint64_t round_up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

}  // namespace

std::uint64_t place_stride(std::uint64_t place_bytes, std::uint64_t alignment) {
  return round_up(place_bytes + guard_bytes, std::max(alignment, line_bytes));
}

std::uint64_t token_room(std::uint64_t alignment) { return round_up(token_bytes, std::max(alignment, line_bytes)); }

std::uint64_t places_bytes(std::uint64_t places, std::uint64_t place_bytes, std::uint64_t alignment) {
  constexpr std::uint64_t beyond_all = 1ULL << 62U;  // more than any host has, and far from wrapping around
  const std::uint64_t stride = place_stride(place_bytes, alignment);
  return places > beyond_all / stride ? beyond_all : places * stride;
}

std::uint64_t margin_bytes(const PoolNeed& need) {
  return need.verify ? round_up(watched_bytes, std::max(page, need.alignment)) : 0;
}

std::uint64_t half_bytes(const PoolNeed& need) {
  const std::uint64_t stride = place_stride(need.place_bytes, need.alignment);
  std::uint64_t bytes = std::max(stride, need.at_once_bytes);
  // More than twice the cache, counted in whole places of any size up to the largest.
  if (need.spreads) bytes += std::max(bytes, 2 * last_level_cache_bytes() + page);
  // The shortest visit of any pattern has two messages in flight or at rest, and each needs a place to be looked at.
  if (need.verify) bytes = std::max({bytes, verify_bytes, 2 * stride});
  return round_up(bytes + need.offset_bytes + token_room(need.alignment), std::max(page, need.alignment)) +
         2 * margin_bytes(need);
}

std::uint64_t verified_places(const PoolNeed& need, std::uint64_t place_bytes) {
  PoolNeed warm = need;
  warm.spreads = false;  // a pool of cold places is no smaller
  warm.verify = true;
  return (half_bytes(warm) - 2 * margin_bytes(warm) - need.offset_bytes - token_room(need.alignment)) /
         place_stride(place_bytes, need.alignment);
}

}  // namespace netpipe
