// SPDX-License-Identifier: Apache-2.0
// Memory that the provider has to know before it moves it (FI_MR_LOCAL), and memory that peers reach.
#pragma once

#include "fabric_endpoint.h"

namespace netpipe::fabric {

// Registers memory, binds it where the provider wants that (FI_MR_ENDPOINT). NP_OK: mr owns it.
np_status register_memory(np_endpoint& endpoint, const void* base, size_t bytes, uint64_t access, Held<fid_mr>& mr);

// Of this visit: where its messages start and land.
np_status register_places(np_endpoint& endpoint, const np_visit& visit);

// What belongs to no place of the visit (netpipe's own tokens): registered when it is first used.
void* register_late(np_endpoint& endpoint, const void* data, size_t bytes);

// What the provider wants to be told of these bytes, nullptr where it wants nothing.
inline void* descriptor_of(np_endpoint& endpoint, const void* data, size_t bytes) {
  if (!endpoint.registers) [[likely]]
    return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  for (size_t i = 0; i < endpoint.registered_count; ++i) {
    const Registered& one = endpoint.registered[i];
    if (begin >= one.base && begin + bytes <= one.base + one.bytes) return fi_mr_desc(one.mr.get());
  }
  return register_late(endpoint, data, bytes);
}

}  // namespace netpipe::fabric
