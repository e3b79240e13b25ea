// SPDX-License-Identifier: Apache-2.0
// The options of udp.
#pragma once

#include <cstdint>

#include "kit/streams/fd.h"

namespace netpipe::udp {

enum Option {
  kIp,
  kPort,
  kConnected,
  kPayload,
  kBatch,
  kGso,
  kGro,
  kRate,
  kSndbuf,
  kRcvbuf,
  kReorder,
  kBusyPoll,
  kMulticast,
  kCastGroup,
  kTtl,
  kWait,
  kSpin,
  kOptions
};

inline constexpr int64_t kMostBuffer = INT32_MAX / 2;      // the kernel doubles what it is asked for, in an int
inline constexpr int64_t kMostPayload = 65507;             // 65535 without the headers of IPv4 and UDP
inline constexpr int64_t kLeastPayload = 32;               // the header and 8 bytes
inline constexpr int64_t kDefaultReceiveBuffer = 4 << 20;  // rcvbuf=0, or what net.core.rmem_max leaves of it
inline constexpr int kMostBatch = 64;                      // datagrams of one call; also what older kernels segment

inline constexpr np_option kTable[kOptions] = {
    {"ip", NP_CHOICE, "auto", 0, 0, "auto|4|6", "", "IP version; auto uses that of the rank's address", 0},
    {"port", NP_INT, "0", 0, 65535, nullptr, "",
     "the first UDP port: N ranks take N x N ports from this one on, and N more where a pattern casts; 0 lets the "
     "kernel choose",
     0},
    {"connected", NP_BOOL, "yes", 0, 0, nullptr, "",
     "sockets that are connected, so that the kernel knows the route and drops what others send; no: each call names "
     "the address, and each source is compared",
     1},
    {"payload", NP_INT, "0", 0, kMostPayload, nullptr, "bytes",
     "UDP payload of the largest datagram, 24 bytes of which are netpipe's header; a longer message is cut into "
     "several. 0 takes what the path carries without IP fragments, and with gso=yes 1472 at most",
     1, 0, "1..31: it leaves no room behind netpipe's header of 24 bytes, so give 32 to 65507"},
    {"batch", NP_INT, "0", 0, kMostBatch, nullptr, "",
     "datagrams of one message per system call (sendmmsg, recvmmsg, or the segments of gso); 0: up to 64, or one at a "
     "time where a rate is given",
     1},
    {"gso", NP_BOOL, "no", 0, 0, nullptr, "",
     "UDP_SEGMENT: the kernel or the device cuts what one call hands over into datagrams", 1, 0,
     "with batch=1: a call takes one datagram, so there is nothing to cut; with payload=32754..: a call takes one "
     "datagram, so there is nothing to cut"},
    {"gro", NP_BOOL, "no", 0, 0, nullptr, "",
     "UDP_GRO: one receive may bring several datagrams that the kernel has joined", 1},
    {"rate", NP_INT, "0", 0, 1'000'000, nullptr, "Mbit/s",
     "UDP payload that a rank offers each second, paced by the clock; 0: as fast as it goes", 0},
    {"sndbuf", NP_SIZE, "0", 0, kMostBuffer, nullptr, "bytes", "SO_SNDBUF; 0 leaves the kernel's default", 1},
    {"rcvbuf", NP_SIZE, "0", 0, kMostBuffer, nullptr, "bytes",
     "SO_RCVBUF, beyond which the kernel drops; 0 takes what net.core.rmem_max allows, up to 4 MiB", 1},
    {"reorder", NP_INT, "3", 0, 64, nullptr, "",
     "a message counts as lost when more datagrams of later messages than this have overtaken it", 0},
    {"busy_poll", NP_INT, "0", 0, 1'000'000, nullptr, "us",
     "SO_BUSY_POLL: how long a receive asks the device itself before it sleeps; needs CAP_NET_ADMIN", 1},
    {"multicast", NP_TEXT, "", 0, 0, nullptr, "",
     "group that all datagrams are sent to (239.1.2.3, ff15::1:2:3), with a port of its own for each receiver; needs "
     "connected=no",
     0, 0,
     "with connected=yes: a socket that is connected to a group takes nothing from its members, so give connected=no "
     "too"},
    {"cast_group", NP_TEXT, "auto", 0, 0, nullptr, "",
     "group that messages to all other ranks go to; auto takes that of multicast, or else one of 239.255.0.0/16 or "
     "ff15::/16 for this run",
     0, NP_USES_CAST},
    {"ttl", NP_INT, "1", 1, 255, nullptr, "",
     "IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS: networks that a datagram to a group may cross", 0},
    fd_io::kWaitOption,
    netpipe::kSpinOption,
};

}  // namespace netpipe::udp
