// SPDX-License-Identifier: Apache-2.0
// Messages of ep=dgram.
#pragma once

#include "fabric_endpoint.h"

namespace netpipe::fabric {

np_status open_datagrams(np_endpoint& endpoint);

// The most that a message of this provider may have.
uint64_t datagram_bytes(const np_endpoint& endpoint);
// And the most of one that is injected; 0: none is.
uint64_t datagram_inject_bytes(const np_endpoint& endpoint);

// request: nullptr of a send that ends before it returns.
np_status send_datagram(np_endpoint& endpoint, int rank, const void* data, size_t bytes, np_request* request);
// NP_LOST: it did not come.
np_status recv_datagram(np_endpoint& endpoint, int rank, void* data, size_t bytes);
np_status irecv_datagram(np_endpoint& endpoint, int rank, void* data, size_t bytes, np_request* request);
np_status wait_datagram(np_endpoint& endpoint, np_request* request);
np_status test_datagram(np_endpoint& endpoint, np_request* request);

inline bool is_datagram_receive(const np_endpoint& endpoint, const np_request& request) {
  return endpoint.type == kDgram && request.word[kKind] == kReceive;
}

}  // namespace netpipe::fabric
