// SPDX-License-Identifier: Apache-2.0
// Measures the yardsticks of METHOD rule 17. What they say of the machine is in sampling/yardstick.h.
#pragma once

#include <cstdint>
#include <span>

#include "sampling/yardstick.h"

namespace netpipe {

// Memory shared by the two ranks of one host, made before the fork.
struct alignas(128) SharedPage {
  alignas(128) volatile std::uint64_t ping = 0;
  alignas(128) volatile std::uint64_t pong = 0;
  alignas(128) std::uint32_t turn = 0;  // a futex
  std::int64_t woken_ns = 0;            // when rank 1 ran again
};

// Makes and frees the shared page. nullptr when there is no memory.
SharedPage* make_shared_page();

// What one rank can tell alone; memory is what it copies in, of yardstick_memory_bytes, touched.
inline constexpr std::size_t yardstick_memory_bytes = 8U << 20;
Yardstick measure_alone(std::span<char> memory);
// Both ranks call this at the same time. The abort flag ends it early; then nothing is known.
void measure_together(SharedPage& page, int rank, const volatile int* abort, bool oversubscribed, Yardstick& yardstick);

}  // namespace netpipe
