// SPDX-License-Identifier: Apache-2.0
// `netpipe-worker serve`: its options, and the server that they start.
#pragma once

#include <span>
#include <string>

#include "serving/server.h"

namespace netpipe {

// arguments: what follows `serve`. Prints one line of JSON when it listens, and one line for each client on standard
// error. measure: what a forked process does for a client. Returns the exit code.
int serve_main(std::span<const std::string> arguments, MeasureFor measure);

}  // namespace netpipe
