// SPDX-License-Identifier: Apache-2.0
// Puts, gets and atomics.
#pragma once

#include "fabric_endpoint.h"

namespace netpipe::fabric {

extern const np_one_sided kOneSided;

// The words of an np_region.
enum RegionWord { kBase, kKey, kMemory };

// Refuses what would reach beyond the region.
np_status within(const np_endpoint& endpoint, const np_region& region, size_t offset, size_t bytes);

// Outside the timed region, once.
np_status open_reach(np_endpoint& endpoint);

// Barriers of ep=msg. A message that nobody awaits yet would hold up all that comes behind it on its connection, the
// answers to the gets of its receiver among them; a put of one byte with remote completion data does not.
bool has_signals(const np_endpoint& endpoint);
np_status signal_barrier(np_endpoint& endpoint, int rank);
np_status await_barrier(np_endpoint& endpoint, int rank);

}  // namespace netpipe::fabric
