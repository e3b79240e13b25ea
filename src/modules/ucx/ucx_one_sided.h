// SPDX-License-Identifier: Apache-2.0
// Memory that peers reach, puts, gets, atomics and signals.
#pragma once

#include "netpipe/module.h"
#include "ucx_endpoint.h"

namespace netpipe::ucx {

extern const np_one_sided kOneSided;
extern const np_memory kLayerMemory;

// Lets what was sent leave this process, although nobody will call UCX for a while. Waits a few milliseconds at most.
void settle(np_endpoint* e);

// Of one piece that alloc returned.
void release_memory(np_endpoint* e, const Allocation& one);

}  // namespace netpipe::ucx
