// SPDX-License-Identifier: Apache-2.0
// The options of ucx.
#pragma once

#include <cstdint>

#include "kit/waiting.h"
#include "netpipe/module.h"

namespace netpipe::ucx {

enum Option {
  kApi,
  kDeliver,
  kTls,
  kDevices,
  kRndv,
  kZcopy,
  kSndbuf,
  kRcvbuf,
  kMemory,
  kCudaDevice,
  kErrors,
  kProtocols,
  kSet,
  kWait,
  kSpin,
  kOptions
};

enum class Api { tag, stream, am };
enum class Memory { layer, pages, cuda };
enum class Deliver { copy, leave };

inline constexpr np_option kTable[kOptions] = {
    {"api", NP_CHOICE, "tag", 0, 0, "tag|stream|am", "",
     "tag: matched messages (ucp_tag_send_nbx); stream: a byte stream (ucp_stream_send_nbx); am: active messages "
     "(ucp_am_send_nbx)",
     0, NP_USES_MESSAGES},
    {"deliver", NP_CHOICE, "copy", 0, 0, "copy|leave", "",
     "api=am: what the receiver does with a message that came eagerly; copy: copies it to where its receive wants it; "
     "leave: leaves it where UCX has it, as ucx_perftest does, so that nothing arrives and nothing can be verified",
     0, NP_USES_MESSAGES, "with api=tag|stream: UCX itself copies those messages to their receives"},
    {"tls", NP_TEXT, "", 0, 0, nullptr, "",
     "transports that UCX may use, joined by +, such as tcp or posix+cma (UCX_TLS); empty leaves UCX's choice", 1},
    {"devices", NP_TEXT, "", 0, 0, nullptr, "",
     "network devices that UCX may use, joined by +, such as eth0 or mlx5_0:1 (UCX_NET_DEVICES); empty takes the "
     "interface of the rank's address and all devices that are not TCP's",
     1},
    {"rndv", NP_SIZE, "0", 0, INT64_MAX, nullptr, "bytes",
     "smallest message that is sent by rendezvous (UCX_RNDV_THRESH); 0 leaves UCX's choice", 1, NP_USES_MESSAGES,
     "with api=stream: a stream has no rendezvous"},
    {"zcopy", NP_SIZE, "0", 0, INT64_MAX, nullptr, "bytes",
     "smallest message that is sent without a copy where the transport can (UCX_ZCOPY_THRESH); 0 leaves UCX's choice",
     1, NP_USES_MESSAGES},
    {"sndbuf", NP_SIZE, "0", 0, INT32_MAX / 2, nullptr, "bytes",
     "SO_SNDBUF of UCX's TCP connections; 0 leaves the kernel's autotuning", 1},
    {"rcvbuf", NP_SIZE, "0", 0, INT32_MAX / 2, nullptr, "bytes",
     "SO_RCVBUF of UCX's TCP connections; 0 leaves the kernel's autotuning", 1},
    {"memory", NP_CHOICE, "layer", 0, 0, "layer|pages|cuda", "",
     "message memory; layer: allocated and registered by UCX (ucp_mem_map); pages: ordinary pages, as from malloc; "
     "cuda: of a CUDA device, for a UCX that was built for it",
     0, 0, "cuda with api=am: the receiver would have to copy messages that came eagerly to the device"},
    {"cuda_device", NP_INT, "-1", -1, 255, nullptr, "",
     "memory=cuda: number of the device of every rank, as the driver counts them; -1 gives the ranks the devices in "
     "turn",
     0, 0, "with memory=layer|pages: only memory=cuda is on a device"},
    {"errors", NP_CHOICE, "none", 0, 0, "none|peer", "",
     "error handling of the endpoints; peer: UCX reports a peer that has gone, and leaves out what cannot (in UCX 1.13 "
     "shared memory and rendezvous over TCP that writes to the peer)",
     0},
    {"protocols", NP_CHOICE, "auto", 0, 0, "auto|v1|v2", "",
     "how UCX selects protocols (UCX_PROTO_ENABLE); auto leaves the choice of this version", 1},
    {"set", NP_TEXT, "", 0, 0, nullptr, "",
     "other settings of UCX without their prefix UCX_, joined by +, such as MAX_RNDV_RAILS=1+TCP_NODELAY=n", 1},
    {"wait", NP_CHOICE, "poll", 0, 0, NP_WAIT_CHOICES, "",
     "poll calls ucp_worker_progress again and again, block sleeps on the event descriptor of the worker "
     "(ucp_worker_arm), hybrid polls for spin_us and then sleeps",
     NP_TUNABLE_WAITING},
    kSpinOption,
};

}  // namespace netpipe::ucx
