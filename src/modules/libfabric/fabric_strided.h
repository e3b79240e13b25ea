// SPDX-License-Identifier: Apache-2.0
// Puts and gets of blocks that lie evenly apart.
#pragma once

#include "fabric_endpoint.h"

namespace netpipe::fabric {

// How many blocks the provider moves in one call.
size_t blocks_at_once(const np_endpoint& endpoint);

np_status put_strided(np_endpoint* endpoint, int rank, const void* source, const np_region* target, size_t offset,
                      const np_strided* shape);
np_status get_strided(np_endpoint* endpoint, int rank, void* target, const np_region* source, size_t offset,
                      const np_strided* shape);

}  // namespace netpipe::fabric
