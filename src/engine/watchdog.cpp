// SPDX-License-Identifier: Apache-2.0
#include "engine/watchdog.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "base/clock.h"

namespace netpipe {
namespace {

// What the handler reads. Written only while armed is false, so that the handler never sees half of a change.
struct State {
  volatile int abort = 0;
  volatile sig_atomic_t interrupted = 0;
  std::atomic<bool> armed{false};
  std::int64_t deadline = 0;
  std::int64_t raised_at = 0;
  std::int64_t ticked_at = 0;
  std::int64_t in_kernel_ns = 0;  // that this thread had worked there when it ticked
  std::int64_t stalled_ns = 0;
  Cause cause = Cause::none;
  const Group* watch = nullptr;
  volatile bool heeds_interrupts = true;
  std::string last_words;
  int last_fd = -1;
  timer_t timer{};
  bool ticking = false;
  timer_t last_resort{};
};
State state;

constexpr long tick_ns = 100'000'000;
constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t deaf_ns = Watchdog::grace_ns + second_ns;  // after the deadline the handler has had its turn

void on_tick(int);

// It ticks only while something is watched: a rank that waits for its turn must not wake up beside one that measures.
bool tick(bool on) {
  if (state.ticking == on) return true;
  const long ns = on ? tick_ns : 0;
  const itimerspec every{{0, ns}, {0, ns}};
  if (timer_settime(state.timer, 0, &every, nullptr) != 0) return false;
  state.ticking = on;
  return true;
}

// The kernel itself ends a process whose module has blocked or ignored the signal of the ticks. 0: it does not.
void end_by_force(std::int64_t after_ns) {
  const itimerspec once{{0, 0}, {after_ns / second_ns, after_ns % second_ns}};
  timer_settime(state.last_resort, 0, &once, nullptr);
}

bool make_timer(sigevent event, timer_t& timer) { return timer_create(CLOCK_MONOTONIC, &event, &timer) == 0; }

// While nothing is wrong, interrupted system calls resume by themselves; once the flag is up they have to return.
void install_tick(bool restart) {
  struct sigaction action{};
  action.sa_handler = on_tick;
  action.sa_flags = restart ? SA_RESTART : 0;
  sigemptyset(&action.sa_mask);
  sigaction(SIGALRM, &action, nullptr);
}

void raise_flag(Cause cause) {
  if (state.abort != 0) return;
  state.cause = cause;
  state.raised_at = now_ns();
  state.abort = 1;
  install_tick(false);
}

std::int64_t in_kernel_ns() {
  rusage use{};
  getrusage(RUSAGE_THREAD, &use);
  return use.ru_stime.tv_sec * second_ns + use.ru_stime.tv_usec * 1000;
}

// A process that was stopped takes the tick that it missed before anything else. One that the kernel works for, copying
// a message of gigabytes, is late too, and that is the layer's time.
void note_stall() {
  const std::int64_t now = now_ns();
  const std::int64_t worked = in_kernel_ns();
  const std::int64_t late_ns = now - state.ticked_at - tick_ns - (worked - state.in_kernel_ns);
  state.ticked_at = now;
  state.in_kernel_ns = worked;
  if (late_ns < Watchdog::stalled_after_ns) return;
  state.stalled_ns += late_ns;
  state.deadline += late_ns;
  if (state.abort != 0) state.raised_at += late_ns;
  end_by_force(std::max<std::int64_t>(state.deadline - now, 0) + deaf_ns);
}

// Async-signal-safe throughout: clock_gettime, getrusage, timer_settime, recv, write, sigaction, _exit.
void on_tick(int) {
  const int saved = errno;
  if (state.armed.load(std::memory_order_acquire)) {
    note_stall();
    if (state.interrupted != 0 && state.heeds_interrupts) raise_flag(Cause::interrupted);
    if (now_ns() > state.deadline) raise_flag(Cause::deadline);
    if (state.watch != nullptr && state.watch->any_gone()) raise_flag(Cause::peer_gone);
    if (state.abort != 0 && now_ns() > state.raised_at + Watchdog::grace_ns) {
      const int to = state.last_fd >= 0 ? state.last_fd : STDERR_FILENO;
      [[maybe_unused]] const ssize_t n = write(to, state.last_words.data(), state.last_words.size());
      _exit(state.cause == Cause::interrupted ? static_cast<int>(Exit::interrupted) : static_cast<int>(Exit::failed));
    }
  }
  errno = saved;
}

void on_interrupt(int) { state.interrupted = 1; }

void block_interrupts(int how) {
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGINT);
  sigaddset(&both, SIGTERM);
  sigprocmask(how, &both, nullptr);
}

}  // namespace

void Watchdog::hold_interrupts() { block_interrupts(SIG_BLOCK); }

Outcome Watchdog::install(bool interruptible) {
  state.abort = 0;
  state.armed.store(false);
  install_tick(true);
  struct sigaction action{};
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  action.sa_handler = interruptible ? on_interrupt : SIG_IGN;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
  sigaction(SIGXFSZ, &action, nullptr);  // a run file that is as large as it may be (ulimit -f) is a failed write
  block_interrupts(SIG_UNBLOCK);

  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGALRM;
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  state.ticking = false;  // a fork has not inherited the timer
  sigevent kill{};
  kill.sigev_notify = SIGEV_SIGNAL;
  kill.sigev_signo = SIGKILL;
  if (!make_timer(event, state.timer) || !make_timer(kill, state.last_resort)) {
    return failed(std::string("cannot create the watchdog's timer: ") + std::strerror(errno));
  }
  return ok();
}

const volatile int* Watchdog::abort_flag() { return &state.abort; }

void Watchdog::arm(std::int64_t deadline_ns, const Group* watch, std::string last_words, int last_fd,
                   Interrupts interrupts) {
  state.armed.store(false, std::memory_order_release);
  state.in_kernel_ns = in_kernel_ns();
  state.ticked_at = now_ns();
  state.deadline = state.ticked_at + deadline_ns;
  state.watch = watch;
  state.heeds_interrupts = interrupts == Interrupts::heed;
  state.last_words = last_words.empty() ? stuck_in("what it waited for") : std::move(last_words);
  state.last_fd = last_fd;
  state.armed.store(true, std::memory_order_release);
  tick(true);
  end_by_force(std::max<std::int64_t>(deadline_ns, 0) + deaf_ns);
}

void Watchdog::heed_interrupts() { state.heeds_interrupts = true; }

Cause Watchdog::disarm() {
  state.armed.store(false, std::memory_order_release);
  tick(false);
  end_by_force(0);
  const Cause cause = state.abort != 0 ? state.cause : Cause::none;
  if (state.abort != 0) {
    state.abort = 0;
    state.cause = Cause::none;
    install_tick(true);
  }
  return cause;
}

std::int64_t Watchdog::stalled_ns() { return state.stalled_ns; }

bool Watchdog::interrupted() { return state.interrupted != 0; }

}  // namespace netpipe
