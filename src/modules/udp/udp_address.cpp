// SPDX-License-Identifier: Apache-2.0
#include "udp_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>

#include "kit/streams/fd.h"
#include "udp_options.h"

namespace netpipe::udp {

using fd_io::fail;

namespace {

sockaddr_in& v4(sockaddr_storage& at) { return reinterpret_cast<sockaddr_in&>(at); }
const sockaddr_in& v4(const sockaddr_storage& at) { return reinterpret_cast<const sockaddr_in&>(at); }
sockaddr_in6& v6(sockaddr_storage& at) { return reinterpret_cast<sockaddr_in6&>(at); }
const sockaddr_in6& v6(const sockaddr_storage& at) { return reinterpret_cast<const sockaddr_in6&>(at); }

bool same_host(const sockaddr_storage& a, const sockaddr_storage& b) {
  if (a.ss_family != b.ss_family) return false;
  if (a.ss_family == AF_INET) return v4(a).sin_addr.s_addr == v4(b).sin_addr.s_addr;
  return std::memcmp(&v6(a).sin6_addr, &v6(b).sin6_addr, sizeof v6(a).sin6_addr) == 0;
}

// Of an IPv6 group: the interface of the own address. The kernel asks for it in the link's scope, and ignores it in
// others.
void set_interface(const Place& own, Place& group) {
  if (group.is_v4()) return;
  v6(group.at).sin6_scope_id = own.interface() != 0 ? own.interface() : if_nametoindex(interface_of(own).c_str());
}

bool look_up(const char* host, Place& place) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host, nullptr, &hints, &found) != 0) return false;
  place = {};
  std::memcpy(&place.at, found->ai_addr, found->ai_addrlen);
  place.bytes = found->ai_addrlen;
  freeaddrinfo(found);
  return true;
}

constexpr int kLinkScope = 2, kGlobalScope = 14;  // RFC 4291

int scope_of(const Place& v6_group) { return v6(v6_group.at).sin6_addr.s6_addr[1] & 0xf; }

// Programs may use all IPv4 groups but those of 224.0.0.0/24 (RFC 5771), and the IPv6 groups that are not assigned for
// good and that leave their host.
bool for_programs(const Place& group) {
  constexpr uint32_t kLocalControl = 0xe0000000;
  if (group.is_v4()) {
    const uint32_t host = ntohl(v4(group.at).sin_addr.s_addr);
    return IN_MULTICAST(host) && host >> 8 != kLocalControl >> 8;
  }
  const uint8_t* const host = v6(group.at).sin6_addr.s6_addr;
  const bool transient = host[0] == 0xff && host[1] >> 4 == 1;
  return transient && scope_of(group) >= kLinkScope && scope_of(group) <= kGlobalScope;
}

// The group that an option names.
np_status read_group(const np_context* context, Option option, const Place& own, Place& group) {
  const char *const name = kTable[option].name, *const text = context->options[option].text;
  if (std::strchr(text, '%') != nullptr || !look_up(text, group) || !for_programs(group)) {
    return fail(context, NP_USAGE,
                "udp: %s=%s is no group for programs: those are 224.0.1.0 to 239.255.255.255 (239.x.x.x stay within a "
                "site), and of IPv6 ff12::/16 (within the link), ff15::/16 (within the site) and the others up to "
                "ff1e::/16",
                name, text);
  }
  if (group.is_v4() != own.is_v4()) {
    return fail(context, NP_USAGE, "udp: %s=%s is an IPv%d group, and the ranks reach each other over IPv%d", name,
                text, group.is_v4() ? 4 : 6, own.is_v4() ? 4 : 6);
  }
  if (!group.is_v4() && scope_of(group) == kLinkScope && context->options[kTtl].number != 1) {
    return fail(context, NP_USAGE, "udp: ttl=%s: no router forwards what goes to %s=%s; give a group of ff15::/16",
                context->options[kTtl].text, name, text);
  }
  set_interface(own, group);
  return NP_OK;
}

// By lot for each run: one of 239.255.0.0/16, which no router forwards beyond its own network (RFC 2365), or of
// ff15::/16 with a number that hosts may draw (RFC 3307). That scope is the site, so that `ttl` says how far it goes:
// what goes to ff12::/16 no router forwards.
Place group_of_run(const char* job, const Place& own) {
  constexpr uint32_t kLocalScope = 0xefff0000, kDrawn = 0x80000000, kPrime = 16777619;
  uint32_t hash = 2166136261;  // FNV-1a
  for (const char* c = job; *c != '\0'; ++c) hash = (hash ^ static_cast<unsigned char>(*c)) * kPrime;
  Place group;
  group.at.ss_family = own.at.ss_family;
  group.bytes = own.bytes;
  if (own.is_v4()) {
    v4(group.at).sin_addr.s_addr = htonl(kLocalScope | ((hash >> 16 ^ hash) & 0xffff));
    return group;
  }
  const uint32_t number = htonl(kDrawn | hash);
  uint8_t* const host = v6(group.at).sin6_addr.s6_addr;
  host[0] = 0xff;
  host[1] = 0x15;
  std::memcpy(host + 12, &number, sizeof number);
  set_interface(own, group);
  return group;
}

}  // namespace

uint16_t Place::port() const { return ntohs(is_v4() ? v4(at).sin_port : v6(at).sin6_port); }

void Place::set_port(uint16_t port) { (is_v4() ? v4(at).sin_port : v6(at).sin6_port) = htons(port); }

uint32_t Place::interface() const { return is_v4() ? 0 : v6(at).sin6_scope_id; }

bool Place::same(const sockaddr_storage& other) const {
  if (!same_host(at, other)) return false;
  return is_v4() ? v4(at).sin_port == v4(other).sin_port : v6(at).sin6_port == v6(other).sin6_port;
}

std::string text_of(const Place& place) { return host_text(place) + " port " + std::to_string(place.port()); }

std::string host_text(const Place& place) {
  char host[NI_MAXHOST] = "?";
  getnameinfo(place.name(), place.bytes, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  const std::string text = host;
  const bool group = !place.is_v4() && IN6_IS_ADDR_MULTICAST(&v6(place.at).sin6_addr);
  return group ? text.substr(0, text.find('%')) : text;  // its interface is told by itself
}

np_status own_address(const np_context* context, Place& place) {
  std::string given = context->local_address != nullptr ? context->local_address : "";
  if (given.starts_with("::ffff:") && given.find('.') != std::string::npos)
    given.erase(0, 7);  // IPv4 seen by an IPv6 socket
  if (!look_up(given.c_str(), place)) {
    return fail(context, NP_USAGE, "udp: '%s' is not a numeric IP address to bind to", given.c_str());
  }
  const int64_t version = context->options[kIp].number;
  const bool wants_v4 = version == 1 || (version == 0 && place.is_v4());
  // One host has both loopback addresses; between hosts nobody but the user can know the other address.
  if (wants_v4 != place.is_v4() && (given == "127.0.0.1" || given == "::1")) {
    look_up(wants_v4 ? "127.0.0.1" : "::1", place);
  } else if (wants_v4 != place.is_v4()) {
    return fail(context, NP_USAGE,
                "udp: ip=%s, but the ranks reach each other at %s; name the host by an address of that version",
                context->options[kIp].text, given.c_str());
  }
  const bool anywhere =
      place.is_v4() ? v4(place.at).sin_addr.s_addr == INADDR_ANY : IN6_IS_ADDR_UNSPECIFIED(&v6(place.at).sin6_addr);
  if (anywhere) {
    return fail(context, NP_USAGE, "udp: no rank can send to %s; give the address of one interface", given.c_str());
  }
  return NP_OK;
}

np_status group_address(const np_context* context, const Place& own, Place& group) {
  if (*context->options[kMulticast].text == '\0') return NP_OK;
  return read_group(context, kMulticast, own, group);
}

np_status cast_group(const np_context* context, const Place& own, const Place& multicast, Place& group) {
  const char* const text = context->options[kCastGroup].text;
  if (std::strcmp(text, kTable[kCastGroup].default_value) != 0) return read_group(context, kCastGroup, own, group);
  group = multicast.bytes != 0 ? multicast : group_of_run(context->job, own);
  return NP_OK;
}

Blob blob_of(const Place& place) {
  Blob blob;
  blob.version = place.is_v4() ? 4 : 6;
  if (place.is_v4()) {
    std::memcpy(blob.host, &v4(place.at).sin_addr, sizeof v4(place.at).sin_addr);
  } else {
    std::memcpy(blob.host, &v6(place.at).sin6_addr, sizeof v6(place.at).sin6_addr);
  }
  return blob;
}

bool read_blob(const Blob& blob, const Place& own, Place& place) {
  if ((blob.version != 4 && blob.version != 6) || (blob.version == 4) != own.is_v4()) return false;
  place = {};
  if (blob.version == 4) {
    v4(place.at).sin_family = AF_INET;
    std::memcpy(&v4(place.at).sin_addr, blob.host, sizeof v4(place.at).sin_addr);
    place.bytes = sizeof(sockaddr_in);
  } else {
    v6(place.at).sin6_family = AF_INET6;
    std::memcpy(&v6(place.at).sin6_addr, blob.host, sizeof v6(place.at).sin6_addr);
    if (IN6_IS_ADDR_LINKLOCAL(&v6(place.at).sin6_addr)) v6(place.at).sin6_scope_id = v6(own.at).sin6_scope_id;
    place.bytes = sizeof(sockaddr_in6);
  }
  return true;
}

std::string interface_of(const Place& own) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string name;
  for (const ifaddrs* at = all; at != nullptr && name.empty(); at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != own.at.ss_family) continue;
    sockaddr_storage address{};
    std::memcpy(&address, at->ifa_addr, own.is_v4() ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (same_host(address, own.at)) name = at->ifa_name;
  }
  freeifaddrs(all);
  return name;
}

}  // namespace netpipe::udp
