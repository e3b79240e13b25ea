// SPDX-License-Identifier: Apache-2.0
#include "link/seal.h"

#include <algorithm>
#include <string_view>

#include "link/frame.h"

namespace netpipe {

Seal::Seal(const Digest& key) : keyed_(std::string_view(reinterpret_cast<const char*>(key.data()), key.size())) {}

std::array<std::byte, seal_bytes> Seal::next(std::span<const std::byte> payload) {
  HmacSha256 mac = keyed_;  // the key was mixed in once
  mac.update(big_endian(static_cast<std::uint32_t>(frames_ >> 32)) + big_endian(static_cast<std::uint32_t>(frames_)) +
             big_endian(static_cast<std::uint32_t>(payload.size())));
  ++frames_;
  const Digest whole = mac.update(payload).finish();
  std::array<std::byte, seal_bytes> tag;
  std::copy_n(whole.begin(), tag.size(), tag.begin());
  return tag;
}

}  // namespace netpipe
