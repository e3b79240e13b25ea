// SPDX-License-Identifier: Apache-2.0
#include "engine/yardsticks.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <new>

namespace netpipe {
namespace {

template <std::size_t N>
double middle(std::array<double, N>& values) {
  std::nth_element(values.begin(), values.begin() + N / 2, values.end());
  return values[N / 2];
}

// Waits until word has this value; false when aborted.
bool await(const volatile std::uint64_t& word, std::uint64_t value, const volatile int* abort, bool yield) {
  for (std::uint32_t spin = 0; __atomic_load_n(&word, __ATOMIC_ACQUIRE) != value; ++spin) {
    if (yield) sched_yield();
    if (spin % 4096 == 4095 && *abort != 0) return false;
  }
  return true;
}

constexpr int bounce_batches = 15;
constexpr int bounce_rounds = 100;
constexpr std::uint64_t wake_reply = 1ULL << 32;  // no count of the bounce reaches it

std::optional<double> bounce(SharedPage& a, int rank, const volatile int* abort, bool yield) {
  std::array<double, bounce_batches> one_way{};
  std::uint64_t count = 0;
  for (double& batch : one_way) {
    const std::int64_t begin = now_ns();
    for (int i = 0; i < bounce_rounds; ++i) {
      ++count;
      if (rank == 0) {
        __atomic_store_n(&a.ping, count, __ATOMIC_RELEASE);
        if (!await(a.pong, count, abort, yield)) return std::nullopt;
      } else {
        if (!await(a.ping, count, abort, yield)) return std::nullopt;
        __atomic_store_n(&a.pong, count, __ATOMIC_RELEASE);
      }
    }
    batch = static_cast<double>(now_ns() - begin) / (2 * bounce_rounds);
  }
  return middle(one_way);
}

constexpr int wake_rounds = 11;
constexpr std::int64_t asleep_ns = 60'000;  // by then the rank that waits has gone to sleep

// Rank 1 sleeps. Rank 0 leaves it the time for that, wakes it, and reads from the clock that they share when it ran.
std::optional<double> wakeup(SharedPage& a, int rank, const volatile int* abort) {
  std::array<double, wake_rounds> one_way{};
  const timespec limit{0, 50'000'000};
  for (std::uint64_t i = 0; i < wake_rounds; ++i) {
    const auto turn = static_cast<std::uint32_t>(i + 1);
    if (rank == 0) {
      const std::int64_t begin = now_ns();
      while (now_ns() < begin + asleep_ns) {
      }
      const std::int64_t woken_by = now_ns();
      __atomic_store_n(&a.turn, turn, __ATOMIC_RELEASE);
      syscall(SYS_futex, &a.turn, FUTEX_WAKE, 1, nullptr, nullptr, 0);
      if (!await(a.pong, wake_reply + i, abort, true)) return std::nullopt;
      one_way[i] = static_cast<double>(a.woken_ns - woken_by);
    } else {
      for (std::uint32_t now = 0; (now = __atomic_load_n(&a.turn, __ATOMIC_ACQUIRE)) != turn;) {
        if (*abort != 0) return std::nullopt;
        syscall(SYS_futex, &a.turn, FUTEX_WAIT, now, &limit, nullptr, 0);
      }
      a.woken_ns = now_ns();
      __atomic_store_n(&a.pong, wake_reply + i, __ATOMIC_RELEASE);
    }
  }
  return middle(one_way);
}

// Nothing but registers: three cycles of most processors, whatever memory and neighbours do.
double multiply() {
  constexpr int steps = 2'000;
  std::array<double, 9> each{};
  std::uint64_t value = 3;
  for (double& one : each) {
    const std::int64_t begin = now_ns();
    for (int i = 0; i < steps; ++i) {
      value *= value;
      asm volatile("" : "+r"(value));  // so that no step is left out, or made at another time
    }
    one = static_cast<double>(now_ns() - begin) / steps;
  }
  return middle(each);
}

}  // namespace

SharedPage* make_shared_page() {
  void* memory = mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) SharedPage;
}

Yardstick measure_alone(std::span<char> memory) {
  Yardstick y;
  y.clock = measure_clock();
  y.multiply_ns = multiply();
  const std::size_t bytes = memory.size() / 2;
  char* const source = memory.data();
  char* const target = source + bytes;
  std::array<double, 5> rate{};
  for (double& one : rate) {
    const std::int64_t begin = now_ns();
    std::memcpy(target, source, bytes);
    asm volatile("" ::"r"(target) : "memory");
    one = static_cast<double>(bytes) * 1e9 / static_cast<double>(std::max<std::int64_t>(now_ns() - begin, 1));
  }
  y.copy_bytes_per_s = middle(rate);
  return y;
}

void measure_together(SharedPage& page, int rank, const volatile int* abort, bool oversubscribed,
                      Yardstick& yardstick) {
  yardstick.bounce_ns = bounce(page, rank, abort, oversubscribed);
  if (!yardstick.bounce_ns) return;
  yardstick.wakeup_ns = wakeup(page, rank, abort);
}

}  // namespace netpipe
