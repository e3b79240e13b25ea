// SPDX-License-Identifier: Apache-2.0
// The process that measures for a client of `netpipe-worker serve`: a program of its own, with an address layout of its
// own, that has taken from itself what it does not need before it looks at anything that the client sent.
#pragma once

#include <span>
#include <string>

#include "serving/server.h"

namespace netpipe {

// The name of the command that it is started with, by this program alone.
inline constexpr const char* serving_command = "serving";

// In the forked process: becomes that program. Returns only where that failed.
Failure become_serving(int control_fd, int words_fd, const Admission& admission);
// That program. arguments: what follows the command. Returns only where it was not started by become_serving.
int serving_main(std::span<const std::string> arguments);

}  // namespace netpipe
