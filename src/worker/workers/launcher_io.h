// SPDX-License-Identifier: Apache-2.0
// The worker's standard input and output: the plan and the words of the Python side come in, events go out.
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
  // Waits for a line `go`, and calls alive about once a second meanwhile. false: the input was closed, or the user has
  // interrupted.
  bool wait_for_go(const std::function<void()>& alive);
  // Why the launcher of this job failed (a line `failed JOB SENTENCE`), waiting up to wait_ms for it to arrive.
  std::optional<std::string> failed(int job, int wait_ms);
  [[nodiscard]] bool closed() const { return closed_; }

 private:
  bool next_line(std::string& line, const std::function<void()>* alive);
  bool take_line(std::string& line);
  bool read_more();  // false: the input was closed
  void note(const std::string& line);

  std::string pending_;
  bool closed_ = false;
  std::map<int, std::string> failures_;
};

// One line on standard output, at once.
void say(const std::string& line);

}  // namespace netpipe
