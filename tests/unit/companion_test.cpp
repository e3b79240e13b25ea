// SPDX-License-Identifier: Apache-2.0
#include "patterns/kit/companion.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>

#include "base/clock.h"

namespace netpipe {
namespace {

std::unique_ptr<Companion> started(int load_percent, std::uint64_t memory_bytes = 0) {
  Result<std::unique_ptr<Companion>> made = Companion::start(load_percent, memory_bytes);
  EXPECT_TRUE(made);
  return made ? std::move(*made) : nullptr;
}

// However busy the machine is, at some time it comes to its turn.
bool works_on(const Companion& companion) {
  const std::uint64_t before = companion.units();
  for (int i = 0; i < 10'000; ++i) {
    if (companion.units() > before) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

int threads() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  }
  return -1;
}

double processor_s() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

TEST(Companion, WorksWhenItIsToldToAndNotOtherwise) {
  for (const std::uint64_t memory_bytes : {0ULL, 1ULL << 20U}) {
    const std::unique_ptr<Companion> companion = started(100, memory_bytes);
    EXPECT_EQ(companion->units(), 0U);
    for (int turn = 0; turn < 20; ++turn) {
      companion->compute();
      EXPECT_TRUE(works_on(*companion));
      companion->rest();
      const std::uint64_t then = companion->units();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      EXPECT_EQ(companion->units(), then);
    }
  }
}

TEST(Companion, TakesItsWordAtOnce) {
  const std::unique_ptr<Companion> companion = started(30);
  for (int turn = 0; turn < 200; ++turn) {
    companion->compute();
    companion->rest();
  }
  companion->compute();
  EXPECT_TRUE(works_on(*companion));
}

TEST(Companion, TakesAsMuchOfTheProcessorAsItWasToldTo) {
  const auto used = [](int load_percent) {
    const std::unique_ptr<Companion> companion = started(load_percent);
    companion->compute();
    const double begin = processor_s();
    const std::uint64_t before = companion->units();
    // So many of its milliseconds, however long they take on this machine.
    timespec pause{0, 150'000'000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
    companion->rest();
    EXPECT_GT(companion->units(), before);
    return processor_s() - begin;
  };
  // Only this is sure while others use the machine too: less work is less time.
  EXPECT_LT(used(2), 0.6 * used(100));
}

// A thread that has been joined is still listed for a moment; in a tenth of a second it is gone.
int threads_soon(int expected) {
  for (int waited = 0; threads() != expected && waited < 100; ++waited) {
    const timespec pause{0, 1'000'000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
  }
  return threads();
}

TEST(Companion, LeavesNoThreadBehind) {
  started(100);  // with the first thread of a process a sanitizer starts one of its own
  const int before = threads_soon(1);
  for (const bool working : {false, true}) {
    const std::unique_ptr<Companion> companion = started(100);
    EXPECT_EQ(threads_soon(before + 1), before + 1);
    if (working) companion->compute();
  }
  EXPECT_EQ(threads_soon(before), before);
}

// A signal that it took would end no system call of the thread that communicates.
TEST(Companion, LeavesSignalsToTheOthers) {
  static std::atomic<int> taken;
  static std::atomic<std::thread::id> by;
  taken = 0;
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = [](int) {
    by = std::this_thread::get_id();
    ++taken;
  };
  sigaction(SIGUSR1, &action, &before);
  {
    const std::unique_ptr<Companion> companion = started(100);
    companion->compute();
    sigset_t one;
    sigset_t mask;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &one, &mask);
    kill(getpid(), SIGUSR1);  // for whoever takes it
    EXPECT_TRUE(works_on(*companion));
    EXPECT_EQ(taken, 0);
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    EXPECT_EQ(taken, 1);
    EXPECT_EQ(by.load(), std::this_thread::get_id());
  }
  sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace netpipe
