// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>

#include "base/result.h"
#include "base/text.h"

namespace netpipe {

// To the user; the exit code.
inline int complain(const Failure& failure) {
  std::fprintf(stderr, "netpipe-worker: %s\n", without_controls(failure.sentence).c_str());
  return static_cast<int>(failure.exit);
}

}  // namespace netpipe
