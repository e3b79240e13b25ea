// SPDX-License-Identifier: Apache-2.0
#include "record/run_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace netpipe {

Result<RunFile> RunFile::open(const std::string& path) {
  if (path == "-") return RunFile(-1, path);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return failed("the run file " + path + " cannot be opened: " + std::strerror(errno));
  return RunFile(fd, path);
}

RunFile::RunFile(RunFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), broken_(other.broken_) {}

RunFile::~RunFile() {
  if (fd_ >= 0) close(fd_);
}

Outcome RunFile::write(std::string record) {
  if (fd_ < 0) return ok();
  if (broken_) return failed("the run file " + path_ + " could not be written any further");
  record += '\n';
  const char* at = record.data();
  std::size_t left = record.size();
  while (left > 0) {
    const ssize_t n = ::write(fd_, at, left);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      broken_ = true;
      return failed("the run file " + path_ + " cannot be written: " + std::strerror(n < 0 ? errno : ENOSPC) +
                    "; what was measured up to here is in it");
    }
    at += n;
    left -= static_cast<std::size_t>(n);
  }
  return ok();
}

}  // namespace netpipe
