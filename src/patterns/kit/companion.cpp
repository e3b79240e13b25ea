// SPDX-License-Identifier: Apache-2.0
#include "patterns/kit/companion.h"

#include <algorithm>
#include <csignal>
#include <ctime>
#include <string>
#include <system_error>

#include "base/clock.h"

namespace netpipe {
namespace {

constexpr std::int64_t cycle_ns = 1'000'000;
constexpr double piece_ns = 20'000;

}  // namespace

Companion::Companion(int load_percent, std::uint64_t memory_bytes) : work_(memory_bytes), sleeps_(load_percent < 100) {
  const double unit_ns = work_.calibrate();
  piece_ = Work::units(piece_ns, unit_ns);
  of_cycle_ = Work::units(static_cast<double>(cycle_ns) * load_percent / 100, unit_ns);
}

Result<std::unique_ptr<Companion>> Companion::start(int load_percent, std::uint64_t memory_bytes) {
  std::unique_ptr<Companion> made(new Companion(load_percent, memory_bytes));
  // The signals of this process are the watchdog's and the user's, and for the thread that communicates.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::unique_ptr<Companion>> result = failed("no thread can be started to compute");
  try {
    made->thread_ = std::thread(&Companion::live, made.get());
    result = std::move(made);
  } catch (const std::system_error& error) {
    result = failed(std::string("no thread can be started to compute: ") + error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return result;
}

Companion::~Companion() {
  if (!thread_.joinable()) return;
  command_ = to_end;
  command_.notify_one();
  thread_.join();
}

void Companion::compute() {
  command_ = to_compute;
  command_.notify_one();
  resting_.wait(true);
}

void Companion::rest() {
  command_ = to_rest;
  resting_.wait(false);
}

void Companion::live() {
  while (command_ != to_end) {
    command_.wait(to_rest);
    if (command_ != to_compute) continue;
    resting_ = false;
    resting_.notify_one();
    work_until_told();
    resting_ = true;
    resting_.notify_one();
  }
}

void Companion::work_until_told() {
  static constexpr int never = 0;
  std::int64_t next = now_ns();
  while (command_ == to_compute) {
    std::uint64_t left = of_cycle_;
    while (left > 0 && command_ == to_compute) {
      const std::uint64_t piece = std::min(left, piece_);
      work_.run(piece, &never);
      left -= piece;
      units_.fetch_add(piece, std::memory_order_relaxed);
    }
    // What a cycle did not get done is not made up for in the next.
    next = std::max(next + cycle_ns, now_ns());
    const timespec until{next / 1'000'000'000, next % 1'000'000'000};
    if (sleeps_ && command_ == to_compute) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }
}

}  // namespace netpipe
