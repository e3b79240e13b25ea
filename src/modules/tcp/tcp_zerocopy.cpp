// SPDX-License-Identifier: Apache-2.0
// path=zerocopy: MSG_ZEROCOPY (Linux, Documentation/networking/msg_zerocopy.rst). The kernel sends from the user's
// pages and says on the socket's error queue when it has done with them; a buffer is lent until then.
#include <ctime>  // before linux/errqueue.h, which lacks it
//
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <vector>

#include "kit/streams/fd.h"
#include "tcp_ledger.h"
#include "tcp_options.h"
#include "tcp_paths.h"

namespace netpipe::tcp {
namespace {

class ZeroCopy final : public TcpPath {
 public:
  explicit ZeroCopy(size_t least) : least_(least) {}

  [[nodiscard]] size_t direct_bytes() const override { return least_ - 1; }

  int add(int fd, int) override {
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &yes, sizeof yes);  // as the trial in make_zerocopy has shown
    const auto free = std::find_if(sockets_.begin(), sockets_.end(), [](const Socket& one) { return one.fd < 0; });
    const auto slot = static_cast<size_t>(free - sockets_.begin());
    if (free == sockets_.end()) sockets_.emplace_back();
    sockets_[slot].fd = fd;
    sockets_[slot].sends = std::make_unique<Ledger>();
    return static_cast<int>(slot);
  }
  void remove(int slot) override { of(slot) = Socket{}; }
  void cancel(int) override {}  // the kernel only reads, and holds the pages itself

  ssize_t write(int slot, const void* data, size_t bytes) override {
    Socket& socket = of(slot);
    constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
    if (bytes < least_) return ::send(socket.fd, data, bytes, kFlags);
    if (socket.sends->full()) {
      look(socket);
      if (socket.sends->full()) return later();
    }
    const ssize_t done = ::send(socket.fd, data, bytes, kFlags | MSG_ZEROCOPY);
    if (done > 0) {
      socket.sends->issue();
      ++counted.lent;
    }
    if (done >= 0 || errno != ENOBUFS) return done;
    if (!socket.sends->empty()) return later();  // what is under way takes up the memory
    ++counted.refused;
    return ::send(socket.fd, data, bytes, kFlags);
  }

  ssize_t read(int slot, void* data, size_t bytes) override { return ::recv(of(slot).fd, data, bytes, MSG_DONTWAIT); }

  uint64_t written(int slot) override { return of(slot).sends->issued(); }
  bool settled(int slot, uint64_t written_so_far) override {
    Socket& socket = of(slot);
    if (!socket.sends->settled(written_so_far)) look(socket);
    return socket.sends->settled(written_so_far);
  }
  void submit() override {}
  bool sleep(int) override { return false; }  // poll() reports an error queue that has something

 private:
  struct Socket {
    int fd = -1;
    std::unique_ptr<Ledger> sends;
  };
  Socket& of(int slot) { return sockets_[static_cast<size_t>(slot)]; }

  static ssize_t later() {
    errno = EAGAIN;
    return -1;
  }

  // Takes everything from the error queue.
  void look(Socket& socket) {
    for (;;) {
      alignas(cmsghdr) char room[256];
      msghdr message{};
      message.msg_control = room;
      message.msg_controllen = sizeof room;
      if (::recvmsg(socket.fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
      for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
        const bool v4 = at->cmsg_level == SOL_IP && at->cmsg_type == IP_RECVERR;
        const bool v6 = at->cmsg_level == SOL_IPV6 && at->cmsg_type == IPV6_RECVERR;
        if (!v4 && !v6) continue;
        sock_extended_err said{};
        std::memcpy(&said, CMSG_DATA(at), sizeof said);
        if (said.ee_origin != SO_EE_ORIGIN_ZEROCOPY) continue;
        const uint32_t count = said.ee_data - said.ee_info + 1;  // a range, and the numbers may wrap
        for (uint32_t i = 0; i < std::min<uint32_t>(count, Ledger::kMost); ++i) socket.sends->settle(said.ee_info + i);
        if ((said.ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0) counted.copied += count;
      }
    }
  }

  size_t least_;
  std::vector<Socket> sockets_;
};

}  // namespace

np_status make_zerocopy(const np_context* context, std::unique_ptr<TcpPath>& path) {
  const fd_io::Fd trial(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (setsockopt(trial.get(), SOL_SOCKET, SO_ZEROCOPY, &yes, sizeof yes) != 0) {
    return fd_io::fail(context, NP_UNAVAILABLE, "tcp: path=zerocopy: SO_ZEROCOPY: %s; it needs Linux 4.14",
                       std::strerror(errno));
  }
  path.reset(new (std::nothrow) ZeroCopy(static_cast<size_t>(context->options[kZerocopyMin].number)));
  return path ? NP_OK : fd_io::fail(context, NP_NO_MEMORY, "tcp: no memory for path=zerocopy");
}

}  // namespace netpipe::tcp
