// SPDX-License-Identifier: Apache-2.0
// The options of grpc.
#pragma once

#include <cstdint>

#include "kit/streams/fd_io.h"
#include "kit/waiting.h"

namespace netpipe::grpc {

enum Option { kApi, kTransport, kWindow, kFrame, kSecurity, kWait, kSpin, kOptions };

enum class Api { stream, unary };

// SETTINGS_MAX_FRAME_SIZE and SETTINGS_INITIAL_WINDOW_SIZE may be these (RFC 9113, section 6.5.2).
inline constexpr int64_t kLeastFrame = 16384, kMostFrame = 16777215, kMostWindow = 2147483647;

inline constexpr np_option kTable[kOptions] = {
    {"api", NP_CHOICE, "stream", 0, 0, "stream|unary", "",
     "stream: one bidirectional stream for each two ranks; unary: each request is a call of its own, and the reply "
     "ends "
     "it",
     0},
    {"transport", NP_CHOICE, "tcp", 0, 0, "tcp|unix", "", "tcp; unix: AF_UNIX sockets, for ranks of one host", 0},
    {"window", NP_SIZE, "0", 0, kMostWindow, nullptr, "bytes",
     "HTTP/2 flow control: bytes of a stream that may be on their way; 0: gRPC adapts it to the connection (BDP "
     "probes)",
     1},
    {"frame", NP_SIZE, "0", 0, kMostFrame, nullptr, "bytes",
     "SETTINGS_MAX_FRAME_SIZE, 16384 to 16777215; 0: gRPC adapts it where it adapts the window, and else has 16384", 1,
     0,
     "with window=0: gRPC then adapts the frame size as well, so give a window too; 1..16383: HTTP/2 asks for 16384 "
     "bytes at least"},
    {"security", NP_CHOICE, "insecure", 0, 0, "insecure|tls", "",
     "tls: encrypted, with a certificate that each rank makes for this run", 0},
    fd_io::kWaitOption,
    netpipe::kSpinOption,
};

}  // namespace netpipe::grpc
