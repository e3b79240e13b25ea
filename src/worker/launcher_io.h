// SPDX-License-Identifier: Apache-2.0
// The worker's standard input and output: the plan and the launcher's "go" come in, events go out.
#pragma once

#include <functional>
#include <string>

#include "core/result.h"

namespace netpipe {

class LauncherInput {
 public:
  // Everything up to a line `end` or the end of the input; at most 1 MiB.
  Result<std::string> read_plan();
  // Waits for a line; alive is called about once a second meanwhile. false: the launcher has closed the input, or the
  // user has interrupted.
  bool wait_for_line(const std::function<void()>& alive);

 private:
  bool next_line(std::string& line, const std::function<void()>* alive);
  std::string pending_;
};

// One line on standard output, at once.
void say(const std::string& line);

}  // namespace netpipe
