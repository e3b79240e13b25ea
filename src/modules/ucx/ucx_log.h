// SPDX-License-Identifier: Apache-2.0
// What UCX would print. A module prints nothing, and UCX's sentences are the best that there is about a setting that it
// does not take: they are kept for the next error. With UCX_LOG_FILE set UCX still writes its file.
#pragma once

#include <string>

namespace netpipe::ucx {

// While one lives, UCX prints nothing.
class Log {
 public:
  Log();
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Errors and warnings since the last call, joined by "; ". Those about variables that the user has in the environment
  // and UCX does not know are left out.
  static std::string take();
};

// UCX's constructor installs handlers for SIGSEGV and its like, and for SIGHUP. What was there before comes back.
void give_signals_back();

}  // namespace netpipe::ucx
