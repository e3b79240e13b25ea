// SPDX-License-Identifier: Apache-2.0
// What one rank of shm keeps, and how the memory that all ranks share is laid out.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "netpipe/module.h"
#include "shm_cells.h"
#include "shm_memory.h"
#include "shm_messages.h"
#include "shm_pace.h"
#include "shm_transfer.h"
#include "shm_wait.h"

namespace netpipe::shm {

inline constexpr std::uint64_t kSegmentMagic = 0x316d68732d706e;  // "np-shm1"

struct Segment {
  std::atomic<std::uint64_t> magic;
  std::uint64_t job;  // hash of context->job: a descriptor of the same number in another process is not taken for it
};

// What a rank says to all others.
struct alignas(kApart) Member {
  std::atomic<std::uint32_t> reached;  // how far connect() has come
  std::atomic<std::uint32_t> cma;      // 1: this process can read and write the memory of all others
  Bell bell;
  Announced allocations[kAllocations];
};

// Where all of it is: the segment, a Member for each rank, how many barriers each rank has reached, and then whole
// pages for each pair: the transfers and the signals of both directions, and cells.
struct Layout {
  std::size_t nranks, cells_bytes;

  [[nodiscard]] static std::size_t members() { return round_up(sizeof(Segment), kApart); }
  [[nodiscard]] std::size_t barrier() const { return members() + nranks * sizeof(Member); }
  [[nodiscard]] std::size_t common_bytes() const {
    return round_up(barrier() + nranks * sizeof(std::atomic<std::uint64_t>), kPageBytes);
  }
  // In a pair.
  [[nodiscard]] static std::size_t signals() { return round_up(2 * sizeof(Transfer), kApart); }
  [[nodiscard]] static std::size_t cells() { return round_up(signals() + 2 * sizeof(SignalRing), kPageBytes); }
  [[nodiscard]] std::size_t pair_bytes() const { return cells() + cells_bytes; }
  [[nodiscard]] std::size_t pair(unsigned a, unsigned b) const {
    const std::size_t low = std::min(a, b), high = std::max(a, b);
    return common_bytes() + (high * (high - 1) / 2 + low) * pair_bytes();
  }
  [[nodiscard]] std::size_t bytes() const { return common_bytes() + nranks * (nranks - 1) / 2 * pair_bytes(); }
};

}  // namespace netpipe::shm

struct np_endpoint {
  netpipe::shm::Mapping mapping;    // of the segment; unmapped last
  netpipe::shm::Messages messages;  // to and from the rank that patterns for pairs join with this one
  int opposite = 0;                 // that rank
  netpipe::shm::OwnMemory memory;
  netpipe::shm::Crowd crowd;
  std::vector<std::unique_ptr<netpipe::shm::Messages>> others;  // by rank
  std::vector<netpipe::shm::Messages*> links;                   // by rank; nullptr: nothing was exchanged so far
  std::vector<pid_t> pids;                                      // by rank
  std::vector<int> pidfds;
  netpipe::shm::Peer peer;  // no rank: for sentences about this process
  netpipe::shm::Messages::Settings settings;
  netpipe::shm::Waiter::Settings waiting;
  netpipe::shm::Pace pace;
  netpipe::shm::Shape shape;
  netpipe::shm::Layout layout{};
  int fd = -1;  // rank 0: the segment
  std::uint64_t probe = netpipe::shm::kSegmentMagic;
  std::string cma_reason;  // why cross-memory attach is not allowed

  np_endpoint() = default;
  np_endpoint(const np_endpoint&) = delete;
  np_endpoint& operator=(const np_endpoint&) = delete;
  ~np_endpoint() {
    // This process will not look any more.
    if (!crowd.begun.empty()) {
      member(rank()).bell.closed.store(1, std::memory_order_release);
      for (unsigned other = 0; other < nranks(); ++other) {
        if (other != rank()) messages.waiter.ring(member(other).bell);
      }
    }
    if (fd >= 0) ::close(fd);
    for (const int pidfd : pidfds) ::close(pidfd);
  }

  [[nodiscard]] unsigned rank() const { return static_cast<unsigned>(peer.context->rank); }
  [[nodiscard]] unsigned nranks() const { return static_cast<unsigned>(peer.context->nranks); }
  [[nodiscard]] std::int64_t option(int which) const { return peer.context->options[which].number; }
  [[nodiscard]] netpipe::shm::Member& member(unsigned of) const {
    return std::launder(reinterpret_cast<netpipe::shm::Member*>(mapping.base() + netpipe::shm::Layout::members()))[of];
  }
  [[nodiscard]] std::atomic<std::uint64_t>* arrived() const {
    return std::launder(reinterpret_cast<std::atomic<std::uint64_t>*>(mapping.base() + layout.barrier()));
  }
};
