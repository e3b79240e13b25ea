// SPDX-License-Identifier: Apache-2.0
// The nng sockets that join two ranks, as kit/services/queued.h wants them.
#pragma once

#include <nng/nng.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "kit/services/queued.h"
#include "netpipe/module.h"

namespace netpipe::nng {

using fd_io::fail;

// Who has come in at a socket: threads of the library tell.
class Guests {
 public:
  struct Guest {
    nng_pipe pipe;
    int64_t since_ns;
  };

  explicit Guests(bool for_one) : for_one_(for_one) {}

  // A copy: guests come and go.
  std::vector<Guest> all() {
    const std::lock_guard guard(lock_);
    return guests_;
  }
  // Only this one stays. False: it has gone already, and everybody may come as before.
  bool keep(nng_pipe pipe) {
    only_.store(nng_pipe_id(pipe));
    const auto is_it = [&](const Guest& guest) { return nng_pipe_id(guest.pipe) == nng_pipe_id(pipe); };
    for (const Guest& guest : all()) {
      if (!is_it(guest)) nng_pipe_close(guest.pipe);
    }
    const std::vector<Guest> left = all();
    if (std::any_of(left.begin(), left.end(), is_it)) return true;
    only_.store(-1);
    lost_.store(false);
    return false;
  }
  [[nodiscard]] bool lost() const { return lost_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool keeps(nng_pipe pipe) const { return nng_pipe_id(pipe) == only_.load(std::memory_order_relaxed); }

  static void told(nng_pipe pipe, nng_pipe_ev what, void* guests) { static_cast<Guests*>(guests)->note(pipe, what); }

 private:
  void note(nng_pipe pipe, nng_pipe_ev what) {
    const int id = nng_pipe_id(pipe), only = only_.load();
    if (what == NNG_PIPE_EV_ADD_PRE) {
      // Not later: see ~Door. A stranger's first message comes at once, and one that is closed here reads none.
      if (only >= 0 && only != id) nng_pipe_close(pipe);
      if (only >= 0 || !for_one_) return;
      for (const Guest& guest : all()) {
        if (queued::now_ns() - guest.since_ns > kSilentNs) nng_pipe_close(guest.pipe);
      }
      return;
    }
    const std::lock_guard guard(lock_);
    if (what == NNG_PIPE_EV_ADD_POST) {
      guests_.push_back({pipe, queued::now_ns()});
      if (const int stays = only_.load(); stays >= 0 && stays != id) nng_pipe_close(pipe);  // since it came
      return;
    }
    std::erase_if(guests_, [&](const Guest& guest) { return nng_pipe_id(guest.pipe) == id; });
    if (id == only) lost_.store(true);
  }

  static constexpr int64_t kSilentNs = 100'000'000;  // the bytes of a peer come at once

  const bool for_one_;
  std::mutex lock_;
  std::vector<Guest> guests_;
  std::atomic<int> only_{-1};
  std::atomic<bool> lost_{false};
};

// A socket and who has come in. Until it is shut, everybody may; then one stays, and when that one goes the peer is
// lost. Where there is room for one at a time (pair), whoever has been silent for a while makes way for the next: a
// stranger that says nothing and comes again would keep the peer out for seconds.
class Door {
 public:
  using Guest = Guests::Guest;

  Door(nng_socket opened, bool for_one) : socket(opened), guests_(std::make_shared<Guests>(for_one)) {
    nng_pipe_notify(socket, NNG_PIPE_EV_ADD_PRE, Guests::told, guests_.get());
    nng_pipe_notify(socket, NNG_PIPE_EV_ADD_POST, Guests::told, guests_.get());
    nng_pipe_notify(socket, NNG_PIPE_EV_REM_POST, Guests::told, guests_.get());
  }
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;
  // libnng 1.5.2 waits for ever for a connection that was closed while a message was being read from it: where it stops
  // a read between the length of a message and its bytes, nobody is told that the read has ended. Then a thread is left
  // behind that waits, and what the library's threads use.
  ~Door() {
    const auto closed = std::make_shared<std::promise<void>>();
    const auto close = [closed, guests = guests_, socket = socket] {
      nng_close(socket);
      closed->set_value();
    };
    try {
      std::thread(close).detach();
      closed->get_future().wait_for(kClosing);
    } catch (const std::system_error&) {  // no thread can be started
      close();
    }
  }

  std::vector<Guest> guests() { return guests_->all(); }
  // Only this one stays. False: it has gone already, and the door is open as before.
  bool shut(nng_pipe pipe) { return guests_->keep(pipe); }
  [[nodiscard]] bool lost() const { return guests_->lost(); }
  // Whether a message is from the one that stays. A stranger is in for a moment before it is turned out.
  [[nodiscard]] bool is_from_peer(nng_msg* message) const { return guests_->keeps(nng_msg_get_pipe(message)); }

  const nng_socket socket;

 private:
  static constexpr std::chrono::seconds kClosing{2};  // it takes some milliseconds

  const std::shared_ptr<Guests> guests_;
};

// Of pair, req and rep one socket does both directions.
struct Link {
  std::unique_ptr<Door> first, second;  // second: of pushpull, what receives
  [[nodiscard]] Door& out() const { return *first; }
  [[nodiscard]] Door& in() const { return second ? *second : *first; }
};

class Socket {
 public:
  static constexpr char kAlternates[] = "pattern=reqrep";
  static constexpr bool kHolds = false;

  struct Sleeper {
    std::vector<pollfd> items;
    void clear() { items.clear(); }
    void sleep(int ms) { (void)::poll(items.data(), items.size(), ms); }
  };

  Socket(const np_context* context, int peer) : context_(context), peer_(peer) {}
  Socket(Socket&& other) noexcept = default;
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (waiting_ != nullptr) nng_msg_free(waiting_);
  }

  // awaits_replies: what is received are replies to requests.
  np_status use(const Link* link, bool awaits_replies) {
    link_ = link;
    in_ = link->in().socket;
    out_ = link->out().socket;
    if (!awaits_replies) return NP_OK;
    const int error = nng_socket_get_int(in_, NNG_OPT_RECVFD, &reply_fd_);
    return error == 0 ? NP_OK : broken("waiting", error);
  }

  np_status send(const void* data, size_t bytes, bool sleep) {
    nng_msg* message = waiting_;  // of the try before, which found no room
    if (message == nullptr) [[likely]] {
      if (const int error = nng_msg_alloc(&message, bytes); error != 0) return broken("sending", error);
      if (bytes != 0) std::memcpy(nng_msg_body(message), data, bytes);
    }
    const int error = nng_sendmsg(out_, message, sleep ? 0 : NNG_FLAG_NONBLOCK);
    waiting_ = error == 0 ? nullptr : message;
    return error == 0 ? NP_OK : refused("sending", error);
  }

  np_status recv(void* data, size_t bytes, bool sleep) {
    nng_msg* message = nullptr;
    int error = nng_recvmsg(in_, &message, sleep && reply_fd_ < 0 ? 0 : NNG_FLAG_NONBLOCK);
    if (error == NNG_EAGAIN && sleep) {
      // A receive of a request's reply that times out would give the request up (nng_req(7)), so no receive waits.
      pollfd wanted = {reply_fd_, POLLIN, 0};
      (void)::poll(&wanted, 1, queued::kSliceMs);
      error = nng_recvmsg(in_, &message, NNG_FLAG_NONBLOCK);
    }
    if (error != 0) [[unlikely]]
      return refused("receiving", error);
    if (!link_->in().is_from_peer(message)) [[unlikely]] {
      nng_msg_free(message);
      return NP_PENDING;
    }
    const size_t got = nng_msg_len(message);
    if (std::min(got, bytes) != 0) std::memcpy(data, nng_msg_body(message), std::min(got, bytes));
    nng_msg_free(message);
    if (got == bytes) [[likely]]
      return NP_OK;
    return fail(context_, NP_FAILED, "nng: a message of %zu bytes from rank %d instead of %zu", got, peer_, bytes);
  }

  np_status take(void* data, size_t room, size_t& bytes) {
    nng_msg* message = nullptr;
    if (const int error = nng_recvmsg(in_, &message, NNG_FLAG_NONBLOCK); error != 0) return refused("receiving", error);
    if (!link_->in().is_from_peer(message)) {
      nng_msg_free(message);
      return NP_PENDING;
    }
    bytes = nng_msg_len(message);
    if (bytes != 0) std::memcpy(data, nng_msg_body(message), std::min(bytes, room));
    nng_msg_free(message);
    return NP_OK;
  }

  [[nodiscard]] static uint64_t handed() { return 0; }
  [[nodiscard]] static bool released(uint64_t) { return true; }

  void add_wanted(Sleeper& sleeper, bool in, bool out, bool) const {
    int fd = -1;
    if (in && nng_socket_get_int(in_, NNG_OPT_RECVFD, &fd) == 0) sleeper.items.push_back({fd, POLLIN, 0});
    if (out && nng_socket_get_int(out_, NNG_OPT_SENDFD, &fd) == 0) sleeper.items.push_back({fd, POLLIN, 0});
  }

 private:
  [[gnu::cold]] np_status refused(const char* what, int error) {
    // What a request says whose connection ended.
    if (error == NNG_ECONNRESET) return gone();
    if (error != NNG_EAGAIN && error != NNG_ETIMEDOUT && error != NNG_EINTR) return broken(what, error);
    if (!link_->in().lost() && !link_->out().lost()) return NP_PENDING;
    // What came before the end can still be received.
    if (what[0] == 'r' && !gone_) {
      gone_ = true;
      return NP_PENDING;
    }
    return gone();
  }
  [[gnu::cold]] np_status gone() const {
    return fail(context_, NP_PEER_LOST, "nng: rank %d has gone (its connection ended); its own error says why", peer_);
  }
  [[gnu::cold]] np_status broken(const char* what, int error) const {
    return fail(context_, error == NNG_ENOMEM ? NP_NO_MEMORY : NP_FAILED, "nng: %s failed on rank %d: %s", what,
                context_->rank, nng_strerror(error));
  }

  const np_context* context_;
  int peer_;
  const Link* link_ = nullptr;
  nng_socket in_{}, out_{};
  nng_msg* waiting_ = nullptr;
  int reply_fd_ = -1;
  bool gone_ = false;
};

}  // namespace netpipe::nng
