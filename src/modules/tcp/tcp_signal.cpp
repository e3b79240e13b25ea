// SPDX-License-Identifier: Apache-2.0
// wait=sigio: the kernel says by SIGIO (fcntl(2), O_ASYNC) that a socket has bytes or room, as MP_Lite had it (Turner,
// Chen: Protocol-dependent message-passing performance on Linux clusters, 2002). While a rank is outside of its calls
// and has transfers under way, the signal's handler moves them. Inside a call it only notes that it came, and a rank
// with nothing to do takes the next one with sigtimedwait(2).
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
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

// What the handler reads. It runs on the thread that it interrupts (F_OWNER_TID), so signal fences are enough.
struct {
  fd_io::Path::Mover* volatile mover = nullptr;  // null: the rank is in a call, or nothing is under way
  volatile sig_atomic_t came = 0;                // in a call, and nobody has looked since
  int64_t moved = 0;
  int users = 0;
  struct sigaction before = {};
} handled;

void on_sigio(int) {
  const int error = errno;
  fd_io::Path::Mover* const mover = handled.mover;
  if (mover == nullptr) {
    handled.came = 1;
  } else {
    std::atomic_signal_fence(std::memory_order_acquire);
    handled.moved += mover->move_unasked() ? 1 : 0;
    std::atomic_signal_fence(std::memory_order_release);
  }
  errno = error;
}

// A signal that is pending when the handler goes would end the process, so it stays blocked from then on.
np_status take_signal(const np_context* context) {
  const sigset_t set = sigio();
  struct sigaction action = {};
  action.sa_handler = on_sigio;
  action.sa_flags = SA_RESTART;
  if (handled.users == 0 && sigaction(SIGIO, &action, &handled.before) != 0) {
    return fd_io::fail(context, NP_FAILED, "tcp: wait=sigio: sigaction: %s", std::strerror(errno));
  }
  ++handled.users;
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  return NP_OK;
}

void give_signal_back() {
  const sigset_t set = sigio();
  if (--handled.users > 0) return;
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  sigaction(SIGIO, &handled.before, nullptr);
}

class Signalled final : public TcpPath {
 public:
  ~Signalled() override {
    enter();
    if (taken_) give_signal_back();
  }
  np_status take(const np_context* context) {
    const np_status status = take_signal(context);
    taken_ = status == NP_OK;
    return status;
  }

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

  void enter() override {
    handled.mover = nullptr;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    counted.moved = handled.moved - moved_before_;
  }
  // What came during the call may have been overlooked, and no other signal follows where a buffer is full.
  void leave(Mover& mover) override {
    for (;;) {
      if (handled.came != 0) {
        handled.came = 0;
        mover.move_unasked();
      }
      std::atomic_signal_fence(std::memory_order_seq_cst);
      handled.mover = &mover;
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (handled.came == 0) return;
      handled.mover = nullptr;
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
  }

  // A signal that came after the sockets were looked at was noted or is pending, so none is missed; one that came
  // before only means one more look.
  bool sleep(int most_ms) override {
    const sigset_t wanted = sigio();
    pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
    if (handled.came == 0) {
      const timespec time{.tv_sec = most_ms / 1000, .tv_nsec = most_ms % 1000 * 1'000'000L};
      if (sigtimedwait(&wanted, nullptr, &time) == SIGIO) ++counted.signals;
    }
    handled.came = 0;
    pthread_sigmask(SIG_UNBLOCK, &wanted, nullptr);
    return true;
  }

 private:
  int& of(int slot) { return fds_[static_cast<size_t>(slot)]; }
  std::vector<int> fds_;
  const int64_t moved_before_ = handled.moved;
  bool taken_ = false;
};

}  // namespace

np_status make_signalled(const np_context* context, std::unique_ptr<TcpPath>& path) {
  std::unique_ptr<Signalled> made(new (std::nothrow) Signalled);
  if (!made) return fd_io::fail(context, NP_NO_MEMORY, "tcp: no memory for wait=sigio");
  if (const np_status s = made->take(context); s != NP_OK) return s;
  const fd_io::Fd trial(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (make_signal(trial.get()) != 0) {
    return fd_io::fail(context, NP_UNAVAILABLE, "tcp: wait=sigio: a socket cannot be made to signal: %s",
                       std::strerror(errno));
  }
  path = std::move(made);
  return NP_OK;
}

}  // namespace netpipe::tcp
