// SPDX-License-Identifier: Apache-2.0
// What one rank of tcp keeps: connections, by the size of the messages that they carry, and who the other rank is.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kit/streams/fd_connect.h"
#include "kit/streams/fd_io.h"
#include "tcp_options.h"
#include "tcp_paths.h"
#include "tcp_rails.h"

namespace netpipe::tcp {

// Messages below this size fit any window, so they need no connections of their own.
inline constexpr int kSmallBits = 12;
inline constexpr size_t kSizeClasses = 24;

inline size_t size_class(size_t bytes) {
  const size_t above = (std::max<size_t>(bytes, 1) - 1) >> kSmallBits;
  return std::min<size_t>(static_cast<size_t>(std::bit_width(above)), kSizeClasses - 1);
}

// What TCP_INFO counts over the life of a connection, summed over connections.
struct Totals {
  uint64_t retransmits = 0, segments_out = 0, segments_in = 0, delivered = 0, bytes_sent = 0, bytes_received = 0;
  uint64_t lost = 0, reordered = 0, bytes_retransmitted = 0, busy_us = 0;
  uint64_t rwnd_limited_us = 0, sndbuf_limited_us = 0;
};

}  // namespace netpipe::tcp

struct np_endpoint {
  using Wire = netpipe::fd_io::Wire<netpipe::fd_io::SocketIo>;
  using Wires = netpipe::fd_io::Wires<netpipe::fd_io::SocketIo>;

  explicit np_endpoint(const np_context* given)
      : context(given), quickack(given->options[netpipe::tcp::kQuickack].number != 0) {}

  [[nodiscard]] Wire& to(int peer) const { return wires->to(peer); }
  [[nodiscard]] const netpipe::fd_io::Traffic<netpipe::fd_io::SocketIo>& traffic() const { return wires->traffic(); }

  const np_context* context;
  bool quickack;
  std::unique_ptr<netpipe::tcp::TcpPath> path;  // before the wires that take it; null: path=copy
  // By class of size, made when the first message of a class is announced; and those in use.
  std::array<std::unique_ptr<Wires>, netpipe::tcp::kSizeClasses> of_class;
  Wires* wires = nullptr;
  std::vector<netpipe::tcp::Rail> rails;  // one or more; stream i takes the one with the number i modulo how many
  int streams = 1;
  netpipe::tcp::RailNames rail_names{*this};
  std::vector<netpipe::fd_io::Fd> listeners;  // by rail
  // Where a rank listens on a rail; of rank 0, which does not, its address.
  struct Place {
    sockaddr_storage at{};
    socklen_t at_bytes = 0;
    std::string text;  // for people: "127.0.0.1 port 40001"
  };
  std::vector<std::vector<Place>> places;     // by rank, and then by rail
  std::vector<netpipe::fd_io::Proof> proofs;  // by rank
  uint32_t generation = 0;                    // counts the times that the lanes were connected
  netpipe::tcp::Totals closed;                // what the connections have counted that are closed by now
};
