// SPDX-License-Identifier: Apache-2.0
#include "base/descriptor.h"

#include <sys/resource.h>

namespace netpipe {

Outcome room_for_descriptors(std::size_t needed, const std::string& for_what, const std::string& otherwise) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return ok();
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (needed <= limit.rlim_max) return ok();
  return unavailable(for_what + " more open files than the " + std::to_string(limit.rlim_max) +
                     " that this system gives a program; raise the limit (ulimit -n)" + otherwise);
}

}  // namespace netpipe
