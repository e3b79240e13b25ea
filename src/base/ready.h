// SPDX-License-Identifier: Apache-2.0
// Waits for a descriptor and for a moment. They have a file of their own because they are what a rank does (with the
// watchdog) in another way where all ranks of a job are one process: there it has to let the others run
// (src/simulated).
#pragma once

#include <cstdint>

namespace netpipe {

// Until it can be read (POLLIN) or written (POLLOUT) or is broken, at most so long. False: not yet, or a signal came.
// fresh: the wait has just begun.
bool ready(int fd, short events, int wait_ms, bool fresh);

// Until the clock shows this, looking at it all the time; yields: ranks share the processor. The reading that ended it,
// or -1: *abort was raised.
std::int64_t until(std::int64_t moment_ns, bool yields, const volatile int* abort);

}  // namespace netpipe
