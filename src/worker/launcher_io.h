// SPDX-License-Identifier: Apache-2.0
// The worker's standard input and output: the plan and the launcher's words come in, events go out.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"

namespace netpipe {

class LauncherInput {
 public:
  // Everything up to a line `end` or the end of the input; at most 1 MiB.
  Result<std::string> read_plan();
  // Waits for a line `go`; alive is called about once a second meanwhile. false: the launcher has closed the input, or
  // the user has interrupted.
  bool wait_for_go(const std::function<void()>& alive);
  // What the launcher said of this job (a line `failed JOB SENTENCE`), waiting for it so long.
  std::optional<std::string> failed(int job, int wait_ms);

 private:
  bool next_line(std::string& line, const std::function<void()>* alive);
  bool take_line(std::string& line);
  bool read_more();  // false: the launcher has closed the input
  void note(const std::string& line);

  std::string pending_;
  bool closed_ = false;
  std::map<int, std::string> failures_;
};

// One line on standard output, at once.
void say(const std::string& line);

}  // namespace netpipe
