// SPDX-License-Identifier: Apache-2.0
// Message memory: that of UCX, ordinary pages, or that of a CUDA device.
#pragma once

#include "netpipe/module.h"
#include "ucx_endpoint.h"

namespace netpipe::ucx {

// As limits count them. The first is also that of memory=pages.
enum MemoryPlace { kHostMemory, kDeviceMemory };
extern const np_memory* const kMemories[];

// Registers this memory, or allocates some where at is nullptr. flags: UCP_MEM_MAP_...
np_status map_memory(np_endpoint* e, void* at, size_t bytes, unsigned flags, ucp_mem_h& handle);

// Of one piece that was allocated.
void release_memory(np_endpoint* e, const Allocation& one);

// Calls use(memory) with a few bytes of the kind of memory that messages are in.
template <typename Use>
np_status with_scratch(np_endpoint* e, const Use& use) {
  char here[2] = {};
  void* there = nullptr;
  if (!e->on_device) return use(here);
  if (const np_status s = np_cuda_alloc(&e->device, sizeof here, &there); s != NP_OK) return s;
  const np_status status = use(static_cast<char*>(there));
  if (!e->broken) np_cuda_free(&e->device, there);
  return status;
}

// memory=cuda, before there is a context: UCX looks for the device that is current. NP_UNAVAILABLE where there is none.
np_status open_device(np_endpoint* e);
// memory=cuda, once there is a context: whether it moves such memory. NP_UNAVAILABLE where it does not.
np_status check_memory_types(np_endpoint* e);

}  // namespace netpipe::ucx
