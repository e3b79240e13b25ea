// SPDX-License-Identifier: Apache-2.0
// The sockets of udp, with the settings that were asked for in force, or a sentence why they cannot be.
#pragma once

#include "kit/streams/fd.h"
#include "netpipe/module.h"
#include "udp_address.h"

namespace netpipe::udp {

// Bound to the own address; *at becomes where. index: which of the ports that this run needs, counted over all ranks.
// plain: without the settings for messages, as the clerk's is.
np_status make_socket(const np_context* context, Place& at, int64_t index, bool plain, fd_io::Fd& made);

// The two steps of that. at: with the port that it is to have.
np_status new_socket(const np_context* context, const Place& at, bool plain, fd_io::Fd& made);
np_status bind_socket(const np_context* context, const fd_io::Fd& fd, Place& at);

// What this socket of the own address sends to the group leaves on the interface of that address.
np_status send_to_group(const np_context* context, const fd_io::Fd& fd, const Place& own, const Place& group);
// A socket for what is sent to this port of the group, on the interface of the own address. It is another one than that
// which sends there: of an IPv6 socket that is bound to a group the kernel chooses the address that it sends from.
np_status listen_in_group(const np_context* context, Place at, const Place& own, fd_io::Fd& made);
// How many networks a datagram to a group may cross, as the kernel has it.
int64_t multicast_ttl(const fd_io::Fd& fd, const Place& own);

// A number that the kernel tells of a socket, or -1.
int64_t socket_number(int fd, int level, int name);

// What one packet of the way to this place carries, IP header included. 0: the kernel does not say.
int64_t path_mtu(const Place& own, const Place& peer);

// Bytes of the headers of IP and UDP.
inline int64_t ip_headers(const Place& place) { return place.is_v4() ? 28 : 48; }

}  // namespace netpipe::udp
