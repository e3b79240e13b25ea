// SPDX-License-Identifier: Apache-2.0
#include "patterns/kit/work.h"

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "machine/memory.h"

namespace netpipe {
namespace {

constexpr std::uint64_t steps = 16;  // of a unit: each waits for the one before, some 20 ns together
constexpr std::uint64_t line_words = 64 / sizeof(std::uint64_t);
constexpr std::uint64_t unit_words = 16 * line_words;
constexpr std::uint64_t units_between_looks = 1024;

constexpr int batches = 9;
constexpr std::int64_t batch_ns = 20'000;

}  // namespace

Work::Work(std::uint64_t memory_bytes)
    : memory_((memory_bytes / sizeof(std::uint64_t) + unit_words - 1) / unit_words * unit_words) {}

std::uint64_t Work::beyond_caches() { return 2 * last_level_cache_bytes(); }

std::uint64_t Work::units(double ns, double unit_ns) {
  return static_cast<std::uint64_t>(std::max(1.0, ns / std::max(unit_ns, 0.1)));
}

bool Work::run(std::uint64_t units, const volatile int* abort) noexcept {
  std::uint64_t state = state_;
  while (units > 0) {
    if (*abort != 0) return false;
    const std::uint64_t now = std::min(units, units_between_looks);
    units -= now;
    if (memory_.empty()) {
      for (std::uint64_t i = 0; i < now * steps; ++i) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        asm volatile("" : "+r"(state));  // or the compiler would join the steps
      }
      continue;
    }
    for (std::uint64_t i = 0; i < now; ++i) {
      std::uint64_t* const from = memory_.data() + next_;
      for (std::uint64_t word = 0; word < unit_words; word += line_words) from[word] = state += from[word];
      next_ += unit_words;
      if (next_ == memory_.size()) next_ = 0;
    }
    asm volatile("" : "+r"(state) : : "memory");
  }
  state_ = state;
  return true;
}

double Work::calibrate() {
  static constexpr int never = 0;
  std::uint64_t units = 16;
  const auto time_of = [&] {
    const std::int64_t begin = now_ns();
    run(units, &never);
    return now_ns() - begin;
  };
  while (time_of() < batch_ns) units *= 2;
  std::array<double, batches> unit_ns{};
  for (double& one : unit_ns) one = static_cast<double>(time_of()) / static_cast<double>(units);
  std::nth_element(unit_ns.begin(), unit_ns.begin() + batches / 2, unit_ns.end());
  return unit_ns[batches / 2];
}

}  // namespace netpipe
