// SPDX-License-Identifier: Apache-2.0
// Blocks that lie evenly apart, for layers that reach them with load and store.
#pragma once

#include <cstdint>
#include <cstring>

#include "netpipe/module.h"

namespace netpipe::kit {

// From the first byte of the first block to the last byte of the last, at this stride. UINT64_MAX: more than that.
inline std::uint64_t extent(const np_strided& shape, std::uint64_t stride) {
  std::uint64_t steps = 0, bytes = 0;
  const bool over = __builtin_mul_overflow(shape.blocks - 1, stride, &steps) ||
                    __builtin_add_overflow(steps, shape.block_bytes, &bytes);
  return over ? UINT64_MAX : bytes;
}

// Copies all blocks of a shape, with a stride for each side. Blocks of a word or two are loads and stores of that size,
// without a call of memcpy for each, as in a loop over them by hand.
inline void copy_blocks(void* to, std::uint64_t to_stride, const void* from, std::uint64_t from_stride,
                        const np_strided& shape) {
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
  const auto each = [&](auto copy) {
    for (std::uint64_t i = 0; i < shape.blocks; ++i) copy(out + i * to_stride, in + i * from_stride);
  };
  switch (shape.block_bytes) {
    case 4: return each([](unsigned char* a, const unsigned char* b) { std::memcpy(a, b, 4); });
    case 8: return each([](unsigned char* a, const unsigned char* b) { std::memcpy(a, b, 8); });
    case 16: return each([](unsigned char* a, const unsigned char* b) { std::memcpy(a, b, 16); });
    default: return each([&](unsigned char* a, const unsigned char* b) { std::memcpy(a, b, shape.block_bytes); });
  }
}

}  // namespace netpipe::kit
