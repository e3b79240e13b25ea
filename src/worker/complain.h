// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>

#include "base/result.h"

namespace netpipe {

// To the user; the exit code.
inline int complain(const Failure& failure) {
  std::fprintf(stderr, "netpipe-worker: %s\n", failure.sentence.c_str());
  return static_cast<int>(failure.exit);
}

}  // namespace netpipe
