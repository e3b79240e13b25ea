// SPDX-License-Identifier: Apache-2.0
// Several threads of one rank that work at once: the thread that runs the pattern, which is number 0, and others that
// live as long as one visit.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "netpipe/module.h"

namespace netpipe {

// Where threads wait for each other. Each looks at its processor again and again, and gives it away after a while.
class Meeting {
 public:
  Meeting(int threads, const volatile int* abort) : threads_(threads), abort_(abort) {}
  // Comes back when all are there. false: one of them has left, or *abort was raised.
  bool wait() noexcept;
  // This thread will not come again, so nobody may wait for it.
  void leave() noexcept { left_.store(true, std::memory_order_release); }

 private:
  [[nodiscard]] bool broken() const noexcept { return left_.load(std::memory_order_acquire) || *abort_ != 0; }

  const int threads_;
  const volatile int* const abort_;
  std::atomic<int> arrived_{0};
  std::atomic<std::uint64_t> turn_{0};
  std::atomic<bool> left_{false};
};

// Where the threads beside number 0 may run.
enum class Room : std::uint8_t {
  any,   // on every processor that whoever started this rank may use
  rank,  // where the rank itself runs: of a pinned one on one processor
};

// What a thread does. It calls meeting.leave() if it ends before the others, and each has its own number from 0.
using ThreadWork = std::function<np_status(int thread)>;
namespace team {

// ns that the calling thread has waited for a processor; negative: the kernel does not say.
inline std::int64_t waited_ns() {
  std::FILE* const file = std::fopen("/proc/thread-self/schedstat", "re");
  unsigned long long ran = 0;
  unsigned long long waited = 0;
  if (file == nullptr) return -1;
  // The kernel writes numbers that fit. NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion)
  const bool both = std::fscanf(file, "%llu %llu", &ran, &waited) == 2;
  (void)std::fclose(file);
  return both ? static_cast<std::int64_t>(waited) : -1;
}

// The rank itself may be pinned by now, but not who started it. Where that cannot be asked, or is another's affair, the
// thread stays where it is.
inline void leave_processor_of_rank() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(getppid(), sizeof set, &set) == 0) sched_setaffinity(0, sizeof set, &set);
}

inline np_status watched(const ThreadWork& work, int thread, double& share) {
  const std::int64_t before = waited_ns();
  const std::int64_t begin = now_ns();
  const np_status status = work(thread);
  const auto all = static_cast<double>(now_ns() - begin);
  const std::int64_t after = waited_ns();
  const bool known = before >= 0 && after >= 0 && all > 0;
  share = known ? static_cast<double>(after - before) / all : std::numeric_limits<double>::quiet_NaN();
  return status;
}

// Starts the threads beside number 0, which wait for the word to begin. false: not all of them could be started.
inline bool start(std::vector<std::thread>& threads, const ThreadWork& whole, std::size_t wanted) {
  // The signals of this process are the watchdog's and the user's, and for the thread that runs the pattern.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool good = true;
  try {
    for (std::size_t i = 1; i < wanted; ++i) threads.emplace_back([&whole, i] { (void)whole(static_cast<int>(i)); });
  } catch (const std::system_error&) {
    good = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return good;
}

}  // namespace team

inline bool Meeting::wait() noexcept {
  constexpr int looks_before_yielding = 2000;
  const std::uint64_t turn = turn_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_.store(0, std::memory_order_relaxed);
    turn_.store(turn + 1, std::memory_order_release);
    return !broken();
  }
  for (int looks = 0; turn_.load(std::memory_order_acquire) == turn; ++looks) {
    if (broken()) return false;
    if (looks > looks_before_yielding) sched_yield();
  }
  return true;
}

// Lets all threads work and comes back when the last is done, with the first status that is not NP_OK.
// waited: by thread, the share of its time in which it could have run and had no processor (schedstat of proc(5)); NaN
// where the kernel does not say. message: room for a sentence, where a thread cannot be started.
inline np_status work_in_threads(std::span<double> waited, Room room, std::span<char> message, const ThreadWork& work) {
  enum Word : int { wait, begin, go_home };
  std::atomic<int> word{wait};
  std::vector<np_status> came_to(waited.size(), NP_OK);
  const ThreadWork whole = [&](int thread) {
    if (room == Room::any) team::leave_processor_of_rank();
    word.wait(wait);
    const auto i = static_cast<std::size_t>(thread);
    if (word == begin) came_to[i] = team::watched(work, thread, waited[i]);
    return came_to[i];
  };
  std::vector<std::thread> threads;
  threads.reserve(waited.size());
  const bool all_there = team::start(threads, whole, waited.size());
  word = all_there ? begin : go_home;
  word.notify_all();
  if (all_there) came_to[0] = team::watched(work, 0, waited[0]);
  for (std::thread& thread : threads) thread.join();
  if (!all_there) {
    std::snprintf(message.data(), message.size(),
                  "only %zu of %zu threads could be started: raise ulimit -u, or take fewer", threads.size() + 1,
                  waited.size());
    return NP_FAILED;
  }
  np_status first = NP_OK;
  for (const np_status status : came_to) {
    // Who gave up because another one failed says less than that one.
    if (first == NP_OK || (first == NP_ABORTED && status != NP_OK)) first = status;
  }
  return first;
}

// What a pattern notes of those shares: their mean; negative where the kernel does not say.
inline std::int64_t mean_in_millionths(std::span<const double> shares) {
  double sum = 0;
  for (const double share : shares) sum += share;
  return std::isnan(sum) ? -1 : std::llround(sum / static_cast<double>(shares.size()) * 1e6);
}
inline double of_millionths(std::int64_t noted) {
  return noted < 0 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(noted) / 1e6;
}

}  // namespace netpipe
