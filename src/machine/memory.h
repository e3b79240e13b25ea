// SPDX-License-Identifier: Apache-2.0
// Sizes of this host's memories that buffers are measured against.
#pragma once

#include <cstdint>

namespace netpipe {

// What can be had without swapping, from /proc/meminfo; the largest number when the system does not say.
std::uint64_t available_memory_bytes();

// Largest cache of this host that one processor can reach, in bytes; 32 MiB when the system does not say.
std::uint64_t last_level_cache_bytes();

}  // namespace netpipe
