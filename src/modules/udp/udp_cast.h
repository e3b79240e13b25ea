// SPDX-License-Identifier: Apache-2.0
// Messages from one rank to all others at once: datagrams to a group, in which each rank has a port of its own to
// cast from. Each other rank has a socket for it that joins the group, and an inbox behind it. What is lost is found
// out as between pairs; the answer to a question goes to the group too, behind the casts, and so speaks to all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kit/streams/fd.h"
#include "netpipe/module.h"
#include "udp_address.h"
#include "udp_clerk.h"
#include "udp_inbox.h"
#include "udp_outbox.h"
#include "udp_way.h"

namespace netpipe::udp {

struct Casts {
  // Another rank, and what it casts.
  struct Source {
    uint16_t port = 0;   // in the group, and at the rank itself; 0: it cannot cast
    int error = 0;       // why
    uint64_t token = 0;  // that its casts carry
    fd_io::Fd fd;
    Way way;
    std::unique_ptr<Inbox> in;
  };

  std::string obstacle;  // why this rank cannot cast; "": it can
  int error = 0;         // the same for the other ranks
  Place group;           // with the port that this rank casts to, and from
  fd_io::Fd fd;
  uint64_t token = 0;  // that its casts carry
  Way way;
  std::unique_ptr<Outbox> out;
  std::vector<Source> sources;  // by rank; that of the rank itself is empty
  bool joined = false;
};

// The socket that casts of this rank leave through. No rank needs it before a visit has casts, so where there can be
// none the reason is kept; a setting that makes no sense is an error at once.
np_status open_casts(np_endpoint& endpoint);

// When the ways to the other ranks are known: what leaves.
np_status connect_casts(np_endpoint& endpoint);
Asker cast_asker(const np_endpoint& endpoint);

// Collective, before the first visit with casts: joins the group, and is done when each of the others has answered a
// question by it.
np_status join_casts(np_endpoint& endpoint);

}  // namespace netpipe::udp
