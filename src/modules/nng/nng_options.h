// SPDX-License-Identifier: Apache-2.0
// The options of nng.
#pragma once

#include <cstdint>

#include "kit/services/service_meeting.h"
#include "kit/streams/fd_io.h"

namespace netpipe::nng {

enum Option { kPattern, kTransport, kSendbuf, kRecvbuf, kNodelay, kWait, kSpin, kOptions };

inline constexpr int64_t kMostBuffer = 8192;  // nng_options(5)

inline constexpr np_option kTable[kOptions] = {
    {"pattern", NP_CHOICE, "pair", 0, 0, "pair|reqrep|pushpull", "",
     "protocols of the two sockets: pair version 0; request and reply; push and pull, one of each for either direction",
     0},
    {"transport", NP_CHOICE, "tcp", 0, 0, NP_SERVICE_TRANSPORTS, "", "tcp; ipc: AF_UNIX sockets, for ranks of one host",
     0},
    {"sendbuf", NP_INT, "0", 0, kMostBuffer, nullptr, "messages",
     "NNG_OPT_SENDBUF: messages that may wait to be sent; 0, the library's default: none but those on their way", 1, 0,
     "with pattern=reqrep: one request at a time is all that there is to wait"},
    {"recvbuf", NP_INT, "0", 0, kMostBuffer, nullptr, "messages",
     "NNG_OPT_RECVBUF: messages that may wait to be received; 0, the library's default: none but those on their way", 1,
     0,
     "with pattern=reqrep: one request at a time is all that there is to wait; with pattern=pushpull: a pull socket "
     "takes the number and ignores it (libnng 1.5.2)"},
    {"nodelay", NP_BOOL, "yes", 0, 0, nullptr, "", "TCP_NODELAY: send small segments at once (no Nagle)", 1, 0,
     "with transport=ipc: it is an option of TCP"},
    fd_io::kWaitOption,
    netpipe::kSpinOption,
};

}  // namespace netpipe::nng
