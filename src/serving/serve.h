// SPDX-License-Identifier: Apache-2.0
// `netpipe-worker serve`: its options, and the server that they start.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "serving/server.h"

namespace netpipe {

// One option as people and `netpipe serve` know it.
struct ServeOptionText {
  std::string name;     // "port"
  std::string metavar;  // what stands for its value; "": it takes none
  std::string preset;   // its default; "": it has none, or the help says it
  std::string help;     // one sentence without a full stop
};

// In the order of the help.
std::vector<ServeOptionText> serve_option_texts();

// arguments: what follows `serve`. Prints one line of JSON when it listens, and one line for each client on standard
// error. measure: what a forked process does for a client. Returns the exit code.
int serve_main(std::span<const std::string> arguments, MeasureFor measure);

}  // namespace netpipe
