// SPDX-License-Identifier: Apache-2.0
// `netpipe-worker serve`: its options, and the server that they start.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "serving/server.h"

namespace netpipe {

// The values of the options. Exit::usage with a sentence where one is wrong.
struct ServeArguments {
  std::string bind = "127.0.0.1";
  std::uint16_t port = default_port;
  std::string token_file;
  Bounds bounds;
  bool once = false;
  bool check = false;  // only whether it could serve
  bool help = false;
};
Result<ServeArguments> parse_serve(std::span<const std::string> arguments);
std::string serve_help();

// arguments: what follows `serve`. Prints one line of JSON when it listens, and one line for each client on standard
// error. become: what a forked process becomes to measure. Returns the exit code.
int serve_main(std::span<const std::string> arguments, Become become);

}  // namespace netpipe
