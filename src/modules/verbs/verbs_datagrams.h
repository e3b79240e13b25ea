// SPDX-License-Identifier: Apache-2.0
// Messages that may be lost: of qp=ud and qp=uc.
#pragma once

#include "verbs_endpoint.h"

namespace netpipe::verbs {

uint64_t most_datagram(const np_endpoint& endpoint);
// How many cells they arrive in, and of how many bytes.
void plan_datagrams(np_endpoint& endpoint);
np_status open_datagrams(np_endpoint& endpoint);
void take_datagram(np_endpoint& endpoint, Queue& queue, const ibv_wc& completion);

np_status send_datagram(np_endpoint& endpoint, int rank, const void* data, size_t bytes, np_request* request);
np_status recv_datagram(np_endpoint& endpoint, int rank, void* data, size_t bytes);
np_status irecv_datagram(np_endpoint& endpoint, int rank, void* data, size_t bytes, np_request* request);
np_status wait_datagram(np_endpoint& endpoint, np_request* request);
np_status test_datagram(np_endpoint& endpoint, np_request* request);

}  // namespace netpipe::verbs
