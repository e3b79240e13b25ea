// SPDX-License-Identifier: Apache-2.0
#include "patterns/kit/verify.h"

#include <algorithm>
#include <cstring>

namespace netpipe {
namespace {

// SplitMix64 (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014): one word for each 8 bytes.
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}
constexpr std::uint64_t step = 0x9e3779b97f4a7c15ULL;

template <typename Word>
void each_word(std::size_t bytes, std::uint64_t seed, const Word& word) {
  for (std::size_t at = 0; at < bytes; at += 8) {
    seed += step;
    word(at, std::min<std::size_t>(8, bytes - at), mix(seed));
  }
}

}  // namespace

std::uint64_t message_seed(std::uint64_t run, std::uint64_t visit, int sender, std::uint64_t message) {
  return mix(mix(mix(run + step) + visit) + static_cast<std::uint64_t>(sender) * step + message);
}

void fill(void* data, std::size_t bytes, std::uint64_t seed) {
  each_word(bytes, seed,
            [&](std::size_t at, std::size_t n, std::uint64_t w) { std::memcpy(static_cast<char*>(data) + at, &w, n); });
}

void spoil(void* data, std::size_t bytes, std::uint64_t seed) {
  each_word(bytes, seed, [&](std::size_t at, std::size_t n, std::uint64_t w) {
    const std::uint64_t wrong = ~w;
    std::memcpy(static_cast<char*>(data) + at, &wrong, n);
  });
}

std::optional<std::size_t> first_difference(const void* data, std::size_t bytes, std::uint64_t seed) {
  std::optional<std::size_t> wrong;
  each_word(bytes, seed, [&](std::size_t at, std::size_t n, std::uint64_t w) {
    if (wrong || std::memcmp(static_cast<const char*>(data) + at, &w, n) == 0) return;
    for (std::size_t i = 0; i < n; ++i) {
      if (static_cast<const char*>(data)[at + i] != reinterpret_cast<const char*>(&w)[i]) {
        wrong = at + i;
        return;
      }
    }
  });
  return wrong;
}

}  // namespace netpipe
