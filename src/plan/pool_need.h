// SPDX-License-Identifier: Apache-2.0
// How much memory the messages of a plan take, before any of it is there.
#pragma once

#include <cstdint>

#include "patterns/kit/slots.h"

namespace netpipe {

inline constexpr std::uint64_t line_bytes = 64;  // every place begins at a multiple of it, so that none shares a line

// Can places begin at multiples of this? A power of two up to the size of a huge page; 0 is 1.
constexpr bool possible_alignment(std::uint64_t bytes) { return (bytes & (bytes - 1)) == 0 && bytes <= 2U << 20U; }

// What a pool must have room for.
struct PoolNeed {
  std::uint64_t alignment = line_bytes;  // of each place without its offset: a power of two
  std::uint64_t place_bytes = 0;         // the largest place
  std::uint64_t at_once_bytes = 0;       // places that are needed at once, in one direction: places_bytes()
  std::uint64_t offset_bytes = 0;        // the largest offset
  bool spreads = false;
  bool verify = false;
  std::uint64_t fresh_bytes = 0;  // pages that are mapped for the messages of one visit, in one direction
};

// Bytes of so many places.
std::uint64_t places_bytes(std::uint64_t places, std::uint64_t place_bytes, std::uint64_t alignment = line_bytes);

// From the beginning of a place to that of the next.
std::uint64_t place_stride(std::uint64_t place_bytes, std::uint64_t alignment = line_bytes);

// Of the line at the end of each half that no message uses (slots.h: token_bytes).
std::uint64_t token_room(std::uint64_t alignment);

// Before the first place of each half and behind the last, where messages are verified: what is written there is seen.
std::uint64_t margin_bytes(const PoolNeed& need);

// Of x86-64, and of ARM with pages of 4 KiB: memory on huge pages begins at a multiple of it and has a multiple of it.
inline constexpr std::uint64_t huge_page_bytes = 2U << 20U;

// Bytes of each half of a pool: of the outgoing messages, and of the incoming ones.
std::uint64_t half_bytes(const PoolNeed& need, Pages pages = Pages::automatic);

// Messages whose buffers are fresh. Bytes of the pages of one of them; how many of so many messages need pages; and how
// many messages a visit may have, where the shortest visit has so many. The numbers depend on the plan alone.
std::uint64_t fresh_stride(const BufferPolicy& policy, std::uint64_t place_bytes, std::uint64_t alignment);
std::uint64_t fresh_places(const BufferPolicy& policy, std::uint64_t messages);
std::uint64_t fresh_messages(const BufferPolicy& policy, std::uint64_t place_bytes, std::uint64_t alignment,
                             std::uint64_t shortest);
// Bytes of all these pages in one direction.
std::uint64_t fresh_room(const BufferPolicy& policy, std::uint64_t place_bytes, std::uint64_t alignment,
                         std::uint64_t shortest);

// How many messages of one visit can be verified: each needs a place of its own. It depends on the plan alone,
// because both sides have to come to the same number and their caches may differ.
std::uint64_t verified_places(const PoolNeed& need, std::uint64_t place_bytes);

}  // namespace netpipe
