// SPDX-License-Identifier: Apache-2.0
// When to look for a message of the shm module. A look takes the line that it looks at; when the peer is about to write
// that line, both lose a trip of it between two cores. So a process that waits leaves a gap between two looks.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "shm_cells.h"

namespace netpipe::shm {

inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

class Pace {
 public:
  // gap_ns: between two looks for what lies in one line. A pause lasts from 4 to 60 ns, depending on the processor: it
  // is measured, and the least of several counts, because an interruption can only lengthen it.
  void calibrate(std::int64_t gap_ns) {
    constexpr int kPauses = 200;
    std::int64_t least = INT64_MAX;
    for (int i = 0; i < 8; ++i) {
      const std::int64_t begin = now_ns();
      for (int k = 0; k < kPauses; ++k) relax();
      least = std::min(least, now_ns() - begin);
    }
    pause_ns_ = std::max<double>(static_cast<double>(least), 1) / kPauses;
    short_gap_ = static_cast<unsigned>(std::lround(static_cast<double>(gap_ns) / pause_ns_));
    long_gap_ = kLongerGap * short_gap_;
  }

  // A peer that has to fetch further lines before it can answer needs a trip more: looks for such a message are rarer.
  [[nodiscard]] unsigned gap(std::size_t bytes) const {
    return bytes <= kInlineBytes || bytes > kRareUpToBytes ? short_gap_ : long_gap_;
  }
  static void leave(unsigned gap) {
    for (unsigned i = 0; i < gap; ++i) relax();
  }

  [[nodiscard]] double pause_ns() const { return pause_ns_; }

 private:
  static constexpr unsigned kLongerGap = 4;
  static constexpr std::size_t kRareUpToBytes = 2048;

  unsigned short_gap_ = 0, long_gap_ = 0;
  double pause_ns_ = 1;
};

}  // namespace netpipe::shm
