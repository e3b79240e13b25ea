// SPDX-License-Identifier: Apache-2.0
// What modules over file descriptors need first: sentences, a clock, a descriptor that closes itself, and one read or
// write.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "kit/waiting.h"
#include "netpipe/module.h"

namespace netpipe::fd_io {

using netpipe::describe_waiting;
using netpipe::kSpinOption;
using netpipe::Wait;

constexpr int kMaxLanes = 64;
constexpr int kAbortSliceMs = 50;  // module.h asks for NP_ABORTED within 100 ms

// Leaves the sentence and hands the status through.
[[gnu::format(printf, 3, 4)]] inline np_status fail(const np_context* context, np_status status, const char* format,
                                                    ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(context->message, context->message_bytes, format, arguments);
  va_end(arguments);
  return status;
}

inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// The library that these modules bind is the kernel. "Linux 6.1.0"; valid for the life of the process.
inline const char* kernel_version() {
  static const std::string text = [] {
    utsname name{};
    return uname(&name) == 0 ? std::string(name.sysname) + " " + name.release : std::string("unknown kernel");
  }();
  return text.c_str();
}

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  [[nodiscard]] int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

inline bool set_blocking(int fd, bool blocking) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return false;
  return fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK) == 0;
}

constexpr np_option kWaitOption = {
    "wait",
    NP_CHOICE,
    "block",
    0,
    0,
    NP_WAIT_CHOICES,
    "",
    "block sleeps in the kernel, poll repeats non-blocking calls, hybrid polls for spin_us and then sleeps",
    NP_TUNABLE_WAITING};

// How a lane reads and writes. `blocking` false: return EAGAIN instead of waiting.
struct SocketIo {
  static constexpr bool kBlockingIsPerCall = true;
  // No MSG_WAITALL: it saves calls, and over loopback it was no faster (100 KiB to 8 MiB, Linux 6.18).
  static ssize_t read(int fd, void* data, size_t bytes, bool blocking) {
    return ::recv(fd, data, bytes, blocking ? 0 : MSG_DONTWAIT);
  }
  static ssize_t write(int fd, const void* data, size_t bytes, bool blocking) {
    return ::send(fd, data, bytes, MSG_NOSIGNAL | (blocking ? 0 : MSG_DONTWAIT));
  }
};

// read and write take no flags: the descriptor itself is switched (Wire::switch_to). Writing to a pipe without a reader
// raises SIGPIPE, which the core ignores for the whole process; a module may not touch signal handlers.
struct FileIo {
  static constexpr bool kBlockingIsPerCall = false;
  static ssize_t read(int fd, void* data, size_t bytes, bool) { return ::read(fd, data, bytes); }
  static ssize_t write(int fd, const void* data, size_t bytes, bool) { return ::write(fd, data, bytes); }
};

}  // namespace netpipe::fd_io
