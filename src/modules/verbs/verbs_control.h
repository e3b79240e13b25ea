// SPDX-License-Identifier: Apache-2.0
// The control pairs: messages of any size in pieces that are copied, barriers, and where signals arrive.
#pragma once

#include "verbs_endpoint.h"

namespace netpipe::verbs {

np_status open_control(np_endpoint& endpoint);

// Each rank says the random bytes that it was told, to each peer. NP_OK: all peers are ready and are who they must be.
np_status greet_all(np_endpoint& endpoint);

np_status control_send(np_endpoint& endpoint, Peer& peer, const void* data, size_t bytes);
np_status control_recv(np_endpoint& endpoint, Peer& peer, void* data, size_t bytes);
// The request is kPending, and kDone when all of it has been copied to its place.
void control_irecv(np_endpoint& endpoint, Peer& peer, void* data, size_t bytes, np_request* request);

np_status barrier(np_endpoint* endpoint);

// RDMA writes of qp=uc: tells the peer that a quarter of its cells here is free.
np_status say_freed(np_endpoint& endpoint, Peer& peer);

// A piece, a word of a barrier or a signal.
void take_control(np_endpoint& endpoint, Peer& peer, const ibv_wc& completion);

}  // namespace netpipe::verbs
