// SPDX-License-Identifier: Apache-2.0
// What one rank of udp keeps: for each other rank a socket with both directions, and the clerk.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kit/streams/fd.h"
#include "netpipe/module.h"
#include "udp_address.h"
#include "udp_cast.h"
#include "udp_clerk.h"
#include "udp_inbox.h"
#include "udp_outbox.h"
#include "udp_requests.h"

struct np_endpoint {
  struct Link {
    netpipe::fd_io::Fd fd;
    netpipe::fd_io::Fd group_fd;  // multicast=: what comes to the group
    netpipe::udp::Place own;      // where messages of the peer are expected
    netpipe::udp::Way way;
    std::unique_ptr<netpipe::udp::Outbox> out;
    std::unique_ptr<netpipe::udp::Inbox> in;
    netpipe::udp::Started started;         // receives by irecv
    int64_t mtu = 0;                       // of the path to the peer
    int64_t rtt_ns = 0;                    // of the first question
    std::vector<std::vector<char>> early;  // messages of a peer that has connected before this rank

    [[nodiscard]] const netpipe::fd_io::Fd& incoming() const { return group_fd ? group_fd : fd; }
  };

  explicit np_endpoint(const np_context* given) : context(given), links(static_cast<size_t>(given->nranks)) {}

  const np_context* context;
  std::vector<Link> links;    // by rank; that of the rank itself is empty
  netpipe::udp::Place own;    // without a port
  netpipe::udp::Place group;  // multicast=, likewise; of no bytes where there is none
  netpipe::udp::Place desk_at;
  netpipe::fd_io::Fd desk;  // the clerk's socket
  uint64_t token = 0;
  std::vector<netpipe::udp::Desk> desks;  // of the others
  netpipe::udp::Casts casts;
  netpipe::udp::Clerk clerk;  // behind the sockets: it ends before they are closed
};
