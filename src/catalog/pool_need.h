// SPDX-License-Identifier: Apache-2.0
// How much memory the messages of a plan take, before any of it is there.
#pragma once

#include <cstdint>

namespace netpipe {

// What a pool must have room for.
struct PoolNeed {
  std::uint64_t place_bytes = 0;    // the largest place
  std::uint64_t at_once_bytes = 0;  // places that are needed at once, in one direction: places_bytes()
  std::uint64_t offset_bytes = 0;   // the largest offset
  bool spreads = false;
  bool verify = false;
};

// Bytes of so many places.
std::uint64_t places_bytes(std::uint64_t places, std::uint64_t place_bytes);

// A place keeps its offset from a line boundary, and places never share a line.
std::uint64_t place_stride(std::uint64_t place_bytes);

// Bytes of each half of a pool: of the outgoing messages, and of the incoming ones.
std::uint64_t half_bytes(const PoolNeed& need);

// How many messages of one visit can be verified: each needs a place of its own. It depends on the plan alone,
// because both sides have to come to the same number and their caches may differ.
std::uint64_t verified_places(const PoolNeed& need, std::uint64_t place_bytes);

}  // namespace netpipe
