// SPDX-License-Identifier: Apache-2.0
// A process whose threads share descriptors pays for that in every system call (Linux counts each use of one). So a
// thread beside the one that measures has a table of its own.
#pragma once

#include <linux/close_range.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <vector>

namespace netpipe::fd_io {

// Called by the thread itself. It closes in its table what is not for it: else the other end of a pipe that the rank
// closes would wait for the thread. A kernel without this call leaves all of them shared.
inline void keep_own_descriptors([[maybe_unused]] std::vector<unsigned> keep) {
#ifdef __NR_close_range
  std::sort(keep.begin(), keep.end());
  unsigned from = 0, flags = CLOSE_RANGE_UNSHARE;
  for (size_t i = 0; i <= keep.size(); ++i) {
    const unsigned to = i < keep.size() ? keep[i] : UINT_MAX;
    if (to > from) {
      if (::syscall(__NR_close_range, from, i < keep.size() ? to - 1 : to, flags) != 0) return;
      flags = 0;
    }
    from = to + 1;
  }
#endif
}

}  // namespace netpipe::fd_io
