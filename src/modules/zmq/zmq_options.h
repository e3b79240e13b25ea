// SPDX-License-Identifier: Apache-2.0
// The options of zmq.
#pragma once

#include <cstdint>

#include "kit/services/service_meeting.h"
#include "kit/streams/fd_io.h"

namespace netpipe::zmq {

enum Option {
  kPattern,
  kTransport,
  kHwm,
  kSndbuf,
  kRcvbuf,
  kIoThreads,
  kIoPlace,
  kZeroCopy,
  kEncrypt,
  kWait,
  kSpin,
  kOptions
};

inline constexpr int64_t kLibraryHwm = 1000;  // zmq_setsockopt(3), ZMQ_SNDHWM

inline constexpr np_option kTable[kOptions] = {
    {"pattern", NP_CHOICE, "pair", 0, 0, "pair|reqrep|dealer|pushpull", "",
     "types of the two sockets: PAIR; REQ and REP, where each request waits for its reply; DEALER; PUSH and PULL, one "
     "of each for either direction",
     0},
    {"transport", NP_CHOICE, "tcp", 0, 0, NP_SERVICE_TRANSPORTS, "", "tcp; ipc: AF_UNIX sockets, for ranks of one host",
     0},
    {"hwm", NP_INT, "0", 0, 1'000'000, nullptr, "messages",
     "ZMQ_SNDHWM and ZMQ_RCVHWM: messages that may wait on either side; 0 takes the library's 1000, and for messages "
     "above 64 KiB, which then have a connection of their own, as many as hold 64 MiB",
     1},
    {"sndbuf", NP_SIZE, "0", 0, INT32_MAX / 2, nullptr, "bytes",
     "SO_SNDBUF of the connections; 0 leaves the kernel's default", 1, 0,
     "with transport=ipc: libzmq sets it on TCP connections only"},
    {"rcvbuf", NP_SIZE, "0", 0, INT32_MAX / 2, nullptr, "bytes",
     "SO_RCVBUF of the connections; 0 leaves the kernel's default", 1, 0,
     "with transport=ipc: libzmq sets it on TCP connections only"},
    {"io_threads", NP_INT, "1", 1, 64, nullptr, "",
     "threads that move messages between the queues and the connections; each connection is served by one", 1},
    {"io_place", NP_CHOICE, "rank", 0, 0, "rank|any", "",
     "rank: these threads share the processor that the rank is pinned to; any: they run wherever the kernel puts them",
     1},
    {"zero_copy", NP_BOOL, "no", 0, 0, nullptr, "",
     "send by zmq_msg_init_data: the library reads from the message's own place, and a send ends when it has", 1},
    {"encrypt", NP_BOOL, "no", 0, 0, nullptr, "",
     "CURVE: every message is encrypted and authenticated; without it the ranks prove themselves by PLAIN and messages "
     "are clear",
     0},
    fd_io::kWaitOption,
    netpipe::kSpinOption,
};

}  // namespace netpipe::zmq
