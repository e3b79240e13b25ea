// SPDX-License-Identifier: Apache-2.0
// How ranks come to share sockets: of two ranks the higher one listens, and the lower one connects and proves itself.
// What tcp, unix and pipe share.
//
// The proof is 32 random bytes that the connecting rank put in its address: only who was told on the authenticated
// control channel knows them, and they differ between endpoints that are open at once. Whoever says something else, or
// nothing, is dropped, and listening goes on.
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
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kit/streams/fd_io.h"

namespace netpipe::fd_io {

using Proof = std::array<uint8_t, 32>;

// A number that is the same on every machine: little-endian.
struct Number {
  std::array<uint8_t, 4> bytes{};
  Number() = default;
  explicit Number(uint32_t value) {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
  }
  [[nodiscard]] uint32_t value() const {
    uint32_t value = 0;
    for (size_t i = 0; i < bytes.size(); ++i) value |= uint32_t{bytes[i]} << (8 * i);
    return value;
  }
};

// What the connecting rank says first on each connection; bytes only, so that it is the same on every machine.
struct Hello {
  Proof proof{};
  Number generation;  // counts reset(): a late connection of an earlier one is a stranger
  Number rank;        // who connects
  uint8_t lane = 0;
};
static_assert(sizeof(Hello) == 41);

constexpr uint8_t kWelcome = 0x4e;                      // what a connection that was taken answers
constexpr int64_t kStrangerPatienceNs = 1'000'000'000;  // how long a connection may take to say its hello
constexpr int kBacklog = 4096;  // AF_UNIX refuses at once whom it has no room for; the kernel takes no more than it can

inline bool make_proof(Proof& proof) {
  return getrandom(proof.data(), proof.size(), 0) == static_cast<ssize_t>(proof.size());
}

// Who listens and who connects.
inline bool connects(const np_context* context) { return context->rank < context->nranks - 1; }
inline bool listens(const np_context* context) { return context->rank > 0; }

// An address is the proof of a rank that connects, and behind it where a rank listens (of one that does not, nothing,
// or what else the others are to know). NP_OK: *bytes were written.
inline np_status write_address(const np_context* context, const Proof& proof, const void* place, size_t place_bytes,
                               void* data, size_t* bytes) {
  const size_t first = connects(context) ? proof.size() : 0, second = place_bytes;
  if (*bytes < first + second) return fail(context, NP_FAILED, "no room for an address of %zu bytes", first + second);
  std::memcpy(data, proof.data(), first);
  if (second != 0) std::memcpy(static_cast<char*>(data) + first, place, second);
  *bytes = first + second;
  return NP_OK;
}
struct Told {  // by one rank
  Proof proof{};
  const void* place = nullptr;
  size_t place_bytes = 0;
};
inline np_status read_address(const np_context* context, int peer, const void* data, size_t bytes, Told& told) {
  const size_t first = peer < context->nranks - 1 ? told.proof.size() : 0;
  if (bytes < first) {
    return fail(context, NP_FAILED, "the address of rank %d is malformed", peer);
  }
  std::memcpy(told.proof.data(), data, first);
  told.place = static_cast<const char*>(data) + first;
  told.place_bytes = bytes - first;
  return NP_OK;
}

// Takes the same time wherever the difference is.
inline bool same_bytes(const uint8_t* a, const uint8_t* b, size_t bytes) {
  unsigned difference = 0;
  for (size_t i = 0; i < bytes; ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

// Waits for the descriptors. NP_OK: poll() said something about one of them, or a slice is over (look at your clocks).
// peer: whom this rank waits for.
inline np_status poll_slice(const np_context* context, pollfd* wanted, nfds_t count, int64_t deadline_ns,
                            const char* what, int peer) {
  if (*context->abort != 0) return fail(context, NP_ABORTED, "%s was given up", what);
  const int64_t left_ns = deadline_ns - now_ns();
  if (left_ns <= 0) {
    return fail(context, NP_FAILED, "%s took longer than %.1f s; is rank %d alive, or is a firewall in between?", what,
                static_cast<double>(context->timeout_ns) * 1e-9, peer);
  }
  const int slice_ms = static_cast<int>(std::min<int64_t>(left_ns / 1'000'000 + 1, kAbortSliceMs));
  if (::poll(wanted, count, slice_ms) < 0 && errno != EINTR) {
    return fail(context, NP_FAILED, "%s: poll: %s", what, std::strerror(errno));
  }
  return NP_OK;
}

// Accepts until each rank below this one has a connection for each of so many lanes that proved itself. taken[rank *
// lanes + lane] owns them, in blocking mode.
class Doorman {
 public:
  // proofs: by rank. same_user: turn other users' processes away (AF_UNIX, where the kernel says who connects).
  Doorman(const np_context* context, const std::vector<Proof>& proofs, Number generation, bool same_user,
          const char* what)
      : context_(context), proofs_(proofs), generation_(generation), same_user_(same_user), what_(what) {}

  // listeners: lane i is taken from the one with the number i modulo how many there are.
  np_status admit(std::span<const Fd> listeners, int lanes, Fd* taken, int64_t deadline_ns) {
    const int expected = context_->rank * lanes;
    guests_.resize(std::max<size_t>(2 * kMaxLanes, 2 * static_cast<size_t>(expected)));
    const size_t doors = listeners.size();
    std::vector<pollfd> wanted(guests_.size() + doors);
    for (int missing = expected; missing > 0;) {
      for (size_t door = 0; door < doors; ++door) wanted[door] = {listeners[door].get(), POLLIN, 0};
      nfds_t last = 0;  // poll skips those below 0, but takes no more of them than the process may have open
      for (size_t i = 0; i < guests_.size(); ++i) {
        wanted[i + doors] = {guests_[i].fd.get(), POLLIN, 0};
        if (guests_[i].fd) last = i + 1;
      }
      const int peer = first_missing(lanes, taken) / lanes;
      if (const np_status status = poll_slice(context_, wanted.data(), last + doors, deadline_ns, what_, peer);
          status != NP_OK) {
        return status;
      }
      for (size_t i = 0; i < guests_.size(); ++i) {
        if (wanted[i + doors].revents != 0 && listen_to(guests_[i])) {
          missing -= take(guests_[i], lanes, doors, taken) ? 1 : 0;
        }
        if (guests_[i].fd && now_ns() - guests_[i].since_ns > kStrangerPatienceNs) guests_[i] = Guest{};
      }
      for (size_t door = 0; door < doors; ++door) {
        if (wanted[door].revents == 0) continue;
        if (const np_status status = let_in(listeners[door].get(), door); status != NP_OK) return status;
      }
    }
    return NP_OK;
  }

  // taken[] of the first connection that is missing.
  [[nodiscard]] int first_missing(int lanes, const Fd* taken) const {
    int at = 0;
    while (at < context_->rank * lanes && taken[at]) ++at;
    return at;
  }

 private:
  struct Guest {
    Fd fd;
    int64_t since_ns = 0;
    size_t door = 0;
    size_t heard = 0;
    Hello said;
  };

  np_status let_in(int listener, size_t door) {
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
    *place = Guest{std::move(fd), now_ns(), door, 0, {}};
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

  bool take(Guest& guest, int lanes, size_t doors, Fd* taken) {
    Fd fd = std::move(guest.fd);
    const Hello said = guest.said;
    const bool right_door = said.lane % doors == guest.door;
    guest = Guest{};
    const uint32_t rank = said.rank.value();
    const bool known = rank < static_cast<uint32_t>(context_->rank);
    const Proof& proof = proofs_[known ? rank : 0];
    const bool proven = same_bytes(said.proof.data(), proof.data(), proof.size());
    if (!proven || !known || said.generation.bytes != generation_.bytes || said.lane >= lanes) return false;
    if (!right_door) return false;
    Fd& place = taken[static_cast<int>(rank) * lanes + said.lane];
    if (place || !set_blocking(fd.get(), true)) return false;
    if (::send(fd.get(), &kWelcome, 1, MSG_NOSIGNAL) != 1) return false;
    place = std::move(fd);
    return true;
  }

  const np_context* context_;
  const std::vector<Proof>& proofs_;
  Number generation_;
  bool same_user_;
  const char* what_;  // "accepting rank 0 at 127.0.0.1 port 40001"
  std::vector<Guest> guests_;
};

// Connects and says hello. The socket ends in blocking mode; the answer is read by await_welcome, so that all lanes are
// under way before the first is waited for.
inline np_status connect_and_say(const np_context* context, int peer, int fd, const sockaddr* to, socklen_t to_bytes,
                                 const Hello& hello, int64_t deadline_ns, const char* what) {
  if (!set_blocking(fd, false)) return fail(context, NP_FAILED, "%s: %s", what, std::strerror(errno));
  if (::connect(fd, to, to_bytes) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return fail(context, NP_FAILED, "%s: %s", what, std::strerror(errno));
    pollfd wanted = {fd, POLLOUT, 0};
    while (wanted.revents == 0) {
      if (const np_status status = poll_slice(context, &wanted, 1, deadline_ns, what, peer); status != NP_OK)
        return status;
    }
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0) return fail(context, NP_FAILED, "%s: %s", what, std::strerror(error));
  }
  if (!set_blocking(fd, true)) return fail(context, NP_FAILED, "%s: %s", what, std::strerror(errno));
  // The first bytes of a connection always fit its buffer.
  if (::send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof hello)) {
    return fail(context, NP_PEER_LOST, "%s: rank %d closed the connection: %s", what, peer, std::strerror(errno));
  }
  return NP_OK;
}

inline np_status await_welcome(const np_context* context, int peer, int fd, int64_t deadline_ns, const char* what) {
  for (;;) {
    pollfd wanted = {fd, POLLIN, 0};
    if (const np_status status = poll_slice(context, &wanted, 1, deadline_ns, what, peer); status != NP_OK)
      return status;
    if (wanted.revents == 0) continue;
    uint8_t answer = 0;
    const ssize_t got = ::recv(fd, &answer, 1, MSG_DONTWAIT);
    if (got == 1 && answer == kWelcome) return NP_OK;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    return fail(context, NP_PEER_LOST, "%s: rank %d refused the connection or has gone; its own error says why", what,
                peer);
  }
}

// "rank 0", or "ranks 0 to 3": those that connect to this one.
inline std::string below(const np_context* context) {
  return context->rank == 1 ? "rank 0" : "ranks 0 to " + std::to_string(context->rank - 1);
}

// Collective: connections to every other rank, one for each lane; joined[rank * lanes + lane] owns them. A rank
// connects to all above it, then takes those below it in, and then waits for the answers of those above: the kernel
// takes a connection without its process, so no two ranks wait for each other. connect(peer, lane, fd): makes a socket,
// connects and says hello.
template <typename Connect>
np_status join_all(const np_context* context, int lanes, std::span<const Fd> listeners, Doorman& doorman,
                   const Connect& connect, Fd* joined, int64_t deadline_ns) {
  for (int peer = context->rank + 1; peer < context->nranks; ++peer) {
    for (int lane = 0; lane < lanes; ++lane) {
      if (const np_status s = connect(peer, lane, joined[peer * lanes + lane]); s != NP_OK) return s;
    }
  }
  if (listens(context)) {
    if (const np_status s = doorman.admit(listeners, lanes, joined, deadline_ns); s != NP_OK) return s;
  }
  const auto answer_of = [&](int peer, int lane) {
    const std::string what = "waiting for the answer of rank " + std::to_string(peer);
    return await_welcome(context, peer, joined[peer * lanes + lane].get(), deadline_ns, what.c_str());
  };
  for (int peer = context->rank + 1; peer < context->nranks; ++peer) {
    for (int lane = 0; lane < lanes; ++lane) {
      if (const np_status s = answer_of(peer, lane); s != NP_OK) return s;
    }
  }
  if (context->nranks == 2) return NP_OK;
  // Who is done may join anew at once, and would be a stranger to one that still waits for a third.
  for (int peer = 0; peer < context->nranks; ++peer) {
    if (peer != context->rank) (void)::send(joined[peer * lanes].get(), &kWelcome, 1, MSG_NOSIGNAL);
  }
  for (int peer = 0; peer < context->nranks; ++peer) {
    if (peer == context->rank) continue;
    if (const np_status s = answer_of(peer, 0); s != NP_OK) return s;
  }
  return NP_OK;
}

// Processes of one host meet at names in the abstract AF_UNIX namespace that the kernel chose: no file, nothing to
// clean up, no clash between endpoints. Other users can see the names and get nowhere.
class LocalMeeting {
 public:
  // kind: SOCK_STREAM or SOCK_SEQPACKET.
  np_status open(const np_context* context, int kind) {
    context_ = context;
    kind_ = kind;
    if (connects(context) && !make_proof(proof_)) {
      return fail(context, NP_FAILED, "getrandom: %s", std::strerror(errno));
    }
    if (!listens(context)) return NP_OK;
    listener_ = Fd(::socket(AF_UNIX, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un any{};
    any.sun_family = AF_UNIX;  // and no path: unix(7), autobind
    if (!listener_ || ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&any), sizeof any.sun_family) != 0 ||
        ::listen(listener_.get(), kBacklog) != 0) {
      return fail(context, NP_FAILED, "cannot create a local socket to listen on: %s", std::strerror(errno));
    }
    return NP_OK;
  }

  np_status address(void* data, size_t* bytes) const {
    sockaddr_un name{};
    socklen_t name_bytes = sizeof name;
    if (listener_ && getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&name), &name_bytes) != 0) {
      return fail(context_, NP_FAILED, "getsockname: %s", std::strerror(errno));
    }
    const size_t path_bytes = listener_ ? name_bytes - offsetof(sockaddr_un, sun_path) : 0;
    return write_address(context_, proof_, name.sun_path, path_bytes, data, bytes);
  }

  // joined: by rank; owns the connections, in blocking mode. Nothing listens afterwards.
  np_status connect(const void* const* addresses, const size_t* bytes, std::vector<Fd>& joined) {
    const int64_t deadline_ns = now_ns() + context_->timeout_ns;
    std::vector<Told> told(static_cast<size_t>(context_->nranks));
    std::vector<Proof> proofs(told.size());
    for (int peer = 0; peer < context_->nranks; ++peer) {
      const auto p = static_cast<size_t>(peer);
      if (const np_status s = read_address(context_, peer, addresses[p], bytes[p], told[p]); s != NP_OK) return s;
      proofs[p] = told[p].proof;
    }
    joined.clear();
    joined.resize(told.size());
    const std::string what = "waiting for " + below(context_) + " at a local socket";
    Doorman doorman(context_, proofs, Number(), true, what.c_str());
    const auto connect_to = [&](int peer, int, Fd& fd) {
      return connect_one(peer, told[static_cast<size_t>(peer)], deadline_ns, fd);
    };
    const np_status status =
        join_all(context_, 1, std::span(&listener_, 1), doorman, connect_to, joined.data(), deadline_ns);
    listener_.reset();
    return status;
  }

 private:
  np_status connect_one(int peer, const Told& told, int64_t deadline_ns, Fd& joined) const {
    const std::string what = "connecting to the local socket of rank " + std::to_string(peer);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    if (told.place_bytes > sizeof name.sun_path) {
      return fail(context_, NP_FAILED, "%s: its address is malformed", what.c_str());
    }
    std::memcpy(name.sun_path, told.place, told.place_bytes);
    joined = Fd(::socket(AF_UNIX, kind_ | SOCK_CLOEXEC, 0));
    if (!joined) return fail(context_, NP_FAILED, "%s: %s", what.c_str(), std::strerror(errno));
    Hello hello;
    hello.proof = proof_;
    hello.rank = Number(static_cast<uint32_t>(context_->rank));
    return connect_and_say(context_, peer, joined.get(), reinterpret_cast<sockaddr*>(&name),
                           static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + told.place_bytes), hello,
                           deadline_ns, what.c_str());
  }

  const np_context* context_ = nullptr;
  int kind_ = 0;
  Fd listener_;
  Proof proof_{};
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
