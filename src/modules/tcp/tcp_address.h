// SPDX-License-Identifier: Apache-2.0
// Addresses of tcp: the one that a rank was given, the one that travels to the other rank, and the same for people.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <string>

#include "netpipe/module.h"

namespace netpipe::tcp {

// "127.0.0.1 port 40001"
std::string place_of(const sockaddr_storage& address, socklen_t bytes);

// The address that this rank was given, in the IP version that the option asks for.
np_status own_address(const np_context* context, sockaddr_storage& address, socklen_t& bytes);

// What an address looks like on its way to the other rank.
struct Blob {
  uint8_t version;  // 4 or 6
  uint8_t unused;
  uint8_t port[2];   // network order
  uint8_t host[16];  // network order; IPv4: the first four
};
static_assert(sizeof(Blob) == 20);

Blob blob_of(const sockaddr_storage& address);
// own: this rank's address on the same link, which says what a link-local one of the peer is local to.
np_status read_blob(const np_context* context, int peer, const Blob& blob, const sockaddr_storage& own,
                    sockaddr_storage& at, socklen_t& at_bytes);

// The interface that has this address, or "".
std::string interface_of(const sockaddr_storage& own, socklen_t own_bytes);

}  // namespace netpipe::tcp
