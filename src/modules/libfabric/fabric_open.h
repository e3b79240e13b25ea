// SPDX-License-Identifier: Apache-2.0
// Opening the objects of libfabric, and joining those of all ranks.
#pragma once

#include "fabric_endpoint.h"

namespace netpipe::fabric {

np_status probe(char* message, size_t message_bytes);
np_status open(const np_context* context, np_endpoint** endpoint);
void close(np_endpoint* endpoint);
np_status address(np_endpoint* endpoint, void* data, size_t* bytes);
np_status connect(np_endpoint* endpoint, const void* const* addresses, const size_t* bytes);

// Makes an endpoint of the library from this offer: bound, and ready to be connected or to be used.
np_status make_endpoint(np_endpoint& endpoint, fi_info* info, Held<fid_ep>& made);

// "libfabric: WHAT: CODE" of a call that returned below 0.
np_status failed(const np_endpoint& endpoint, const char* what, ssize_t code);

// ep=msg: a connection for each peer, proven.
np_status listen(np_endpoint& endpoint);
np_status connect_all(np_endpoint& endpoint);

}  // namespace netpipe::fabric
