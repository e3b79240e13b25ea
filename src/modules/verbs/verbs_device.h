// SPDX-License-Identifier: Apache-2.0
// Which device, port and GID a rank uses.
#pragma once

#include <string>

#include "verbs_endpoint.h"

namespace netpipe::verbs {

np_status probe(char* message, size_t message_bytes);

// Opens the device that the options name, or that suits the rank's address; a port with a link, and a GID of it.
np_status choose_device(np_endpoint& endpoint);

const char* link_layer(const ibv_port_attr& port);
inline int mtu_bytes(int mtu) { return 128 << mtu; }

}  // namespace netpipe::verbs
