// SPDX-License-Identifier: Apache-2.0
#include "plan/pool_need.h"

#include <algorithm>

#include "machine/memory.h"
#include "patterns/kit/slots.h"

namespace netpipe {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t verify_bytes = 16ULL << 20;  // distinct places of one direction for a visit that is verified
// Mapped and written for each visit, in each direction: more would take longer than the visit.
constexpr std::uint64_t fresh_bytes = 64ULL << 20;
constexpr std::uint64_t beyond_all = 1ULL << 62U;  // more than any host has, and far from wrapping around

std::uint64_t product(std::uint64_t places, std::uint64_t stride) {
  return places > beyond_all / stride ? beyond_all : places * stride;
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

}  // namespace

std::uint64_t place_stride(std::uint64_t place_bytes, std::uint64_t alignment) {
  return round_up(place_bytes + guard_bytes, std::max(alignment, line_bytes));
}

std::uint64_t token_room(std::uint64_t alignment) { return round_up(token_bytes, std::max(alignment, line_bytes)); }

std::uint64_t places_bytes(std::uint64_t places, std::uint64_t place_bytes, std::uint64_t alignment) {
  const std::uint64_t stride = place_stride(place_bytes, alignment);
  return product(places, stride);
}

std::uint64_t margin_bytes(const PoolNeed& need) {
  return need.verify ? round_up(watched_bytes, std::max(page, need.alignment)) : 0;
}

std::uint64_t half_bytes(const PoolNeed& need, Pages pages) {
  const std::uint64_t stride = place_stride(need.place_bytes, need.alignment);
  std::uint64_t bytes = std::max(stride, need.at_once_bytes);
  // More than twice the cache, counted in whole places of any size up to the largest.
  if (need.spreads) bytes += std::max(bytes, 2 * last_level_cache_bytes() + page);
  // The shortest visit of any pattern has two messages in flight or at rest, and each needs a place to be looked at.
  if (need.verify) bytes = std::max({bytes, verify_bytes, 2 * stride});
  const std::uint64_t half =
      round_up(bytes + need.offset_bytes + token_room(need.alignment), std::max(page, need.alignment)) +
      2 * margin_bytes(need);
  return pages == Pages::huge ? round_up(half, huge_page_bytes) : half;
}

std::uint64_t fresh_stride(const BufferPolicy& policy, std::uint64_t place_bytes, std::uint64_t alignment) {
  const std::uint64_t unit = std::max(page, alignment);
  const std::uint64_t offset = std::max(policy.send_offset_bytes % unit, policy.recv_offset_bytes % unit);
  return round_up(offset + place_bytes + guard_bytes, unit);
}

// One more than there are messages: a pattern may take the place of the next one before its last is done.
std::uint64_t fresh_places(const BufferPolicy& policy, std::uint64_t messages) {
  return (messages * static_cast<std::uint64_t>(policy.fresh_percent()) + 99) / 100 + 1;
}

std::uint64_t fresh_messages(const BufferPolicy& policy, std::uint64_t place_bytes, std::uint64_t alignment,
                             std::uint64_t shortest) {
  const std::uint64_t places = fresh_bytes / fresh_stride(policy, place_bytes, alignment);
  const std::uint64_t fit = places < 2 ? 0 : (places - 1) * 100 / static_cast<std::uint64_t>(policy.fresh_percent());
  return std::max(fit, shortest);
}

std::uint64_t fresh_room(const BufferPolicy& policy, std::uint64_t place_bytes, std::uint64_t alignment,
                         std::uint64_t shortest) {
  const std::uint64_t messages = fresh_messages(policy, place_bytes, alignment, shortest);
  return product(fresh_places(policy, messages), fresh_stride(policy, place_bytes, alignment));
}

std::uint64_t verified_places(const PoolNeed& need, std::uint64_t place_bytes) {
  PoolNeed warm = need;
  warm.spreads = false;  // a pool of cold places is no smaller
  warm.verify = true;
  return (half_bytes(warm) - 2 * margin_bytes(warm) - need.offset_bytes - token_room(need.alignment)) /
         place_stride(place_bytes, need.alignment);
}

}  // namespace netpipe
