// SPDX-License-Identifier: Apache-2.0
// The options of cuda.
#pragma once

#include "netpipe/module.h"

namespace netpipe::cuda {

enum Option { kKind, kDevice, kPeer, kHost, kWait, kOptions };
enum class Kind { h2d, d2h, d2d, p2p };
enum class Host { pinned, pageable, registered };
enum class Wait { poll, block };

inline constexpr int kMostDevices = 256;

inline constexpr np_option kTable[kOptions] = {
    {"kind", NP_CHOICE, "h2d", 0, 0, "h2d|d2h|d2d|p2p", "",
     "h2d copies from the host to the device, d2h from the device to the host, d2d within the device, p2p from the "
     "device to the peer device",
     0},
    {"device", NP_INT, "0", 0, kMostDevices - 1, nullptr, "", "number of the device, as the driver counts them", 0},
    {"peer", NP_INT, "1", 0, kMostDevices - 1, nullptr, "", "number of the device to which kind=p2p copies", 0, 0,
     "with kind=h2d|d2h|d2d: only kind=p2p has a second device"},
    {"host", NP_CHOICE, "pinned", 0, 0, "pinned|pageable|registered", "",
     "memory of the host: pinned is allocated by the driver (cuMemHostAlloc), pageable is ordinary, registered is "
     "ordinary memory that the driver has pinned (cuMemHostRegister)",
     1, 0, "with kind=d2d|p2p: neither end of the copy is in memory of the host"},
    {"wait", NP_CHOICE, "poll", 0, 0, "poll|block", "",
     "how the end of copies is waited for: poll asks again and again (cuStreamQuery), block sleeps until the device "
     "interrupts (cuEventSynchronize of an event with CU_EVENT_BLOCKING_SYNC)",
     NP_TUNABLE_WAITING},
};

}  // namespace netpipe::cuda
