// SPDX-License-Identifier: Apache-2.0
// The options of tcp.
#pragma once

#include <cstdint>

#include "kit/fd_io.h"

namespace netpipe::tcp {

enum Option {
  kIp,
  kPort,
  kSndbuf,
  kRcvbuf,
  kNodelay,
  kQuickack,
  kCongestion,
  kMss,
  kBusyPoll,
  kWait,
  kSpin,
  kStreams,
  kStripe,
  kConnections,
  kReopen,
  kOptions
};

inline constexpr int64_t kMostBuffer = INT32_MAX / 2;  // the kernel doubles what it is asked for, in an int

inline constexpr np_option kTable[kOptions] = {
    {"ip", NP_CHOICE, "auto", 0, 0, "auto|4|6", "", "IP version; auto uses that of the rank's address", 0},
    {"port", NP_INT, "0", 0, 65535, nullptr, "",
     "TCP port that rank 1 listens on, and further ranks on those above; 0 lets the kernel choose", 0},
    {"sndbuf", NP_SIZE, "0", 0, kMostBuffer, nullptr, "bytes",
     "SO_SNDBUF, set before connecting; 0 leaves the kernel's autotuning", 1},
    {"rcvbuf", NP_SIZE, "0", 0, kMostBuffer, nullptr, "bytes",
     "SO_RCVBUF, set before connecting; 0 leaves the kernel's autotuning", 1},
    {"nodelay", NP_BOOL, "yes", 0, 0, nullptr, "", "TCP_NODELAY: send small segments at once (no Nagle)", 1},
    {"quickack", NP_BOOL, "no", 0, 0, nullptr, "",
     "TCP_QUICKACK: acknowledge at once; the kernel resets it, so it is set again after each receive, with one more "
     "system call",
     1},
    {"congestion", NP_TEXT, "", 0, 0, nullptr, "", "congestion control, such as cubic; empty leaves the system's", 1},
    {"mss", NP_INT, "0", 0, 32767, nullptr, "bytes", "TCP_MAXSEG, set before connecting; 0 leaves what the path allows",
     1},
    {"busy_poll", NP_INT, "0", 0, 1'000'000, nullptr, "us",
     "SO_BUSY_POLL: how long a receive asks the device itself before it sleeps; needs CAP_NET_ADMIN", 1},
    fd_io::kWaitOption,
    netpipe::kSpinOption,
    {"streams", NP_INT, "1", 1, fd_io::kMaxLanes, nullptr, "", "connections that one message is striped over", 1},
    {"stripe", NP_SIZE, "64k", 1, 1 << 30, nullptr, "bytes",
     "bytes sent over one connection before the next one is used", 1, 0, "with streams=1: there is no next connection"},
    {"connections", NP_CHOICE, "by_size", 0, 0, "by_size|one", "",
     "by_size: messages of each power of two have connections of their own, so that no size is measured with the "
     "window and "
     "the buffers that another left; one: all sizes share them, as in an application that mixes sizes",
     0},
    {"reopen", NP_BOOL, "yes", 0, 0, nullptr, "",
     "make new connections where a pattern asks for it, so that each visit of a size starts with a fresh window", 0},
};

}  // namespace netpipe::tcp
