// SPDX-License-Identifier: Apache-2.0
// Waits for a descriptor and for a moment. Like the watchdog they have a file of their own because engine/simulated
// replaces it: where all ranks of a job are one process, a rank that waits has to let the others run.
#pragma once

#include <cstdint>

namespace netpipe {

// Waits until fd can be read (POLLIN) or written (POLLOUT) or is broken, at most wait_ms. false: not yet, or a signal
// came. fresh: the wait has just begun.
bool ready(int fd, short events, int wait_ms, bool fresh);

// Polls the clock until it shows this moment. yields: ranks share the processor. Returns the reading that ended it, or
// -1: *abort was raised.
std::int64_t until(std::int64_t moment_ns, bool yields, const volatile int* abort);

}  // namespace netpipe
