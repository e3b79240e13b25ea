// SPDX-License-Identifier: Apache-2.0
// Messages of ep=rdm and ep=msg, and what belongs to no group.
#pragma once

#include "fabric_endpoint.h"

namespace netpipe::fabric {

extern const np_messages kMessages;

np_status wait(np_endpoint* endpoint, np_request* requests, size_t count);
np_status test(np_endpoint* endpoint, np_request* request);
np_status barrier(np_endpoint* endpoint);

// Collective: an empty message between each two ranks, so that no timed one makes the provider connect.
np_status greet_all(np_endpoint& endpoint);

}  // namespace netpipe::fabric
