// SPDX-License-Identifier: Apache-2.0
// A wait for a descriptor. It has a file of its own because it is one of the two things (with the watchdog) that a rank
// does in another way where all ranks of a job are one process: there it has to let the others run (src/simulated).
#pragma once

namespace netpipe {

// Until it can be read (POLLIN) or written (POLLOUT) or is broken, at most so long. False: not yet, or a signal came.
// fresh: the wait has just begun.
bool ready(int fd, short events, int wait_ms, bool fresh);

}  // namespace netpipe
