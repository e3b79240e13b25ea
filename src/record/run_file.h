// SPDX-License-Identifier: Apache-2.0
// The run file: one write() a line, so that whatever ends the process leaves whole lines behind.
#pragma once

#include <string>

#include "base/result.h"

namespace netpipe {

class RunFile {
 public:
  // "-": records go nowhere.
  static Result<RunFile> open(const std::string& path);
  RunFile(RunFile&& other) noexcept;
  RunFile& operator=(RunFile&& other) = delete;
  RunFile(const RunFile&) = delete;
  RunFile& operator=(const RunFile&) = delete;
  ~RunFile();

  // Appends the record and a newline. After a failure nothing more is written: a torn line stays the last one.
  Outcome write(std::string record);
  [[nodiscard]] int descriptor() const { return fd_; }

 private:
  RunFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  int fd_ = -1;
  std::string path_;
  bool broken_ = false;
};

}  // namespace netpipe
