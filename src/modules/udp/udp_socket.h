// SPDX-License-Identifier: Apache-2.0
// The sockets of udp, with the settings that were asked for in force, or a sentence why they cannot be.
#pragma once

#include "kit/fd.h"
#include "netpipe/module.h"
#include "udp_address.h"

namespace netpipe::udp {

// Bound to the own address; *at becomes where. index: which of the ports that this run needs, counted over all ranks.
// plain: without the settings for messages, as the clerk's is.
np_status make_socket(const np_context* context, Place& at, int64_t index, bool plain, fd_io::Fd& made);

// The two steps of that. at: with the port that it is to have.
np_status new_socket(const np_context* context, const Place& at, bool plain, fd_io::Fd& made);
np_status bind_socket(const np_context* context, const fd_io::Fd& fd, Place& at);

// Sends to groups on the interface of the own address.
np_status send_to_groups(const np_context* context, const fd_io::Fd& fd, const Place& own);
// Takes what is sent to the group, on the interface of the own address.
np_status join_group(const np_context* context, const fd_io::Fd& fd, const Place& group, const Place& own);

// A number that the kernel tells of a socket, or -1.
int64_t socket_number(int fd, int level, int name);

// What one packet of the way to this place carries, IP header included. 0: the kernel does not say.
int64_t path_mtu(const Place& own, const Place& peer);

// Bytes of the headers of IP and UDP.
inline int64_t ip_headers(const Place& place) { return place.is_v4() ? 28 : 48; }

}  // namespace netpipe::udp
