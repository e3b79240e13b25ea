// SPDX-License-Identifier: Apache-2.0
// When to look for a message of the shm module. A look takes the line that it looks at; when the peer is about to write
// that line, both lose a trip of it between two cores. So a process that waits leaves a gap between two looks, and
// before the first of them it waits as long as an answer usually takes to come: that it learns.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>

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

// Waits less than a pause can: a turn is about one cycle.
inline void spin(std::uint32_t turns) {
  for (std::uint32_t i = 0; i < turns; ++i) asm volatile("");
}

class Pace {
 public:
  // gap_ns: between two looks. foresees: whether to learn when answers come.
  void calibrate(std::int64_t gap_ns, bool foresees) {
    relax_ns_ = cost_ns([] {
      for (int i = 0; i < kCalls; ++i) relax();
    });
    const double spins_per_ns = 1 / cost_ns([] { spin(kCalls); });
    gap_ = static_cast<unsigned>(std::lround(static_cast<double>(gap_ns) / relax_ns_));
    const auto lead = [&](double ns) { return static_cast<std::uint32_t>(ns * spins_per_ns * kLeadUnit); };
    earlier_ = foresees ? lead(kEarlierNs) : 0;
    later_ = foresees ? lead(kLaterNs) : 0;
    latest_ = lead(kLatestNs);
  }

  void leave_gap() const {
    for (unsigned i = 0; i < gap_; ++i) relax();
  }

  // Nothing was there at once: waits until a message of this size should come. What the last wait taught is learned
  // here, where there is time for it, and not when a message has come and its answer is waited for.
  void foresee(std::size_t bytes) {
    std::uint32_t& last = leads_[last_];
    if (last_looks_ == 1) last -= std::min(last, earlier_);
    if (last_looks_ > 1 && last_looks_ <= kNearLooks) last = std::min(last + later_, latest_);
    last_ = static_cast<std::size_t>(std::bit_width(bytes));
    spin(leads_[last_] / kLeadUnit);
  }
  // How many looks the wait took after foresee().
  void note(std::uint32_t looks) { last_looks_ = looks; }

  [[nodiscard]] unsigned gap() const { return gap_; }
  [[nodiscard]] double relax_ns() const { return relax_ns_; }

 private:
  static constexpr int kCalls = 200;
  static constexpr double kEarlierNs = 0.25, kLaterNs = 8;  // at rest, one look in 33 is too early
  static constexpr double kLatestNs = 2000;
  // A wait that took more looks teaches nothing: the message was no answer, it came when it came.
  static constexpr std::uint32_t kNearLooks = 16;
  static constexpr std::uint32_t kLeadUnit = 256;  // of a spin, for steps that are a fraction of one

  // Of one call, when `calls` makes kCalls of them. The least of several: an interruption can only lengthen it.
  template <typename Calls>
  static double cost_ns(Calls calls) {
    std::int64_t least = INT64_MAX;
    for (int i = 0; i < 8; ++i) {
      const std::int64_t begin = now_ns();
      calls();
      least = std::min(least, now_ns() - begin);
    }
    return std::max<double>(static_cast<double>(least), 1) / kCalls;
  }

  unsigned gap_ = 0;
  double relax_ns_ = 1;
  std::uint32_t earlier_ = 0, later_ = 0, latest_ = 0;
  std::array<std::uint32_t, 65> leads_{};  // by the number of bits of the size
  std::size_t last_ = 0;
  std::uint32_t last_looks_ = 0;
};

}  // namespace netpipe::shm
