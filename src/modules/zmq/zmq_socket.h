// SPDX-License-Identifier: Apache-2.0
// The ZeroMQ sockets that join two ranks, as kit/services/queued.h wants them.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kit/services/queued.h"
#include "netpipe/module.h"

namespace netpipe::zmq {

using fd_io::fail;
using fd_io::Fd;

// Owns a socket; nothing that still waits in it is sent when it goes.
struct CloseSocket {
  void operator()(void* socket) const { zmq_close(socket); }
};
using Owned = std::unique_ptr<void, CloseSocket>;

// Messages that the library reads from their own places (zmq_msg_init_data), counted.
struct Held {
  std::atomic<uint64_t> released{0};
  std::atomic<bool> sleeping{false};
  Fd event{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  // Called by a thread of the library.
  static void release(void*, void* held) {
    auto* const self = static_cast<Held*>(held);
    self->released.fetch_add(1);
    if (!self->sleeping.load()) return;
    const uint64_t one = 1;
    (void)!::write(self->event.get(), &one, sizeof one);
  }
};

// What is read from a socket's monitor: the descriptor of its connection, and whether that has ended.
class Watch {
 public:
  Watch() = default;
  // name: of the monitor, unique in the process. False: the library refused.
  bool open(void* zmq, void* socket, const std::string& name) {
    constexpr int kEvents = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED;
    if (zmq_socket_monitor(socket, name.c_str(), kEvents) != 0) return false;
    monitor_.reset(zmq_socket(zmq, ZMQ_PAIR));
    const int none = 0;
    return monitor_ && zmq_setsockopt(monitor_.get(), ZMQ_LINGER, &none, sizeof none) == 0 &&
           zmq_connect(monitor_.get(), name.c_str()) == 0;
  }
  void look() {
    for (std::array<char, 6> event{};
         monitor_ && zmq_recv(monitor_.get(), event.data(), event.size(), ZMQ_DONTWAIT) == 6;) {
      uint16_t what = 0;
      int32_t fd = -1;
      std::memcpy(&what, event.data(), sizeof what);
      std::memcpy(&fd, event.data() + sizeof what, sizeof fd);
      std::array<char, 256> address{};
      (void)zmq_recv(monitor_.get(), address.data(), address.size(), ZMQ_DONTWAIT);
      if (what == ZMQ_EVENT_DISCONNECTED) {
        lost_ = lost_ || (joined_ && fd == fd_);
      } else if (seen_++ == 0) {
        fd_ = fd;
      }
    }
  }
  bool connected() {
    look();
    return seen_ > 0;
  }
  void joined() {
    joined_ = true;
    if (seen_ != 1) fd_ = -1;  // strangers were here, so whose it is nobody knows
  }
  [[nodiscard]] bool lost() const { return lost_; }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  Owned monitor_;
  int fd_ = -1, seen_ = 0;
  bool joined_ = false, lost_ = false;
};

// One connection, or with PUSH and PULL two.
struct Link {
  Owned first, second;  // second: of pushpull, what receives
  Watch watch;          // of the first
  [[nodiscard]] void* out() const { return first.get(); }
  [[nodiscard]] void* in() const { return second ? second.get() : first.get(); }
};

class Socket {
 public:
  static constexpr char kAlternates[] = "pattern=reqrep";
  static constexpr bool kHolds = true;

  struct Sleeper {
    std::vector<zmq_pollitem_t> items;
    Held* held = nullptr;
    bool now = false;
    void clear() {
      items.clear();
      held = nullptr;
      now = false;
    }
    void sleep(int ms) {
      if (!now) (void)zmq_poll(items.data(), static_cast<int>(items.size()), ms);
      if (held == nullptr) return;
      held->sleeping.store(false);
      uint64_t drained = 0;
      (void)!::read(held->event.get(), &drained, sizeof drained);
    }
  };

  Socket(const np_context* context, int peer, bool zero_copy)
      : context_(context), peer_(peer), held_(zero_copy ? new Held : nullptr) {}

  void use(Link* link) {
    link_ = link;
    in_ = link->in();
    out_ = link->out();
  }

  np_status send(const void* data, size_t bytes, bool sleep) {
    if (held_) [[unlikely]]
      return lend(data, bytes, sleep);
    if (full_ && still_full(sleep)) [[unlikely]]
      return NP_PENDING;
    if (zmq_send(out_, data, bytes, sleep ? 0 : ZMQ_DONTWAIT) >= 0) [[likely]]
      return NP_OK;
    full_ = true;
    return refused("sending", sleep);
  }

  np_status recv(void* data, size_t bytes, bool sleep) {
    const int got = zmq_recv(in_, data, bytes, sleep ? 0 : ZMQ_DONTWAIT);
    if (got >= 0) [[likely]] {
      if (static_cast<size_t>(got) == std::min<size_t>(bytes, INT32_MAX)) [[likely]]
        return NP_OK;
      return fail(context_, NP_FAILED, "zmq: a message of %d bytes from rank %d instead of %zu", got, peer_, bytes);
    }
    return refused("receiving", sleep);
  }

  np_status take(void* data, size_t room, size_t& bytes) {
    const int got = zmq_recv(in_, data, room, ZMQ_DONTWAIT);
    if (got < 0) return refused("receiving", false);
    bytes = static_cast<size_t>(got);
    return NP_OK;
  }

  [[nodiscard]] uint64_t handed() const { return handed_; }
  bool released(uint64_t ticket) {
    if (!held_) return true;
    seen_ = held_->released.load();
    return seen_ >= ticket;
  }

  void add_wanted(Sleeper& sleeper, bool in, bool out, bool release) {
    if (in && in_ == out_) {
      sleeper.items.push_back({in_, 0, static_cast<short>(ZMQ_POLLIN | (out ? ZMQ_POLLOUT : 0)), 0});
    } else {
      if (in) sleeper.items.push_back({in_, 0, ZMQ_POLLIN, 0});
      if (out) sleeper.items.push_back({out_, 0, ZMQ_POLLOUT, 0});
    }
    if (!release) return;
    held_->sleeping.store(true);
    sleeper.held = held_.get();
    sleeper.now = held_->released.load() != seen_;
    sleeper.items.push_back({nullptr, held_->event.get(), ZMQ_POLLIN, 0});
  }

  [[nodiscard]] Link& link() { return *link_; }

 private:
  // zmq_send copies the message before it finds that there is no room: whoever asks again and again asks for room
  // first.
  [[gnu::cold]] bool still_full(bool sleep) {
    int events = 0;
    size_t bytes = sizeof events;
    full_ = !sleep && zmq_getsockopt(out_, ZMQ_EVENTS, &events, &bytes) == 0 && (events & ZMQ_POLLOUT) == 0;
    return full_;
  }

  np_status lend(const void* data, size_t bytes, bool sleep) {
    if (full_ && still_full(sleep)) return NP_PENDING;
    zmq_msg_t message;
    void* const place = const_cast<void*>(data);  // NOLINT(cppcoreguidelines-pro-type-const-cast): only read
    if (zmq_msg_init_data(&message, place, bytes, Held::release, held_.get()) != 0) {
      return fail(context_, NP_NO_MEMORY, "zmq: zmq_msg_init_data: %s", zmq_strerror(zmq_errno()));
    }
    if (zmq_msg_send(&message, out_, sleep ? 0 : ZMQ_DONTWAIT) >= 0) {
      ++handed_;
      return NP_OK;
    }
    full_ = true;
    const np_status status = refused("sending", sleep);
    zmq_msg_close(&message);  // which releases what was never handed over
    held_->released.fetch_sub(1);
    return status;
  }

  [[gnu::cold]] np_status refused(const char* what, bool slept) {
    const int error = zmq_errno();
    if (error == EAGAIN || error == EINTR) {
      if (!slept) return NP_PENDING;
      link_->watch.look();
      if (!link_->watch.lost()) return NP_PENDING;
      return fail(context_, NP_PEER_LOST, "zmq: rank %d has gone (its connection ended); its own error says why",
                  peer_);
    }
    return fail(context_, NP_FAILED, "zmq: %s failed on rank %d: %s", what, context_->rank, zmq_strerror(error));
  }

  const np_context* context_;
  int peer_;
  std::unique_ptr<Held> held_;
  void *in_ = nullptr, *out_ = nullptr;
  Link* link_ = nullptr;
  bool full_ = false;
  uint64_t handed_ = 0, seen_ = 0;
};

}  // namespace netpipe::zmq
