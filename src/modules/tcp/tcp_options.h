// SPDX-License-Identifier: Apache-2.0
// The options of tcp.
#pragma once

#include <cstdint>

#include "kit/streams/fd_io.h"

namespace netpipe::tcp {

enum Option {
  kIp,
  kPort,
  kProtocol,
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
  kRails,
  kPath,
  kZerocopyMin,
  kTls,
  kConnections,
  kReopen,
  kOptions
};

enum Protocol { kTcp, kMptcp };
enum Tls { kTlsNo, kTlsOpenssl, kTlsKernel };
inline constexpr int64_t kWaitSigio = NP_WAIT_HYBRID + 1;  // of the option `wait`

// How a Wire waits: with wait=sigio it sleeps too, until a signal.
inline Wait waits(const np_value& wait) {
  return wait.number == kWaitSigio ? Wait::block : static_cast<Wait>(wait.number);
}

inline constexpr int64_t kMostBuffer = INT32_MAX / 2;  // the kernel doubles what it is asked for, in an int

inline constexpr np_option kTable[kOptions] = {
    {"ip", NP_CHOICE, "auto", 0, 0, "auto|4|6", "", "IP version; auto uses that of the rank's address", 0},
    {"port", NP_INT, "0", 0, 65535, nullptr, "",
     "TCP port that rank 1 listens on, and further ranks on those above; 0 lets the kernel choose", 0},
    {"protocol", NP_CHOICE, "tcp", 0, 0, "tcp|mptcp", "",
     "mptcp: Multipath TCP (RFC 8684), which may use several paths of the kernel's choice for one connection", 0},
    {"sndbuf", NP_SIZE, "0", 0, kMostBuffer, nullptr, "bytes",
     "SO_SNDBUF, set before connecting; 0 leaves the kernel's autotuning", 1},
    {"rcvbuf", NP_SIZE, "0", 0, kMostBuffer, nullptr, "bytes",
     "SO_RCVBUF, set before connecting; 0 leaves the kernel's autotuning", 1},
    {"nodelay", NP_BOOL, "yes", 0, 0, nullptr, "", "TCP_NODELAY: send small segments at once (no Nagle)", 1},
    {"quickack", NP_BOOL, "no", 0, 0, nullptr, "",
     "TCP_QUICKACK: acknowledge at once; the kernel resets it, so it is set again after each receive, with one more "
     "system call",
     1, 0, "yes with protocol=mptcp: the kernel has that for tcp only"},
    {"congestion", NP_TEXT, "", 0, 0, nullptr, "", "congestion control, such as cubic; empty leaves the system's", 1},
    {"mss", NP_INT, "0", 0, 32767, nullptr, "bytes", "TCP_MAXSEG, set before connecting; 0 leaves what the path allows",
     1},
    {"busy_poll", NP_INT, "0", 0, 1'000'000, nullptr, "us",
     "SO_BUSY_POLL: how long a receive asks the device itself before it sleeps; needs CAP_NET_ADMIN", 1, 0,
     "with protocol=mptcp: the kernel has that for tcp only"},
    {"wait", NP_CHOICE, "block", 0, 0, NP_WAIT_CHOICES "|sigio", "",
     "block sleeps in the kernel, poll repeats non-blocking calls, hybrid polls for spin_us and then sleeps, sigio "
     "sleeps until the kernel signals that a socket has bytes or room, and moves bytes in the signal's handler while "
     "the rank does something else",
     NP_TUNABLE_WAITING},
    {"spin_us", NP_INT, "50", 0, 1'000'000, nullptr, "us", "how long wait=hybrid polls before it sleeps",
     NP_TUNABLE_WAITING, 0, "with wait=block|poll|sigio: only wait=hybrid polls for a time and then sleeps"},
    {"streams", NP_INT, "1", 1, fd_io::kMaxLanes, nullptr, "",
     "connections that one message is striped over; with rails 1 is one for each, and more is a multiple of that", 1},
    {"stripe", NP_SIZE, "64k", 1, 1 << 30, nullptr, "bytes",
     "bytes sent over one connection before the next one is used", 1, 0,
     "with streams=1: there is no next connection (over rails, say how many streams there are)"},
    {"rails", NP_TEXT, "", 0, 0, nullptr, "",
     "local addresses that the streams are dealt out to, joined by +: devices (eth0+eth1), networks "
     "(10.0.0.0/24+10.1.0.0/24), or for each the address at either end",
     0, 0, "with protocol=mptcp: the kernel chooses the paths"},
    {"path", NP_CHOICE, "copy", 0, 0, "copy|zerocopy|uring|uring_zc|splice|sendfile", "",
     "how bytes reach the kernel: a copy in send and recv; MSG_ZEROCOPY, which sends from the message itself; "
     "io_uring; io_uring that sends from the message itself; its pages lent through a pipe; or a file that holds it",
     1, 0,
     "zerocopy|uring|uring_zc|splice|sendfile with wait=sigio: there is no signal for what they wait for; "
     "zerocopy|uring_zc|splice|sendfile with protocol=mptcp: the kernel has that for tcp only; "
     "zerocopy|uring|uring_zc|splice|sendfile with tls=openssl|kernel: what is sent is not the message, but its "
     "ciphertext"},
    {"zerocopy_min", NP_SIZE, "16k", 1, 1 << 30, nullptr, "bytes",
     "path=zerocopy, uring_zc, splice and sendfile: smaller messages are copied", 1, 0,
     "with path=copy|uring: every message is copied"},
    {"tls", NP_CHOICE, "no", 0, 0, "no|openssl|kernel", "",
     "encrypt with TLS 1.3, AES-128-GCM: by the library OpenSSL, or by the kernel after its handshake", 0, 0,
     "openssl with wait=sigio: a signal says nothing of what the library holds; kernel with protocol=mptcp: the kernel "
     "has that for tcp only"},
    {"connections", NP_CHOICE, "by_size", 0, 0, "by_size|one", "",
     "by_size: messages of each power of two have connections of their own, so that no size is measured with the "
     "window and "
     "the buffers that another left; one: all sizes share them, as in an application that mixes sizes",
     0},
    {"reopen", NP_BOOL, "yes", 0, 0, nullptr, "",
     "make new connections where a pattern asks for it, so that each visit of a size starts with a fresh window", 0},
};

}  // namespace netpipe::tcp
