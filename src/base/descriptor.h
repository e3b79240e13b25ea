// SPDX-License-Identifier: Apache-2.0
// A file descriptor that closes itself, and room for many of them.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <string>
#include <utility>

#include "base/result.h"

namespace netpipe {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~Descriptor() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// Raises the limit of open files as far as the system allows. Fails when that is too few; the sentence begins with
// for_what ("a server needs") and ends with otherwise.
Outcome room_for_descriptors(std::size_t needed, const std::string& for_what, const std::string& otherwise = {});

}  // namespace netpipe
