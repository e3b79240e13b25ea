// SPDX-License-Identifier: Apache-2.0
// What follows ACCEPT: frames that only the two of the handshake can make. Whoever stands between them can neither
// alter nor invent one, nor repeat, reorder, leave out or send back what was said.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/sha256.h"

namespace netpipe {

// A key for each direction, as one of the two ends sees them.
struct FrameKeys {
  Digest sending{}, receiving{};
};

// A frame is four bytes with the length of its payload, the highest first, the payload, and its tag.
inline constexpr std::size_t sealed_header_bytes = 4;
inline constexpr std::size_t seal_bytes = 16;
inline constexpr std::size_t max_sealed_bytes = std::size_t{64} * 1024;  // of payload; more goes in several frames

// The tags of one direction, in the order of its frames: the first half of HMAC-SHA-256 over the number of the frame
// (from 0, eight bytes), the length of the payload as in its header, and the payload.
class Seal {
 public:
  explicit Seal(const Digest& key);
  std::array<std::byte, seal_bytes> next(std::span<const std::byte> payload);

 private:
  HmacSha256 keyed_;
  std::uint64_t frames_ = 0;
};

}  // namespace netpipe
