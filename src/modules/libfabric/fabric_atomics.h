// SPDX-License-Identifier: Apache-2.0
// Atomics of np_one_sided.
#pragma once

#include "fabric_endpoint.h"

namespace netpipe::fabric {

np_atomic_call atomic(np_endpoint* endpoint, np_atomic what);
np_status accumulate(np_endpoint* endpoint, int rank, const double* source, const np_region* target, size_t offset,
                     size_t count);
np_status fetch_accumulate(np_endpoint* endpoint, int rank, const double* source, double* result,
                           const np_region* target, size_t offset, size_t count);

// Returns when the atomics that no completion told of are done at this rank.
np_status confirm_atomics(np_endpoint& endpoint, int rank);

}  // namespace netpipe::fabric
