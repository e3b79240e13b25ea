// SPDX-License-Identifier: Apache-2.0
// Puts, gets, atomics and signals.
#pragma once

#include "netpipe/module.h"
#include "ucx_endpoint.h"

namespace netpipe::ucx {

extern const np_one_sided kOneSided;

// Lets what was sent leave this process, although nobody will call UCX for a while. Waits a few milliseconds at most.
void settle(np_endpoint* e);

}  // namespace netpipe::ucx
