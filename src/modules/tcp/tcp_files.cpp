// SPDX-License-Identifier: Apache-2.0
// path=splice and path=sendfile: the ways of a file into a socket. splice: the pages of a message are lent to a pipe
// (vmsplice(2)) and move on from there. sendfile: a file in memory that holds the messages of the visit, as a server of
// files has them.
//
// The kernel does not say when it has done with a page; over loopback it is read when the receiver copies it. So only
// messages at announced places go this way (kit/streams/announced.h). Receives are copies, as there is no other way
// into memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "kit/streams/announced.h"
#include "kit/streams/fd.h"
#include "tcp_options.h"
#include "tcp_paths.h"

namespace netpipe::tcp {
namespace {

using fd_io::Announced;
using fd_io::Fd;

constexpr int kPipeBytes = 1 << 20;           // asked for; without privileges fs.pipe-max-size is the most
constexpr uint64_t kMostFileBytes = 1 << 30;  // that a visit's messages may take a second time

// splice and sendfile take no flag for a single call: the descriptor itself must not block. It blocks otherwise, so
// that messages below zerocopy_min cost what they do without a path.
class NotBlocking {
 public:
  NotBlocking(int fd, bool switches) : fd_(fd), switches_(switches) {
    if (switches_) fd_io::set_blocking(fd_, false);
  }
  NotBlocking(const NotBlocking&) = delete;
  NotBlocking& operator=(const NotBlocking&) = delete;
  ~NotBlocking() {
    const int error = errno;
    if (switches_) fd_io::set_blocking(fd_, true);
    errno = error;
  }

 private:
  int fd_;
  bool switches_;
};

class FromFile : public TcpPath {
 public:
  FromFile(const np_context* context, size_t least)
      : context_(context), messages_(least), switches_(context->options[kWait].number == NP_WAIT_BLOCK) {}

  [[nodiscard]] size_t direct_bytes() const override { return messages_.least() - 1; }

  int add(int fd, int) override {
    if (!switches_) fd_io::set_blocking(fd, false);
    const auto free = std::find_if(sockets_.begin(), sockets_.end(), [](const Socket& one) { return one.fd < 0; });
    const auto slot = static_cast<size_t>(free - sockets_.begin());
    if (free == sockets_.end()) sockets_.emplace_back();
    sockets_[slot].fd = fd;
    return static_cast<int>(slot);
  }
  void remove(int slot) override { of(slot) = Socket{}; }
  void cancel(int) override {}  // the kernel only reads, and holds the pages itself

  ssize_t write(int slot, const void* data, size_t bytes) override {
    Socket& socket = of(slot);
    if (socket.held == 0 && !messages_.lends(data, bytes)) {
      return ::send(socket.fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    const NotBlocking now(socket.fd, switches_);
    const ssize_t done = lend(socket, data, bytes);
    if (done > 0) ++counted.lent;
    return done;
  }
  ssize_t read(int slot, void* data, size_t bytes) override { return ::recv(of(slot).fd, data, bytes, MSG_DONTWAIT); }

  uint64_t written(int) override { return 0; }
  bool settled(int, uint64_t) override { return true; }
  void submit() override {}
  bool sleep(int) override { return false; }

  np_status expect(const np_visit& visit) override {
    const std::string what = std::string("tcp: path=") + context_->options[kPath].text;
    if (const np_status s = messages_.expect(context_, visit, what.c_str()); s != NP_OK) return s;
    return messages_.span() == 0 ? NP_OK : announce(visit.outgoing.base);
  }

 protected:
  struct Socket {
    int fd = -1;
    Fd from, to;      // splice: a pipe
    size_t held = 0;  // splice: bytes in it, the first of what is written next
  };

  [[nodiscard]] const np_context* context() const { return context_; }
  [[nodiscard]] const Announced& messages() const { return messages_; }

 private:
  virtual ssize_t lend(Socket& socket, const void* data, size_t bytes) = 0;
  virtual np_status announce(const char* base) = 0;

  Socket& of(int slot) { return sockets_[static_cast<size_t>(slot)]; }

  const np_context* context_;
  Announced messages_;
  bool switches_;
  std::vector<Socket> sockets_;
};

bool make_pipe(Fd& from, Fd& to) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  from = Fd(ends[0]);
  to = Fd(ends[1]);
  fcntl(to.get(), F_SETPIPE_SZ, kPipeBytes);
  return true;
}

class Splice final : public FromFile {
 public:
  using FromFile::FromFile;

 private:
  ssize_t lend(Socket& socket, const void* data, size_t bytes) override {
    if (!socket.from && !make_pipe(socket.from, socket.to)) return -1;
    if (socket.held == 0) {
      const iovec piece{const_cast<void*>(data), bytes};  // NOLINT(*-const-cast): only read
      const ssize_t held = ::vmsplice(socket.to.get(), &piece, 1, SPLICE_F_NONBLOCK);
      if (held < 0) return held;
      socket.held = static_cast<size_t>(held);
    }
    const unsigned more = socket.held < bytes ? SPLICE_F_MORE : 0;
    const ssize_t done =
        ::splice(socket.from.get(), nullptr, socket.fd, nullptr, socket.held, SPLICE_F_NONBLOCK | SPLICE_F_MOVE | more);
    if (done > 0) socket.held -= static_cast<size_t>(done);
    return done;
  }
  np_status announce(const char*) override { return NP_OK; }
};

class SendFile final : public FromFile {
 public:
  SendFile(const np_context* context, size_t least, Fd file) : FromFile(context, least), file_(std::move(file)) {}

 private:
  ssize_t lend(Socket& socket, const void* data, size_t bytes) override {
    auto from = static_cast<off_t>(messages().offset(data));
    return ::sendfile(socket.fd, file_.get(), &from, bytes);
  }

  // What was in the file before may still be on its way, in pages that the kernel holds: the new file has others.
  np_status announce(const char* base) override {
    const uint64_t bytes = messages().span();
    if (bytes > kMostFileBytes) {
      return fd_io::fail(context(), NP_UNSUPPORTED,
                         "tcp: path=sendfile: the messages of this visit take %llu bytes, and its file holds at most "
                         "%llu; ask for smaller messages or fewer places",
                         static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(kMostFileBytes));
    }
    const bool empty = ftruncate(file_.get(), 0) == 0 && ftruncate(file_.get(), static_cast<off_t>(bytes)) == 0;
    uint64_t done = 0;
    while (empty && done < bytes) {
      const ssize_t wrote = pwrite(file_.get(), base + done, bytes - done, static_cast<off_t>(done));
      if (wrote <= 0) break;
      done += static_cast<uint64_t>(wrote);
    }
    if (done == bytes) return NP_OK;
    return fd_io::fail(context(), NP_NO_MEMORY, "tcp: path=sendfile: no memory for a file of %llu bytes: %s",
                       static_cast<unsigned long long>(bytes), std::strerror(errno));
  }

  Fd file_;
};

}  // namespace

np_status make_from_file(const np_context* context, std::unique_ptr<TcpPath>& path) {
  const auto least = static_cast<size_t>(context->options[kZerocopyMin].number);
  if (static_cast<PathKind>(context->options[kPath].number) == PathKind::splice) {
    path.reset(new (std::nothrow) Splice(context, least));
  } else {
    Fd file(memfd_create("netpipe-messages", MFD_CLOEXEC));
    if (!file) {
      return fd_io::fail(context, NP_UNAVAILABLE, "tcp: path=sendfile: memfd_create: %s", std::strerror(errno));
    }
    path.reset(new (std::nothrow) SendFile(context, least, std::move(file)));
  }
  return path ? NP_OK : fd_io::fail(context, NP_NO_MEMORY, "tcp: no memory for path=%s", context->options[kPath].text);
}

}  // namespace netpipe::tcp
