// SPDX-License-Identifier: Apache-2.0
// Measures the yardsticks (docs/method.md). sampling/yardstick.h says what they tell about the machine.
#pragma once

#include <cstdint>
#include <span>

#include "sampling/yardstick.h"

namespace netpipe {

// Memory that the ranks of one host share, made before the fork; ranks 0 and 1 use it.
struct alignas(128) SharedPage {
  alignas(128) volatile std::uint64_t ping = 0;
  alignas(128) volatile std::uint64_t pong = 0;
  alignas(128) std::uint32_t turn = 0;  // a futex
  std::int64_t woken_ns = 0;            // when rank 1 ran again
  std::uint32_t moved = 0;              // a rank was moved, perhaps to the processor of the other
};

// nullptr when there is no memory. Lives as long as the process.
SharedPage* make_shared_page();

// What one rank can measure alone. memory: yardstick_memory_bytes to copy within, already touched.
inline constexpr std::size_t yardstick_memory_bytes = 8U << 20;
Yardstick measure_alone(std::span<char> memory);
// Ranks 0 and 1 call this at the same time. The abort flag ends it early; what was not measured then stays unknown.
void measure_together(SharedPage& page, int rank, const volatile int* abort, bool oversubscribed, Yardstick& yardstick);

}  // namespace netpipe
