// SPDX-License-Identifier: Apache-2.0
// The options of cma.
#pragma once

#include "kit/waiting.h"
#include "netpipe/module.h"

namespace netpipe::cma {

enum Option { kDirection, kWait, kSpin, kOptions };

inline constexpr np_option kTable[kOptions] = {
    {"direction", NP_CHOICE, "read", 0, 0, "read|write", "",
     "read: the sender says where its message is, and the receiver fetches it (process_vm_readv); write: the receiver "
     "says where it wants it, and the sender puts it there (process_vm_writev)",
     1, NP_USES_MESSAGES},
    {"wait", NP_CHOICE, "poll", 0, 0, NP_WAIT_CHOICES, "",
     "poll looks at shared memory again and again, block sleeps in the kernel (futex), hybrid polls for spin_us and "
     "then sleeps",
     NP_TUNABLE_WAITING},
    netpipe::kSpinOption,
};

}  // namespace netpipe::cma
