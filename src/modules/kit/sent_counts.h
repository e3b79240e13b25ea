// SPDX-License-Identifier: Apache-2.0
// Answers one question between the ranks of a layer that loses messages and has no way of its own to ask it: how many
// messages have left for you? So a message that its sender has not sent is no loss, and all that were lost at the end
// are found at once.
//
// The answer must come while the other rank computes, or waits for netpipe. So a thread sleeps at a UDP socket of its
// own, which is beside the layer, and runs only when somebody is asked. (udp has a clerk of its own kind: there the
// answer must come on the way of the messages.)
#pragma once

#include <endian.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "kit/own_descriptors.h"
#include "kit/streams/fd.h"
#include "kit/streams/ip_address.h"
#include "netpipe/module.h"

namespace netpipe::fd_io {

class SentCounts {
 public:
  // Where a rank is asked, as it travels to the others.
  struct Desk {
    Blob at{};
    uint8_t token[8] = {};  // who does not know it is a stranger
  };

  SentCounts() = default;
  SentCounts(const SentCounts&) = delete;
  SentCounts& operator=(const SentCounts&) = delete;
  ~SentCounts() { stop(); }

  // The socket, at the address of this rank.
  np_status open(const np_context* context, const char* layer) {
    context_ = context;
    layer_ = layer;
    socklen_t bytes = 0;
    if (const np_status s = own_address(context, layer, np_value{0, "auto"}, own_, bytes); s != NP_OK) return s;
    socket_ = Fd(::socket(own_.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket_ || ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&own_), bytes) != 0 ||
        ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&own_), &bytes) != 0) {
      return fail(context, NP_FAILED, "%s: a UDP socket at %s: %s", layer, context->local_address,
                  std::strerror(errno));
    }
    if (getrandom(&token_, sizeof token_, 0) != sizeof token_) {
      return fail(context, NP_FAILED, "%s: getrandom: %s", layer, std::strerror(errno));
    }
    peers_ = std::vector<Peer>(static_cast<size_t>(context->nranks));
    return NP_OK;
  }

  [[nodiscard]] Desk desk() const {
    Desk desk;
    desk.at = blob_of(own_);
    std::memcpy(desk.token, &token_, sizeof desk.token);
    return desk;
  }

  // Learns where a rank is asked.
  np_status meet(int rank, const Desk& desk) {
    Peer& peer = of(rank);
    std::memcpy(&peer.token, desk.token, sizeof peer.token);
    return read_blob(context_, layer_, rank, desk.at, own_, peer.at, peer.at_bytes);
  }

  // From here on this rank answers. Then it asks every other one until it has answered once, so that a firewall is
  // found before anything is measured.
  np_status start() {
    stop_ = Fd(::eventfd(0, EFD_CLOEXEC));
    if (!stop_) return fail(context_, NP_FAILED, "%s: eventfd: %s", layer_, std::strerror(errno));
    // Signals are the rank's: one of them must interrupt its system call.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    np_status status = NP_OK;
    try {
      thread_ = std::thread([this] { live(); });
    } catch (const std::system_error& error) {
      status = fail(context_, NP_FAILED, "%s: cannot start a thread: %s", layer_, error.what());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    const int64_t deadline_ns = now_ns() + context_->timeout_ns;
    for (int rank = 0; rank < context_->nranks && status == NP_OK; ++rank) {
      if (rank != context_->rank) status = greet(rank, deadline_ns);
    }
    return status;
  }

  void stop() {
    if (!thread_.joinable()) return;
    const uint64_t one = 1;
    while (::write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
    thread_.join();
  }

  // So many messages have left for this rank. A store to a cache line that nobody else touches unless asked.
  void left(int rank, uint32_t messages) { of(rank).departed.messages.store(messages, std::memory_order_release); }

  // How many messages from this rank are known to have left.
  [[nodiscard]] uint32_t told(int rank) { return of(rank).told.load(std::memory_order_acquire); }
  [[nodiscard]] uint64_t strangers() const { return strangers_.load(std::memory_order_relaxed); }

  // Asks, and does not wait. A question or an answer that is lost is asked for again.
  void ask(int rank) {
    Peer& peer = of(rank);
    uint64_t name = 0;
    if (getrandom(&name, sizeof name, GRND_NONBLOCK) != sizeof name) return;
    peer.asked.store(name, std::memory_order_release);
    const Note note{htole64(peer.token), htole64(name), htole32(own_rank()), htole32(kQuestion)};
    (void)::sendto(socket_.get(), &note, sizeof note, MSG_DONTWAIT | MSG_NOSIGNAL,
                   reinterpret_cast<const sockaddr*>(&peer.at), peer.at_bytes);
  }

  // Takes what has come, without waiting. Also for the rank itself while it waits: the thread may have no processor,
  // beside a rank that polls with a real-time priority.
  void serve() {
    constexpr int kMost = 64;  // of a flood, at once
    for (int i = 0; i < kMost; ++i) {
      Note note;
      sockaddr_storage from{};
      socklen_t from_bytes = sizeof from;
      const ssize_t got = ::recvfrom(socket_.get(), &note, sizeof note, MSG_DONTWAIT | MSG_TRUNC,
                                     reinterpret_cast<sockaddr*>(&from), &from_bytes);
      if (got < 0) {
        if (errno == EINTR || errno == ECONNREFUSED) continue;
        return;
      }
      const uint32_t rank = le32toh(note.rank);
      if (got != sizeof note || rank >= peers_.size() || le64toh(note.token) != token_) {
        strangers_.fetch_add(1, std::memory_order_relaxed);
        continue;
      }
      Peer& peer = peers_[rank];
      if (le32toh(note.kind) == kQuestion) {
        const uint32_t messages = peer.departed.messages.load(std::memory_order_acquire);
        const Note answer{htole64(peer.token), note.name, htole32(own_rank()), htole32(kAnswer), htole32(messages)};
        (void)::sendto(socket_.get(), &answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL,
                       reinterpret_cast<const sockaddr*>(&peer.at), peer.at_bytes);
      } else if (le64toh(note.name) == peer.asked.load(std::memory_order_acquire)) {
        peer.told.store(le32toh(note.messages), std::memory_order_release);
        peer.answered.store(true, std::memory_order_release);
      }
    }
  }

 private:
  // What travels, little-endian. name: of the question, which its answer repeats.
  struct Note {
    uint64_t token = 0, name = 0;
    uint32_t rank = 0, kind = 0, messages = 0, unused = 0;
  };
  static_assert(sizeof(Note) == 32);
  static constexpr uint32_t kQuestion = 1, kAnswer = 2;

  struct alignas(64) Departed {
    std::atomic<uint32_t> messages{0};
  };
  struct Peer {
    Departed departed;
    std::atomic<uint64_t> asked{0};
    std::atomic<uint32_t> told{0};
    std::atomic<bool> answered{false};
    sockaddr_storage at{};
    socklen_t at_bytes = 0;
    uint64_t token = 0;
  };

  Peer& of(int rank) { return peers_[static_cast<size_t>(rank)]; }
  [[nodiscard]] uint32_t own_rank() const { return static_cast<uint32_t>(context_->rank); }

  np_status greet(int rank, int64_t deadline_ns) {
    constexpr int kPauseMs = 5;
    while (!of(rank).answered.load(std::memory_order_acquire)) {
      if (*context_->abort != 0 || now_ns() > deadline_ns) {
        return fail(context_, *context_->abort != 0 ? NP_ABORTED : NP_FAILED,
                    "%s: no answer from rank %d at %s (UDP); is it alive, or does a firewall drop UDP in between?",
                    layer_, rank, place_of(of(rank).at, of(rank).at_bytes).c_str());
      }
      ask(rank);
      ::poll(nullptr, 0, kPauseMs);
    }
    return NP_OK;
  }

  void live() {
    keep_own_descriptors({static_cast<unsigned>(socket_.get()), static_cast<unsigned>(stop_.get())});
    for (;;) {
      pollfd wanted[2] = {{socket_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
      if (::poll(wanted, 2, -1) < 0 && errno != EINTR) return;
      if (wanted[1].revents != 0) return;
      serve();
    }
  }

  const np_context* context_ = nullptr;
  const char* layer_ = "";
  sockaddr_storage own_{};
  uint64_t token_ = 0;
  Fd socket_, stop_;
  std::vector<Peer> peers_;  // by rank
  std::thread thread_;
  std::atomic<uint64_t> strangers_{0};
};

}  // namespace netpipe::fd_io
