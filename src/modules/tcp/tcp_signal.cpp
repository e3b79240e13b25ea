// SPDX-License-Identifier: Apache-2.0
// wait=sigio: the kernel says by SIGIO (fcntl(2), O_ASYNC) that a socket has bytes or room, as MP_Lite had it. There is
// no handler, because a module changes none: the signal stays blocked, and a rank that has nothing to do takes it with
// sigtimedwait(2). So nothing moves while the rank computes.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <vector>

#include "kit/streams/fd.h"
#include "tcp_paths.h"

namespace netpipe::tcp {
namespace {

sigset_t sigio() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGIO);
  return set;
}

int make_signal(int fd) {
  const f_owner_ex owner{F_OWNER_TID, gettid()};
  if (fcntl(fd, F_SETOWN_EX, &owner) != 0) return -1;
  const int flags = fcntl(fd, F_GETFL);
  return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_ASYNC);
}

class Signalled final : public TcpPath {
 public:
  [[nodiscard]] size_t direct_bytes() const override { return 0; }

  int add(int fd, int) override {
    make_signal(fd);  // as the trial in make_signalled has shown
    const auto free = std::find(fds_.begin(), fds_.end(), -1);
    const auto slot = static_cast<size_t>(free - fds_.begin());
    if (free == fds_.end()) fds_.push_back(-1);
    fds_[slot] = fd;
    return static_cast<int>(slot);
  }
  void remove(int slot) override { of(slot) = -1; }
  void cancel(int) override {}

  ssize_t write(int slot, const void* data, size_t bytes) override {
    return ::send(of(slot), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  ssize_t read(int slot, void* data, size_t bytes) override { return ::recv(of(slot), data, bytes, MSG_DONTWAIT); }

  uint64_t written(int) override { return 0; }
  bool settled(int, uint64_t) override { return true; }
  void submit() override {}

  // What came since the socket was looked at is pending, so it is not missed.
  bool sleep(int most_ms) override {
    const sigset_t wanted = sigio();
    const timespec time{.tv_sec = most_ms / 1000, .tv_nsec = most_ms % 1000 * 1'000'000L};
    if (sigtimedwait(&wanted, nullptr, &time) == SIGIO) ++counted.signals;
    return true;
  }

 private:
  int& of(int slot) { return fds_[static_cast<size_t>(slot)]; }
  std::vector<int> fds_;
};

}  // namespace

np_status make_signalled(const np_context* context, std::unique_ptr<TcpPath>& path) {
  // For good: an endpoint that is closed does not know whether another one still wants it, and SIGIO ends a process
  // that neither blocks nor handles it.
  const sigset_t blocked = sigio();
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  const fd_io::Fd trial(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (make_signal(trial.get()) != 0) {
    return fd_io::fail(context, NP_UNAVAILABLE, "tcp: wait=sigio: a socket cannot be made to signal: %s",
                       std::strerror(errno));
  }
  path.reset(new (std::nothrow) Signalled);
  return path ? NP_OK : fd_io::fail(context, NP_NO_MEMORY, "tcp: no memory for wait=sigio");
}

}  // namespace netpipe::tcp
