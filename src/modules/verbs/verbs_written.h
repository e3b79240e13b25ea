// SPDX-License-Identifier: Apache-2.0
// Messages by RDMA write (op=write and op=write_imm), straight to the place that the receiver announced for the visit.
#pragma once

#include "verbs_endpoint.h"

namespace netpipe::verbs {

// Both ranks of a pair: tells the peer where this visit's messages land, and starts anew.
np_status announce(np_endpoint& endpoint, Peer& peer, const np_visit& visit);

np_status send_written(np_endpoint& endpoint, Peer& peer, const void* data, size_t bytes);
np_status isend_written(np_endpoint& endpoint, Peer& peer, const char* data, size_t stride, size_t bytes,
                        np_request* requests, size_t count);
np_status recv_written(np_endpoint& endpoint, Peer& peer, void* data, size_t bytes);
void irecv_written(np_endpoint& endpoint, Peer& peer, void* data, size_t bytes, np_request* request);

// Completes the receives whose messages have arrived.
np_status look_for_written(np_endpoint& endpoint, Peer& peer);
// op=write_imm: as many receives as the queue pair keeps posted.
np_status post_empty_receives(np_endpoint& endpoint, Queue& queue);

}  // namespace netpipe::verbs
