// SPDX-License-Identifier: Apache-2.0
// Makes every wait end. While the watchdog is armed, a kernel timer sends this thread a signal ten times a second. The
// handler checks whether the deadline has passed, the user has interrupted, or a peer has gone, and then raises the
// abort flag that every module and every wait of ours looks at. No thread is there that could disturb a measurement. If
// a module does not return within the grace period, the handler writes the last words that were prepared and ends the
// process. If the module has blocked or ignores the timer's signal, the kernel kills the process a second later.
#pragma once

#include <cstdint>
#include <string>

#include "link/group.h"

namespace netpipe {

enum class Cause : int { none = 0, deadline = 1, interrupted = 2, peer_gone = 3 };

// Whether an interrupt by the user raises the flag. Where ranks tell each other something it must not: who left such a
// talk in the middle would take the rest of it for the next one. These talks are short.
enum class Interrupts { heed, ignore };

class Watchdog {
 public:
  // One per process, because signal handlers have no argument. interruptible: SIGINT and SIGTERM mean "stop and keep
  // what was measured"; otherwise they are ignored, because rank 0 decides for all.
  static Outcome install(bool interruptible);
  // Until then SIGINT and SIGTERM wait: from here on an end must be an orderly one.
  static void hold_interrupts();
  static const volatile int* abort_flag();

  // Until disarm(): the abort flag rises when deadline_ns have passed or, with watch, a peer has gone. If disarm() is
  // not called within the grace period after that, last_words go to last_fd and the process exits with 4, or 130 after
  // an interrupt. last_fd -1: to standard error, and empty ones are a sentence without a name: no end is silent.
  static void arm(std::int64_t deadline_ns, const Group* watch, std::string last_words, int last_fd,
                  Interrupts interrupts = Interrupts::heed);
  // From now on, until disarm().
  static void heed_interrupts();
  // The same for a talk among ranks.
  static void arm_talk(std::int64_t deadline_ns) {
    arm(deadline_ns, nullptr, stuck_in("an exchange with the other ranks"), -1, Interrupts::ignore);
  }
  // Last words for standard error. where: "closing a variant".
  static std::string stuck_in(const char* where) {
    return std::string("netpipe-worker: a rank did not return in time from ") + where +
           ", so its process has ended; on a busy machine, raise --timeout or end other programs\n";
  }
  // Why the flag rose, if it did. Lowers the flag; after an interrupt the next tick raises it again.
  static Cause disarm();
  [[nodiscard]] static bool interrupted();
  // How long this process did not run at all, over all times that it was armed: it was stopped, its virtual machine was
  // paused, or nobody gave it a processor. Known from ticks that were late by stalled_after_ns or more. A deadline does
  // not run meanwhile.
  [[nodiscard]] static std::int64_t stalled_ns();
  static constexpr std::int64_t stalled_after_ns = 1'000'000'000;

  static constexpr std::int64_t grace_ns = 2'000'000'000;
};

}  // namespace netpipe
