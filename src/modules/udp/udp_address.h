// SPDX-License-Identifier: Apache-2.0
// Addresses of udp: the one that a rank was given, those that travel to the other ranks, and the same for people.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "netpipe/module.h"

namespace netpipe::udp {

// An IP address and a port. Compares as the kernel does.
struct Place {
  sockaddr_storage at{};
  socklen_t bytes = 0;

  [[nodiscard]] const sockaddr* name() const { return reinterpret_cast<const sockaddr*>(&at); }
  [[nodiscard]] sockaddr* name() { return reinterpret_cast<sockaddr*>(&at); }
  [[nodiscard]] bool is_v4() const { return at.ss_family == AF_INET; }
  [[nodiscard]] uint16_t port() const;
  void set_port(uint16_t port);
  // IPv6: of a group, or of an address of the link. 0: none.
  [[nodiscard]] uint32_t interface() const;
  [[nodiscard]] bool same(const sockaddr_storage& other) const;
};

// "127.0.0.1 port 40001"
std::string text_of(const Place& place);
// "127.0.0.1"
std::string host_text(const Place& place);

// The address that this rank was given, in the IP version that the option asks for, without a port.
np_status own_address(const np_context* context, Place& place);

// The group of the option multicast, if one was given, without a port; checked, for sockets of the own address.
np_status group_address(const np_context* context, const Place& own, Place& group);

// The group that casts go to, without a port: that of the option cast_group, or of the option multicast, or one that
// this run draws.
np_status cast_group(const np_context* context, const Place& own, const Place& multicast, Place& group);

// An address on its way to another rank.
struct Blob {
  uint8_t version = 0;  // 4 or 6
  uint8_t unused[3] = {};
  uint8_t host[16] = {};  // network order; IPv4: the first four
};
static_assert(sizeof(Blob) == 20);

Blob blob_of(const Place& place);
// own: whose interface a link-local address belongs to. False: there is no such address.
bool read_blob(const Blob& blob, const Place& own, Place& place);

// The interface that has this address, or "".
std::string interface_of(const Place& own);

}  // namespace netpipe::udp
