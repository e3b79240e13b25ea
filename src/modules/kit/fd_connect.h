// SPDX-License-Identifier: Apache-2.0
// How two ranks come to share sockets: rank 1 listens, rank 0 connects and proves itself. What tcp, unix and pipe
// share.
//
// The proof is 32 random bytes that rank 0 put in its address: only who was told on the authenticated control channel
// knows them, and they differ between endpoints that are open at once. Whoever says something else, or nothing, is
// dropped, and listening goes on.
#pragma once

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "kit/fd_io.h"

namespace netpipe::fd_io {

// What the connecting rank says first on each connection; bytes only, so that it is the same on every machine.
struct Hello {
  std::array<uint8_t, 32> proof{};
  std::array<uint8_t, 4>
      generation{};  // counts reset(), little-endian: a late connection of an earlier one is a stranger
  uint8_t lane = 0;
};
static_assert(sizeof(Hello) == 37);

constexpr uint8_t kWelcome = 0x4e;                      // what a connection that was taken answers
constexpr int64_t kStrangerPatienceNs = 1'000'000'000;  // how long a connection may take to say its hello

inline bool make_proof(Hello& hello) {
  return getrandom(hello.proof.data(), hello.proof.size(), 0) == static_cast<ssize_t>(hello.proof.size());
}

inline void set_generation(Hello& hello, uint32_t generation) {
  for (size_t i = 0; i < hello.generation.size(); ++i)
    hello.generation[i] = static_cast<uint8_t>(generation >> (8 * i));
}

// Takes the same time wherever the difference is.
inline bool same_bytes(const uint8_t* a, const uint8_t* b, size_t bytes) {
  unsigned difference = 0;
  for (size_t i = 0; i < bytes; ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

// Waits for the descriptors. NP_OK: poll() said something about one of them, or a slice is over (look at your clocks).
inline np_status poll_slice(const np_context* context, pollfd* wanted, nfds_t count, int64_t deadline_ns,
                            const char* what) {
  if (*context->abort != 0) return fail(context, NP_ABORTED, "%s was given up", what);
  const int64_t left_ns = deadline_ns - now_ns();
  if (left_ns <= 0) {
    return fail(context, NP_FAILED, "%s took longer than %.1f s; is rank %d alive, or is a firewall in between?", what,
                static_cast<double>(context->timeout_ns) * 1e-9, 1 - context->rank);
  }
  const int slice_ms = static_cast<int>(std::min<int64_t>(left_ns / 1'000'000 + 1, kAbortSliceMs));
  if (::poll(wanted, count, slice_ms) < 0 && errno != EINTR) {
    return fail(context, NP_FAILED, "%s: poll: %s", what, std::strerror(errno));
  }
  return NP_OK;
}

// Rank 1: accepts until each of `count` lanes has a connection that proved itself. taken[lane] owns them, in blocking
// mode.
class Doorman {
 public:
  // same_user: turn other users' processes away (AF_UNIX, where the kernel says who connects).
  Doorman(const np_context* context, const Hello& hello, bool same_user, const char* what)
      : context_(context), hello_(hello), same_user_(same_user), what_(what) {}

  np_status admit(int listener, int count, Fd* taken, int64_t deadline_ns) {
    int missing = count;
    while (missing > 0) {
      pollfd wanted[kGuests + 1];
      wanted[0] = {listener, POLLIN, 0};
      for (int i = 0; i < kGuests; ++i) wanted[i + 1] = {guests_[i].fd.get(), POLLIN, 0};  // poll skips those below 0
      if (const np_status status = poll_slice(context_, wanted, kGuests + 1, deadline_ns, what_); status != NP_OK) {
        return status;
      }
      for (int i = 0; i < kGuests; ++i) {
        if (wanted[i + 1].revents != 0 && listen_to(guests_[i])) missing -= take(guests_[i], count, taken) ? 1 : 0;
        if (guests_[i].fd && now_ns() - guests_[i].since_ns > kStrangerPatienceNs) guests_[i] = Guest{};
      }
      if (wanted[0].revents != 0) {
        if (const np_status status = let_in(listener); status != NP_OK) return status;
      }
    }
    return NP_OK;
  }

 private:
  static constexpr int kGuests = 2 * kMaxLanes;
  struct Guest {
    Fd fd;
    int64_t since_ns = 0;
    size_t heard = 0;
    Hello said;
  };

  np_status let_in(int listener) {
    Fd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == EBADF || errno == EINVAL) {
        return fail(context_, NP_FAILED, "%s: accept: %s", what_, std::strerror(errno));
      }
      return NP_OK;  // a connection that was gone before it was taken
    }
    if (same_user_) {
      ucred peer{};
      socklen_t bytes = sizeof peer;
      if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.uid != geteuid()) return NP_OK;
    }
    Guest* place = &guests_[0];  // a free one, or that of the one who has been silent longest
    for (Guest& guest : guests_) {
      if (!guest.fd || (place->fd && guest.since_ns < place->since_ns)) place = &guest;
      if (!place->fd) break;
    }
    *place = Guest{std::move(fd), now_ns(), 0, {}};
    return NP_OK;
  }

  // True when it has said all that a hello holds.
  static bool listen_to(Guest& guest) {
    auto* room = reinterpret_cast<uint8_t*>(&guest.said);
    const ssize_t got = ::recv(guest.fd.get(), room + guest.heard, sizeof(Hello) - guest.heard, MSG_DONTWAIT);
    if (got > 0) guest.heard += static_cast<size_t>(got);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) guest = Guest{};
    return guest.heard == sizeof(Hello);
  }

  bool take(Guest& guest, int count, Fd* taken) {
    Fd fd = std::move(guest.fd);
    const Hello said = guest.said;
    guest = Guest{};
    const bool proven = same_bytes(said.proof.data(), hello_.proof.data(), said.proof.size());
    if (!proven || said.generation != hello_.generation || said.lane >= count || taken[said.lane]) return false;
    if (!set_blocking(fd.get(), true)) return false;
    if (::send(fd.get(), &kWelcome, 1, MSG_NOSIGNAL) != 1) return false;
    taken[said.lane] = std::move(fd);
    return true;
  }

  const np_context* context_;
  const Hello& hello_;
  bool same_user_;
  const char* what_;  // "accepting rank 0 at 127.0.0.1 port 40001"
  std::array<Guest, kGuests> guests_{};
};

// Rank 0: connects and says hello. The socket ends in blocking mode; the answer is read by await_welcome, so that all
// lanes are under way before the first is waited for.
inline np_status connect_and_say(const np_context* context, int fd, const sockaddr* to, socklen_t to_bytes,
                                 const Hello& hello, int64_t deadline_ns, const char* what) {
  if (!set_blocking(fd, false)) return fail(context, NP_FAILED, "%s: %s", what, std::strerror(errno));
  if (::connect(fd, to, to_bytes) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return fail(context, NP_FAILED, "%s: %s", what, std::strerror(errno));
    pollfd wanted = {fd, POLLOUT, 0};
    while (wanted.revents == 0) {
      if (const np_status status = poll_slice(context, &wanted, 1, deadline_ns, what); status != NP_OK) return status;
    }
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0) return fail(context, NP_FAILED, "%s: %s", what, std::strerror(error));
  }
  if (!set_blocking(fd, true)) return fail(context, NP_FAILED, "%s: %s", what, std::strerror(errno));
  // The first bytes of a connection always fit its buffer.
  if (::send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof hello)) {
    return fail(context, NP_PEER_LOST, "%s: rank %d closed the connection: %s", what, 1 - context->rank,
                std::strerror(errno));
  }
  return NP_OK;
}

inline np_status await_welcome(const np_context* context, int fd, int64_t deadline_ns, const char* what) {
  for (;;) {
    pollfd wanted = {fd, POLLIN, 0};
    if (const np_status status = poll_slice(context, &wanted, 1, deadline_ns, what); status != NP_OK) return status;
    if (wanted.revents == 0) continue;
    uint8_t answer = 0;
    const ssize_t got = ::recv(fd, &answer, 1, MSG_DONTWAIT);
    if (got == 1 && answer == kWelcome) return NP_OK;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    return fail(context, NP_PEER_LOST, "%s: rank %d refused the connection or has gone; its own error says why", what,
                1 - context->rank);
  }
}

// Two processes of one host meet at a name in the abstract AF_UNIX namespace that the kernel chose: no file, nothing to
// clean up, no clash between endpoints. Other users can see the name and get nowhere.
class LocalMeeting {
 public:
  // kind: SOCK_STREAM or SOCK_SEQPACKET.
  np_status open(const np_context* context, int kind) {
    context_ = context;
    kind_ = kind;
    if (context->rank == 0) {
      return make_proof(hello_) ? NP_OK : fail(context, NP_FAILED, "getrandom: %s", std::strerror(errno));
    }
    listener_ = Fd(::socket(AF_UNIX, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un any{};
    any.sun_family = AF_UNIX;  // and no path: unix(7), autobind
    if (!listener_ || ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&any), sizeof any.sun_family) != 0 ||
        ::listen(listener_.get(), kMaxLanes) != 0) {
      return fail(context, NP_FAILED, "cannot create a local socket to listen on: %s", std::strerror(errno));
    }
    return NP_OK;
  }

  np_status address(void* data, size_t* bytes) const {
    sockaddr_un name{};
    socklen_t name_bytes = sizeof name;
    const void* source = hello_.proof.data();
    size_t wanted = hello_.proof.size();
    if (context_->rank == 1) {
      if (getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&name), &name_bytes) != 0) {
        return fail(context_, NP_FAILED, "getsockname: %s", std::strerror(errno));
      }
      source = name.sun_path;
      wanted = name_bytes - offsetof(sockaddr_un, sun_path);
    }
    if (*bytes < wanted) return fail(context_, NP_FAILED, "no room for an address of %zu bytes", wanted);
    std::memcpy(data, source, wanted);
    *bytes = wanted;
    return NP_OK;
  }

  // joined owns the connection, in blocking mode. Nothing listens afterwards.
  np_status connect(const void* const* addresses, const size_t* bytes, Fd& joined) {
    const int64_t deadline_ns = now_ns() + context_->timeout_ns;
    if (context_->rank == 1) {
      const char* what = "waiting for rank 0 at a local socket";
      if (bytes[0] != hello_.proof.size()) return fail(context_, NP_FAILED, "%s: its address is malformed", what);
      std::memcpy(hello_.proof.data(), addresses[0], hello_.proof.size());
      Doorman doorman(context_, hello_, true, what);
      const np_status status = doorman.admit(listener_.get(), 1, &joined, deadline_ns);
      listener_.reset();
      return status;
    }
    const char* what = "connecting to the local socket of rank 1";
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    if (bytes[1] > sizeof name.sun_path) return fail(context_, NP_FAILED, "%s: its address is malformed", what);
    std::memcpy(name.sun_path, addresses[1], bytes[1]);
    Fd fd(::socket(AF_UNIX, kind_ | SOCK_CLOEXEC, 0));
    if (!fd) return fail(context_, NP_FAILED, "%s: %s", what, std::strerror(errno));
    np_status status =
        connect_and_say(context_, fd.get(), reinterpret_cast<sockaddr*>(&name),
                        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + bytes[1]), hello_, deadline_ns, what);
    if (status == NP_OK) status = await_welcome(context_, fd.get(), deadline_ns, what);
    if (status == NP_OK) joined = std::move(fd);
    return status;
  }

 private:
  const np_context* context_ = nullptr;
  int kind_ = 0;
  Fd listener_;
  Hello hello_;
};

// A module whose endpoint has a `meeting`, for sockets of `kind`, and a constructor that takes its context.
template <typename Endpoint>
np_module local_module(np_module m) {
  m = wire_module<Endpoint>(m);
  m.open = [](const np_context* context, Endpoint** endpoint) {
    std::unique_ptr<Endpoint> made(new (std::nothrow) Endpoint(context));
    if (!made) return fail(context, NP_NO_MEMORY, "no memory for an endpoint");
    if (const np_status status = made->meeting.open(context, made->kind); status != NP_OK) return status;
    *endpoint = made.release();
    return NP_OK;
  };
  m.address = [](Endpoint* e, void* data, size_t* bytes) { return e->meeting.address(data, bytes); };
  return m;
}

}  // namespace netpipe::fd_io
