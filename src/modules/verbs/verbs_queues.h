// SPDX-License-Identifier: Apache-2.0
// The queue pairs of an endpoint: made, brought up, and made new.
#pragma once

#include "verbs_endpoint.h"

namespace netpipe::verbs {

np_status open_queues(np_endpoint& endpoint);

// How many there are for messages to one peer.
inline uint64_t pairs_of_peer(const Settings& set) { return set.type == kUd ? 1 : set.qps; }
inline constexpr size_t kLine = 64;  // credits of op=write are so far apart, in bytes

// How packets reach a peer.
ibv_ah_attr way_to(const np_endpoint& endpoint, const Peer& peer);
np_status no_way(np_endpoint& endpoint, const char* what, int error);
// From INIT to ready to receive, and to send.
np_status bring_up(np_endpoint& endpoint, Queue& queue);

// Takes back the receives that the queue pairs for messages still have, by making them new. Both ranks do, between two
// barriers.
np_status renew(np_endpoint& endpoint, Queue& queue);

// What the kernel says of a queue pair for messages.
np_status read_back(np_endpoint& endpoint, ibv_qp_attr& attributes);

}  // namespace netpipe::verbs
