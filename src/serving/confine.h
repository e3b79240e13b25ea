// SPDX-License-Identifier: Apache-2.0
// Takes from a process what it does not need to measure for a client. docs/reference/protocol.md says what is left.
#pragma once

#include "base/result.h"

namespace netpipe {

// Has this kernel filters of system calls, and this program one for its processor? The failure says what is missing.
Outcome can_confine();

// From here on this process, and its threads, opens no file and changes none, starts no process or program, looks into
// no other process and sends it no signal, makes no memory executable, has no capability, and makes no sockets but
// those of IP and, to read the names of interfaces, of netlink: all this fails with EPERM. Standard input and output,
// and the errors unless a sanitizer writes there, lead nowhere. A failure: not all of that holds.
Outcome confine();

}  // namespace netpipe
