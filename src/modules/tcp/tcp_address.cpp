// SPDX-License-Identifier: Apache-2.0
#include "tcp_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>

#include "kit/fd_io.h"
#include "tcp_options.h"

namespace netpipe::tcp {

using fd_io::fail;

std::string place_of(const sockaddr_storage& address, socklen_t bytes) {
  char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
  getnameinfo(reinterpret_cast<const sockaddr*>(&address), bytes, host, sizeof host, port, sizeof port,
              NI_NUMERICHOST | NI_NUMERICSERV);
  return std::string(host) + " port " + port;
}

np_status own_address(const np_context* context, sockaddr_storage& address, socklen_t& bytes) {
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
    return fail(context, NP_USAGE, "tcp: '%s' is not a numeric IP address to bind to", given.c_str());
  }
  const int family = found->ai_family;
  const int wanted = context->options[kIp].number == 1   ? AF_INET
                     : context->options[kIp].number == 2 ? AF_INET6
                                                         : family;
  // One host has both loopback addresses; between hosts nobody but the user can know the other address.
  if (wanted != family && (given == "127.0.0.1" || given == "::1")) {
    look_up(wanted == AF_INET ? "127.0.0.1" : "::1");
  } else if (wanted != family) {
    freeaddrinfo(found);
    return fail(context, NP_USAGE,
                "tcp: ip=%s, but the ranks reach each other at %s; name the host by an address of that version",
                context->options[kIp].text, given.c_str());
  }
  std::memcpy(&address, found->ai_addr, found->ai_addrlen);
  bytes = found->ai_addrlen;
  freeaddrinfo(found);
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address);
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address);
  const bool anywhere =
      address.ss_family == AF_INET ? v4->sin_addr.s_addr == INADDR_ANY : IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr) != 0;
  if (anywhere)
    return fail(context, NP_USAGE, "tcp: no rank can connect to %s; give the address of one interface", given.c_str());
  return NP_OK;
}

namespace {
socklen_t own_bytes(const sockaddr_storage& own) {
  return own.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}
}  // namespace

Blob blob_of(const sockaddr_storage& address) {
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

np_status read_blob(const np_context* context, int peer, const Blob& blob, const sockaddr_storage& own,
                    sockaddr_storage& at, socklen_t& at_bytes) {
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
  return fail(context, NP_USAGE, "tcp: rank %d is at %s, and this rank at %s; both need addresses of one IP version",
              peer, place_of(at, at_bytes).c_str(), place_of(own, own_bytes(own)).c_str());
}

std::string interface_of(const sockaddr_storage& own, socklen_t own_bytes) {
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

}  // namespace netpipe::tcp
