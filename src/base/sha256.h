// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104): what names a plan and proves a token. Ours, because the worker
// stands on no library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace netpipe {

using Digest = std::array<std::byte, 32>;

class Sha256 {
 public:
  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text) { return update(std::as_bytes(std::span(text))); }
  // The digest of all that was given. The object is used up by it.
  Digest finish();

 private:
  void compress(const std::byte* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> block_{};  // what does not fill a block yet
  std::uint64_t bytes_ = 0;            // given so far
};

class HmacSha256 {
 public:
  explicit HmacSha256(std::string_view key);
  HmacSha256& update(std::span<const std::byte> bytes);
  HmacSha256& update(std::string_view text) { return update(std::as_bytes(std::span(text))); }
  Digest finish();  // once

 private:
  Sha256 inner_, outer_;
};

Digest sha256(std::string_view text);

// Takes the same time wherever the two differ, so that a tag cannot be found byte by byte with a stopwatch.
[[nodiscard]] bool same(std::span<const std::byte> a, std::span<const std::byte> b);

// Lower-case hexadecimal, two digits a byte.
std::string hex(std::span<const std::byte> bytes);

}  // namespace netpipe
