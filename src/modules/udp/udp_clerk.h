// SPDX-License-Identifier: Apache-2.0
// Answers one question of the other ranks: how many messages have left for you? A receiver that has waited for some
// time asks, and calls a message lost only when its sender says that it has left. No guess about how busy the other
// rank is can then become a loss.
//
// The answer must come while the rank itself computes, or waits for the next command after the last message of a
// stream. So a thread of its own sleeps at a socket of its own, and runs only when it is asked.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "kit/streams/fd.h"
#include "netpipe/module.h"
#include "udp_datagram.h"

namespace netpipe::udp {

// What a rank tells the clerk while it sends. On a cache line of its own, which nobody else touches unless asked.
struct alignas(64) Departed {
  std::atomic<uint32_t> messages{0};
};

// Whom the clerk answers.
struct Asker {
  int fd = -1;               // that messages to this rank leave through: an answer must not overtake them
  const void* to = nullptr;  // its address, where the socket is not connected
  uint32_t to_bytes = 0;
  uint64_t token = 0;  // of the rank that asks
  uint32_t payload = 0;
  const Departed* departed = nullptr;
};

class Clerk {
 public:
  Clerk() = default;
  Clerk(const Clerk&) = delete;
  Clerk& operator=(const Clerk&) = delete;
  ~Clerk() { stop(); }

  // socket: where it is asked; token: what must be said there. askers: by rank, none for the rank itself. everybody:
  // those who ask for casts; without a socket where there are none.
  np_status start(const np_context* context, int socket, uint64_t token, std::vector<Asker> askers, Asker everybody);
  void stop();

  // Answers what has been asked, without waiting. Also for the rank itself while it waits: the thread may have no
  // processor, beside a rank that polls with a real-time priority.
  void serve();

  [[nodiscard]] uint64_t strangers() const { return strangers_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t answered() const { return answered_.load(std::memory_order_relaxed); }

 private:
  void live();
  void keep_descriptors() const;
  [[nodiscard]] const Asker* asker_of(const Header& said) const;

  int socket_ = -1;
  uint64_t token_ = 0;
  std::vector<Asker> askers_;
  Asker everybody_;
  fd_io::Fd stop_;  // an eventfd
  std::thread thread_;
  std::atomic<uint64_t> strangers_{0}, answered_{0};
};

}  // namespace netpipe::udp
