// SPDX-License-Identifier: Apache-2.0
// How ranks of udp come to know each other, and that datagrams get through in both directions.
#pragma once

#include "udp_endpoint.h"

namespace netpipe::udp {

np_status open_sockets(np_endpoint& endpoint);
np_status write_address(np_endpoint& endpoint, void* data, size_t* bytes);
// Collective. A rank is done when each of the others has answered a question: then questions get there and answers
// come back, on the way that messages take.
np_status connect_all(np_endpoint& endpoint, const void* const* addresses, const size_t* bytes);

}  // namespace netpipe::udp
