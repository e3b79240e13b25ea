// SPDX-License-Identifier: Apache-2.0
#include "base/ready.h"

#include <poll.h>
#include <sched.h>

#include "base/clock.h"

namespace netpipe {

bool ready(int fd, short events, int wait_ms, bool fresh) {
  pollfd one{fd, events, 0};
  // A short spin first: the answer usually comes within microseconds, and a processor that has slept measures
  // differently.
  for (int spin = 0; fresh && spin < 200; ++spin) {
    if (poll(&one, 1, 0) > 0) return true;
  }
  return poll(&one, 1, wait_ms) > 0;
}

std::int64_t until(std::int64_t moment_ns, bool yields, const volatile int* abort) {
  std::int64_t now = now_ns();
  for (; now < moment_ns; now = now_ns()) {
    if (yields) sched_yield();
    if (*abort != 0) return -1;
  }
  return now;
}

}  // namespace netpipe
