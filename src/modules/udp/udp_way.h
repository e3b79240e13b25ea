// SPDX-License-Identifier: Apache-2.0
// What both directions between this rank and one other have in common: the socket, and how it is used.
#pragma once

#include <cstdint>
#include <string>

#include "kit/streams/fd.h"
#include "netpipe/module.h"
#include "udp_address.h"

namespace netpipe::udp {

inline constexpr int kEverybody = -1;  // in the place of a peer

struct Way {
  const np_context* context = nullptr;
  int peer = 0;  // or kEverybody
  int fd = -1;
  bool connected = true;
  Place to;    // where datagrams go: the peer's socket, or a group and that socket's port
  Place from;  // where the peer's come from
  fd_io::Wait wait = fd_io::Wait::block;
  int64_t spin_ns = 0;
  uint32_t batch = 1;  // datagrams of one call at most
  bool gso = false, gro = false;

  // For sentences.
  [[nodiscard]] std::string whom() const { return peer == kEverybody ? "all others" : "rank " + std::to_string(peer); }
  [[nodiscard]] bool yields() const { return context->oversubscribed != 0; }
  [[nodiscard]] bool aborted() const { return *context->abort != 0; }
};

// Messages up to this size are copied beside their header, so that one plain call moves both: that is cheaper than a
// list of two parts.
inline constexpr size_t kCopiedBytes = 1024;

// How many datagrams a message of so many bytes is cut into, with room for so many bytes of it in each.
inline uint64_t datagrams_of(uint64_t bytes, uint64_t room) { return bytes == 0 ? 1 : (bytes - 1) / room + 1; }

}  // namespace netpipe::udp
