// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace netpipe {
namespace {

// FIPS 180-4, 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> round_constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian(const std::byte* at) {
  return std::to_integer<std::uint32_t>(at[0]) << 24 | std::to_integer<std::uint32_t>(at[1]) << 16 |
         std::to_integer<std::uint32_t>(at[2]) << 8 | std::to_integer<std::uint32_t>(at[3]);
}

void put_big_endian(std::uint32_t word, std::byte* at) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<std::byte>(word >> (24 - 8 * i));
}

}  // namespace

// FIPS 180-4, 6.2.2, with its names of the variables.
void Sha256::compress(const std::byte* block) {
  std::uint32_t w[64];
  for (std::size_t t = 0; t < 16; ++t) w[t] = big_endian(block + 4 * t);
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + round_constants[t] + w[t];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<std::uint32_t, 8> change = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state_[i] += change[i];
}

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t filled = bytes_ % block_.size();
    const std::size_t some = std::min(block_.size() - filled, bytes.size());
    if (some == block_.size()) {
      compress(bytes.data());
    } else {
      std::memcpy(block_.data() + filled, bytes.data(), some);
      if (filled + some == block_.size()) compress(block_.data());
    }
    bytes_ += some;
    bytes = bytes.subspan(some);
  }
  return *this;
}

Digest Sha256::finish() {
  // FIPS 180-4, 5.1.1: a one bit, zeros, and the length in bits as 64 bits, up to the end of a block.
  const std::uint64_t bits = bytes_ * 8;
  const std::size_t filled = bytes_ % block_.size();
  std::array<std::byte, 72> padding{};
  padding[0] = std::byte{0x80};
  const std::size_t zeros_end = (filled < 56 ? 56 : 120) - filled;
  put_big_endian(static_cast<std::uint32_t>(bits >> 32), padding.data() + zeros_end);
  put_big_endian(static_cast<std::uint32_t>(bits), padding.data() + zeros_end + 4);
  update(std::span(padding).first(zeros_end + 8));
  Digest digest;
  for (std::size_t i = 0; i < 8; ++i) put_big_endian(state_[i], digest.data() + 4 * i);
  return digest;
}

HmacSha256::HmacSha256(std::string_view key) {
  std::array<std::byte, 64> block{};
  if (key.size() > block.size()) {
    const Digest shorter = sha256(key);
    std::copy(shorter.begin(), shorter.end(), block.begin());
  } else {
    std::copy_n(std::as_bytes(std::span(key)).begin(), key.size(), block.begin());
  }
  std::array<std::byte, 64> pad;
  std::transform(block.begin(), block.end(), pad.begin(), [](std::byte one) { return one ^ std::byte{0x36}; });
  inner_.update(pad);
  std::transform(block.begin(), block.end(), pad.begin(), [](std::byte one) { return one ^ std::byte{0x5c}; });
  outer_.update(pad);
}

HmacSha256& HmacSha256::update(std::span<const std::byte> bytes) {
  inner_.update(bytes);
  return *this;
}

Digest HmacSha256::finish() {
  const Digest inner = inner_.finish();
  return outer_.update(inner).finish();
}

Digest sha256(std::string_view text) { return Sha256().update(text).finish(); }

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) return false;
  // volatile: the compiler may not leave the loop early.
  volatile std::uint8_t difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference = difference | std::to_integer<std::uint8_t>(a[i] ^ b[i]);
  return difference == 0;
}

std::string hex(std::span<const std::byte> bytes) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte one : bytes) {
    text += digits[std::to_integer<std::size_t>(one >> 4)];
    text += digits[std::to_integer<std::size_t>(one & std::byte{15})];
  }
  return text;
}

}  // namespace netpipe
