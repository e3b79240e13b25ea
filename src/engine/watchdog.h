// SPDX-License-Identifier: Apache-2.0
// Sees to it that every wait ends. While it is armed a timer of the kernel sends this thread a signal ten times a
// second; its handler looks whether the deadline has passed, the user has interrupted, or a peer has gone, and then
// raises the abort flag that every module and every wait of ours looks at. There is no thread that could disturb a
// measurement. Should a module not come back within the grace period, the handler writes the error record that was laid
// ready and ends the process.
#pragma once

#include <cstdint>
#include <string>

#include "link/group.h"

namespace netpipe {

enum class Cause : int { none = 0, deadline = 1, interrupted = 2, peer_gone = 3 };

class Watchdog {
 public:
  // One per process: signal handlers have no argument. interruptible: SIGINT and SIGTERM are taken as "stop and keep
  // what there is"; else they are ignored (rank 0 decides for all).
  static Outcome install(bool interruptible);
  static const volatile int* abort_flag();

  // Until disarm(): the abort flag rises when deadline_ns have passed or, with watch, a peer has gone. When it has
  // risen and nothing came back for the grace period, last_words go to last_fd and the process exits with 4.
  static void arm(std::int64_t deadline_ns, const Group* watch, std::string last_words, int last_fd);
  // Why the flag rose, if it did; lowers it unless the user has interrupted.
  static Cause disarm();
  [[nodiscard]] static bool interrupted();

  static constexpr std::int64_t grace_ns = 2'000'000'000;
};

}  // namespace netpipe
