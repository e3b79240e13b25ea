// SPDX-License-Identifier: Apache-2.0
// One copy between this process and another one by the kernel, whole or not at all.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace netpipe::cma {

// The most that one call is given: a copy of gigabytes would keep an abort waiting.
inline constexpr std::size_t kMostBytes = std::size_t{256} << 20;

enum class Way { read, write };

// Between `near` here and the address `far` there. 0, or an errno: EPERM where the kernel does not allow it, ESRCH
// where the process has gone, EFAULT for memory that it lacks.
inline int copy(Way way, pid_t pid, void* near, std::uint64_t far, std::size_t bytes) {
  while (bytes > 0) {
    const std::size_t now = std::min(bytes, kMostBytes);
    const iovec local{near, now};
    const iovec remote{reinterpret_cast<void*>(far), now};  // NOLINT(performance-no-int-to-ptr)
    const ssize_t moved = way == Way::read ? process_vm_readv(pid, &local, 1, &remote, 1, 0)
                                           : process_vm_writev(pid, &local, 1, &remote, 1, 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return moved == 0 ? EFAULT : errno;
    near = static_cast<char*>(near) + moved;
    far += static_cast<std::uint64_t>(moved);
    bytes -= static_cast<std::size_t>(moved);
  }
  return 0;
}

}  // namespace netpipe::cma
