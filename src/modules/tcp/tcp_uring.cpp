// SPDX-License-Identifier: Apache-2.0
// path=uring: each piece is a submission to an io_uring, at most one for each direction of a socket, because the kernel
// does not order them. A rank that blocks submits and waits in one system call; one that polls submits at once and
// looks at the ring, without a system call. path=uring_zc: large pieces are sent from the user's pages
// (IORING_OP_SEND_ZC), which are registered where it is known beforehand that messages start there.
#include "tcp_paths.h"

#if __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#endif

#include "kit/streams/fd.h"
#include "tcp_options.h"

#ifdef IORING_SEND_ZC_REPORT_USAGE

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <vector>

#include "tcp_ledger.h"
#include "tcp_ring.h"

namespace netpipe::tcp {
namespace {

constexpr size_t kMostPiece = size_t{1} << 30;  // a length has 32 bits, and a registered buffer 1 GiB
constexpr int kCancelMs = 10, kCancelTries = 50;

enum Direction { kOut, kIn, kDirections };

class Uring final : public TcpPath {
 public:
  // least: pieces from so many bytes on are sent without a copy. eager: submit at once.
  Uring(size_t least, bool eager) : least_(least), eager_(eager) {}
  ~Uring() override {
    for (size_t slot = 0; slot < sockets_.size(); ++slot) {
      if (sockets_[slot].fd >= 0) cancel(static_cast<int>(slot));
    }
  }

  int open(unsigned entries, unsigned flags) { return ring_.open(entries, flags); }

  [[nodiscard]] size_t direct_bytes() const override { return 0; }

  int add(int fd, int) override {
    reap();
    const auto free = std::find_if(sockets_.begin(), sockets_.end(),
                                   [](const Socket& one) { return one.fd < 0 && (!one.sends || one.sends->empty()); });
    const auto slot = static_cast<size_t>(free - sockets_.begin());
    if (free == sockets_.end()) sockets_.emplace_back();
    sockets_[slot] = Socket{.fd = fd};
    if (least_ != SIZE_MAX) sockets_[slot].sends = std::make_unique<Ledger>();
    return static_cast<int>(slot);
  }

  // What is still to be said of its sends is kept: the slot is taken again when it has been.
  void remove(int slot) override {
    cancel(slot);
    of(slot).fd = -1;
  }

  // Until the kernel has let go of the buffers that it writes to, and of those that it has not sent from yet.
  void cancel(int slot) override {
    Socket& socket = of(slot);
    for (int tries = 0; socket.busy() && tries < 2 * kCancelTries; ++tries) {
      if (tries == kCancelTries) ::shutdown(socket.fd, SHUT_RDWR);
      for (int direction = 0; direction < kDirections; ++direction) {
        if (!socket.under_way[at(direction)].waits()) continue;
        io_uring_sqe* entry = ring_.next();
        if (entry == nullptr) continue;  // next time
        entry->opcode = IORING_OP_ASYNC_CANCEL;
        entry->fd = -1;
        entry->addr = socket.under_way[at(direction)].tag;
        entry->user_data = kNobody;
      }
      ring_.enter(kCancelMs);
      reap();
    }
    for (Piece& piece : socket.under_way) piece = Piece{};
  }

  ssize_t write(int slot, const void* data, size_t bytes) override {
    return move(slot, kOut, const_cast<void*>(data), bytes);
  }
  ssize_t read(int slot, void* data, size_t bytes) override { return move(slot, kIn, data, bytes); }

  uint64_t written(int slot) override { return of(slot).sends ? of(slot).sends->issued() : 0; }
  bool settled(int slot, uint64_t written_so_far) override {
    if (!of(slot).sends || of(slot).sends->settled(written_so_far)) return true;
    reap();
    return of(slot).sends->settled(written_so_far);
  }

  void submit() override {
    if (ring_.noted() != 0 || ring_.due()) ring_.enter(0);
  }
  bool sleep(int most_ms) override {
    ring_.enter(most_ms);
    return true;
  }

  np_status expect(const np_visit& visit) override {
    if (least_ == SIZE_MAX) return NP_OK;
    if (counted.registered != 0) ring_.tell(IORING_UNREGISTER_BUFFERS, nullptr, 0);
    counted.registered = 0;
    const np_places& from = visit.outgoing;
    if (from.count == 0 || visit.bytes < least_) return NP_OK;
    const size_t bytes = from.stride * (from.count - 1) + visit.bytes;
    iovec whole{from.base, bytes};
    if (bytes > kMostPiece || ring_.tell(IORING_REGISTER_BUFFERS, &whole, 1) != 0) return NP_OK;  // the counter says
    registered_ = from.base;
    counted.registered = static_cast<int64_t>(bytes);
    return NP_OK;
  }

 private:
  struct Piece {
    bool started = false, done = false, lends = false;
    int32_t result = 0;
    uint64_t tag = 0;  // by which the kernel knows it
    [[nodiscard]] bool waits() const { return started && !done; }
    // For want of memory that may be locked (RLIMIT_MEMLOCK), which the kernel counts for each send of its own.
    [[nodiscard]] bool refused() const { return lends && result == -ENOMEM; }
  };
  struct Socket {
    int fd = -1;
    bool copies = false;  // the next piece that is sent: the kernel refused to lend it
    std::array<Piece, kDirections> under_way{};
    std::unique_ptr<Ledger> sends;
    [[nodiscard]] bool busy() const { return under_way[kOut].waits() || under_way[kIn].waits(); }
  };

  static size_t at(int index) { return static_cast<size_t>(index); }
  Socket& of(int slot) { return sockets_[at(slot)]; }

  // What a completion brings back: whose it is, and the number of a send without a copy.
  static constexpr uint64_t kNobody = UINT64_MAX;
  static uint64_t tag(int slot, int direction, uint32_t number) {
    return uint64_t{number} << 32 | at(slot) << 1 | at(direction);
  }

  ssize_t move(int slot, Direction direction, void* data, size_t bytes) {
    Piece& piece = of(slot).under_way[direction];
    if (!piece.started && !start(slot, direction, data, bytes)) return later();
    if (!piece.done) reap();
    if (!piece.done) return later();
    piece.started = false;
    if (piece.result >= 0) return piece.result;
    if (piece.refused()) {
      of(slot).copies = true;
      start(slot, direction, data, bytes);
      return later();
    }
    errno = -piece.result;
    return -1;
  }

  static ssize_t later() {
    errno = EAGAIN;
    return -1;
  }

  bool start(int slot, Direction direction, void* data, size_t bytes) {
    Socket& socket = of(slot);
    const bool lends = direction == kOut && bytes >= least_ && !socket.copies;
    if (lends && socket.sends->full()) return false;
    io_uring_sqe* entry = ring_.next();
    if (entry == nullptr) {
      submit();
      return false;
    }
    entry->opcode = lends ? IORING_OP_SEND_ZC : direction == kOut ? IORING_OP_SEND : IORING_OP_RECV;
    entry->fd = socket.fd;
    entry->addr = reinterpret_cast<uint64_t>(data);
    entry->len = static_cast<uint32_t>(std::min(bytes, kMostPiece));
    entry->msg_flags = MSG_NOSIGNAL | MSG_WAITALL;  // all of it, or an end
    if (lends) {
      entry->ioprio = IORING_SEND_ZC_REPORT_USAGE;
      const char* first = static_cast<const char*>(data);
      if (counted.registered != 0 && first >= registered_ &&
          first + entry->len <= registered_ + static_cast<size_t>(counted.registered)) {
        entry->ioprio |= IORING_RECVSEND_FIXED_BUF;
      }
      ++counted.lent;
    }
    entry->user_data = tag(slot, direction, lends ? socket.sends->issue() : 0);
    socket.under_way[direction] = Piece{.started = true, .lends = lends, .tag = entry->user_data};
    if (direction == kOut) socket.copies = false;
    if (eager_) submit();
    return true;
  }

  void reap() {
    io_uring_cqe one;
    while (ring_.take(one)) {
      if (one.user_data == kNobody) continue;
      const auto slot = static_cast<int>(static_cast<uint32_t>(one.user_data) >> 1);
      Socket& socket = of(slot);
      const auto number = static_cast<uint32_t>(one.user_data >> 32);
      if ((one.flags & IORING_CQE_F_NOTIF) != 0) {
        if ((static_cast<uint32_t>(one.res) & IORING_NOTIF_USAGE_ZC_COPIED) != 0) ++counted.copied;
        if (socket.sends) socket.sends->settle(number);
        continue;
      }
      Piece& piece = socket.under_way[one.user_data & 1];
      piece.done = true;
      piece.result = one.res;
      const bool more = (one.flags & IORING_CQE_F_MORE) != 0;
      if (piece.refused()) {
        ++counted.refused;
        --counted.lent;
        if (more) --counted.copied;  // as the second completion will say of it, because nothing was lent
      }
      // No second completion will come of some that fail.
      if (piece.lends && !more) socket.sends->settle(number);
    }
  }

  Ring ring_;
  size_t least_;
  bool eager_;
  std::vector<Socket> sockets_;
  const char* registered_ = nullptr;
};

}  // namespace

np_status make_uring(const np_context* context, std::unique_ptr<TcpPath>& path) {
  const np_value* options = context->options;
  const bool lends = static_cast<PathKind>(options[kPath].number) == PathKind::uring_zc;
  const bool sleeps = waits(options[kWait]) == Wait::block;
  const size_t least = lends ? static_cast<size_t>(options[kZerocopyMin].number) : SIZE_MAX;
  std::unique_ptr<Uring> made(new (std::nothrow) Uring(least, !sleeps));
  if (!made) return fd_io::fail(context, NP_NO_MEMORY, "tcp: no memory for path=%s", options[kPath].text);
  // A piece for each direction of each stream, and as many to cancel them.
  const auto streams = static_cast<unsigned>(fd_io::kMaxLanes * (context->nranks - 1));
  const unsigned entries = std::bit_ceil(std::clamp(4 * streams, 64U, 32768U));
  // Who looks at the ring without a system call needs the kernel to fill it by itself.
  const unsigned flags =
      sleeps ? IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG : 0;
  if (const int error = made->open(entries, flags); error != 0) {
    const char* hint = error == EPERM    ? "; see kernel.io_uring_disabled, or the filter of a container"
                       : error == ENOSYS ? "; it needs Linux 6.2"
                       : error == EINVAL ? "; it needs Linux 6.2"
                       : error == ENOMEM ? "; is the limit of locked memory (ulimit -l) too low?"
                                         : "";
    return fd_io::fail(context, NP_UNAVAILABLE, "tcp: path=%s: io_uring: %s%s", options[kPath].text,
                       std::strerror(error), hint);
  }
  path = std::move(made);
  return NP_OK;
}

}  // namespace netpipe::tcp

#else

namespace netpipe::tcp {

np_status make_uring(const np_context* context, std::unique_ptr<TcpPath>&) {
  return fd_io::fail(
      context, NP_UNAVAILABLE,
      "tcp: path=%s: netpipe was built with kernel headers older than Linux 6.2, which lack it; build it "
      "again with newer ones (linux-libc-dev)",
      context->options[kPath].text);
}

}  // namespace netpipe::tcp

#endif
