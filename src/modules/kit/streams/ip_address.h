// SPDX-License-Identifier: Apache-2.0
// IP addresses of sockets that connect: the one that a rank was given, the one that travels to the other ranks, the
// same for people, and listening there. What tcp and sctp share.
#pragma once

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "kit/streams/fd_connect.h"
#include "kit/streams/fd_io.h"
#include "netpipe/module.h"

namespace netpipe::fd_io {

// "127.0.0.1 port 40001"
inline std::string place_of(const sockaddr_storage& address, socklen_t bytes) {
  char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
  getnameinfo(reinterpret_cast<const sockaddr*>(&address), bytes, host, sizeof host, port, sizeof port,
              NI_NUMERICHOST | NI_NUMERICSERV);
  return std::string(host) + " port " + port;
}

// The address that this rank was given, in the IP version that the option `ip` asks for (auto|4|6).
inline np_status own_address(const np_context* context, const char* layer, const np_value& ip,
                             sockaddr_storage& address, socklen_t& bytes) {
  std::string given = context->local_address != nullptr ? context->local_address : "";
  if (given.starts_with("::ffff:") && given.find('.') != std::string::npos)
    given.erase(0, 7);  // IPv4 seen by an IPv6 socket
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const auto look_up = [&](const char* host) {
    if (found != nullptr) freeaddrinfo(found);
    found = nullptr;
    return getaddrinfo(host, nullptr, &hints, &found) == 0;
  };
  if (!look_up(given.c_str())) {
    return fail(context, NP_USAGE, "%s: '%s' is not a numeric IP address to bind to", layer, given.c_str());
  }
  const int family = found->ai_family;
  const int wanted = ip.number == 1 ? AF_INET : ip.number == 2 ? AF_INET6 : family;
  // One host has both loopback addresses; between hosts nobody but the user can know the other address.
  if (wanted != family && (given == "127.0.0.1" || given == "::1")) {
    look_up(wanted == AF_INET ? "127.0.0.1" : "::1");
  } else if (wanted != family) {
    freeaddrinfo(found);
    return fail(context, NP_USAGE,
                "%s: ip=%s, but the ranks reach each other at %s; name the host by an address of that version", layer,
                ip.text, given.c_str());
  }
  std::memcpy(&address, found->ai_addr, found->ai_addrlen);
  bytes = found->ai_addrlen;
  freeaddrinfo(found);
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address);
  const bool anywhere =
      address.ss_family == AF_INET ? v4->sin_addr.s_addr == INADDR_ANY : IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr) != 0;
  if (anywhere) {
    return fail(context, NP_USAGE, "%s: no rank can connect to %s; give the address of one interface", layer,
                given.c_str());
  }
  return NP_OK;
}

inline socklen_t bytes_of(const sockaddr_storage& address) {
  return address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

// What an address looks like on its way to the other rank.
struct Blob {
  uint8_t version;  // 4 or 6
  uint8_t unused;
  uint8_t port[2];   // network order
  uint8_t host[16];  // network order; IPv4: the first four
};
static_assert(sizeof(Blob) == 20);

inline Blob blob_of(const sockaddr_storage& address) {
  Blob blob{};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    blob.version = 4;
    std::memcpy(blob.port, &v4.sin_port, sizeof blob.port);
    std::memcpy(blob.host, &v4.sin_addr, sizeof v4.sin_addr);
  } else {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    blob.version = 6;
    std::memcpy(blob.port, &v6.sin6_port, sizeof blob.port);
    std::memcpy(blob.host, &v6.sin6_addr, sizeof v6.sin6_addr);
  }
  return blob;
}

// own: this rank's address on the same link, which says what a link-local one of the peer is local to.
inline np_status read_blob(const np_context* context, const char* layer, int peer, const Blob& blob,
                           const sockaddr_storage& own, sockaddr_storage& at, socklen_t& at_bytes) {
  at = {};
  if (blob.version == 4) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(at);
    v4.sin_family = AF_INET;
    std::memcpy(&v4.sin_port, blob.port, sizeof blob.port);
    std::memcpy(&v4.sin_addr, blob.host, sizeof v4.sin_addr);
    at_bytes = sizeof v4;
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(at);
    v6.sin6_family = AF_INET6;
    std::memcpy(&v6.sin6_port, blob.port, sizeof blob.port);
    std::memcpy(&v6.sin6_addr, blob.host, sizeof v6.sin6_addr);
    at_bytes = sizeof v6;
    if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) && own.ss_family == AF_INET6) {  // means something on one link only
      v6.sin6_scope_id = reinterpret_cast<const sockaddr_in6&>(own).sin6_scope_id;
    }
  }
  if (at.ss_family == own.ss_family) return NP_OK;
  return fail(context, NP_USAGE, "%s: rank %d is at %s, and this rank at %s; both need addresses of one IP version",
              layer, peer, place_of(at, at_bytes).c_str(), place_of(own, bytes_of(own)).c_str());
}

// The interface that has this address, or "".
inline std::string interface_of(const sockaddr_storage& own, socklen_t own_bytes) {
  const std::string wanted = place_of(own, own_bytes);
  const std::string host = wanted.substr(0, wanted.find(' '));
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string name;
  for (const ifaddrs* at = all; at != nullptr && name.empty(); at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != own.ss_family) continue;
    sockaddr_storage address{};
    const socklen_t bytes = own.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address, at->ifa_addr, bytes);
    const std::string place = place_of(address, bytes);
    if (place.substr(0, place.find(' ')) == host) name = at->ifa_name;
  }
  freeifaddrs(all);
  return name;
}

// Binds a socket and listens; at becomes the address that the kernel really bound. port: the option of that name, the
// port of rank 1, and of further ranks those above; 0: any.
inline np_status listen_at(const np_context* context, const char* layer, const np_value& port_option,
                           const Fd& listener, sockaddr_storage& at, socklen_t& at_bytes) {
  // Rank 1 has the port that was chosen, and further ranks those above it.
  const int64_t chosen = port_option.number;
  const int64_t own = chosen == 0 ? 0 : chosen + context->rank - 1;
  if (own > 65535) {
    return fail(context, NP_USAGE, "%s: port=%lld leaves none for rank %d, which listens %d above it; give a lower one",
                layer, static_cast<long long>(chosen), context->rank, context->rank - 1);
  }
  const uint16_t port = htons(static_cast<uint16_t>(own));
  (at.ss_family == AF_INET ? reinterpret_cast<sockaddr_in*>(&at)->sin_port
                           : reinterpret_cast<sockaddr_in6*>(&at)->sin6_port) = port;
  const int fd = listener.get();
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);  // connections in TIME_WAIT do not block a chosen port
  if (::bind(fd, reinterpret_cast<sockaddr*>(&at), at_bytes) != 0 || ::listen(fd, kBacklog) != 0) {
    const int error = errno;
    return fail(context, error == EADDRINUSE || error == EACCES ? NP_UNAVAILABLE : NP_FAILED,
                "%s: cannot listen at %s: %s%s", layer, place_of(at, at_bytes).c_str(), std::strerror(error),
                error == EADDRINUSE ? "; give another port, or 0 for a free one" : "");
  }
  set_blocking(fd, false);
  at_bytes = sizeof at;
  getsockname(fd, reinterpret_cast<sockaddr*>(&at), &at_bytes);
  return NP_OK;
}

}  // namespace netpipe::fd_io
