// SPDX-License-Identifier: Apache-2.0
// Memory that the device knows. What lies where messages of a visit start and land is registered before the visit, what
// peers reach when it is exposed; register=each registers each message while the clock runs.
#pragma once

#include "verbs_endpoint.h"

namespace netpipe::verbs {

inline constexpr int kRemote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

np_status register_memory(np_endpoint& endpoint, const void* base, size_t bytes, int access, HeldMr& mr);

// Where messages of the visit start and land.
np_status register_visit(np_endpoint& endpoint, const np_visit& visit);

// The local key of memory outside of these; registers it if nobody has. Leaves a failure in the endpoint's status.
uint32_t late_key(np_endpoint& endpoint, const void* data, size_t bytes);

inline uint32_t key_of(np_endpoint& endpoint, const void* data, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(data);
  for (const Registered& one : endpoint.visit_memory) {
    if (at - one.base < one.bytes && bytes <= one.bytes - (at - one.base)) [[likely]]
      return one.lkey;
  }
  return late_key(endpoint, data, bytes);
}

}  // namespace netpipe::verbs
