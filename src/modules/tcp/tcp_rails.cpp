// SPDX-License-Identifier: Apache-2.0
#include "tcp_rails.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/tcp.h>  // before netinet/tcp.h, which may not be included beside it
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "kit/streams/fd.h"
#include "kit/streams/ip_address.h"
#include "tcp_endpoint.h"
#include "tcp_options.h"

namespace netpipe::tcp {
namespace {

using fd_io::fail;

// An address of this host.
struct Own {
  sockaddr_storage at{};
  socklen_t at_bytes = 0;
  int prefix = 0;
  std::string device;
  bool loopback = false;
};

const uint8_t* bits_of(const sockaddr_storage& at, int& bits) {
  bits = at.ss_family == AF_INET ? 32 : 128;
  return at.ss_family == AF_INET
             ? reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in&>(at).sin_addr)
             : reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in6&>(at).sin6_addr);
}

// As far as the first so many bits.
bool same_network(const sockaddr_storage& a, const sockaddr_storage& b, int prefix) {
  if (a.ss_family != b.ss_family) return false;
  int bits = 0;
  const uint8_t* left = bits_of(a, bits);
  const uint8_t* right = bits_of(b, bits);
  for (int i = 0; i < std::min(prefix, bits); ++i) {
    const int mask = 0x80 >> (i % 8);
    if (((left[i / 8] ^ right[i / 8]) & mask) != 0) return false;
  }
  return true;
}
bool same_address(const sockaddr_storage& a, const sockaddr_storage& b) { return same_network(a, b, 128); }

std::vector<Own> addresses_of_this_host() {
  std::vector<Own> all;
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return all;
  for (const ifaddrs* at = found; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_netmask == nullptr) continue;
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Own own{.at_bytes = static_cast<socklen_t>(family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)),
            .device = at->ifa_name,
            .loopback = (at->ifa_flags & IFF_LOOPBACK) != 0};
    std::memcpy(&own.at, at->ifa_addr, own.at_bytes);
    sockaddr_storage mask{};
    std::memcpy(&mask, at->ifa_netmask, own.at_bytes);
    mask.ss_family = static_cast<sa_family_t>(family);
    int bits = 0;
    const uint8_t* set = bits_of(mask, bits);
    while (own.prefix < bits && (set[own.prefix / 8] & (0x80 >> (own.prefix % 8))) != 0) ++own.prefix;
    all.push_back(own);
  }
  freeifaddrs(found);
  return all;
}

std::string host_of(const sockaddr_storage& at, socklen_t bytes) {
  const std::string place = fd_io::place_of(at, bytes);
  return place.substr(0, place.find(' '));
}

// "lo 127.0.0.1, eth0 10.0.0.1"
std::string listed(const std::vector<Own>& all) {
  std::string text;
  for (const Own& own : all) text += (text.empty() ? "" : ", ") + own.device + " " + host_of(own.at, own.at_bytes);
  return text;
}

// "10.0.0.1", "10.0.0.0/24", "fd00::/64"
struct Named {
  sockaddr_storage at{};
  std::optional<int> prefix;
};
std::optional<Named> address_in(std::string text) {
  Named named;
  if (const size_t slash = text.find('/'); slash != std::string::npos) {
    const std::string length = text.substr(slash + 1);
    if (length.empty() || length.size() > 3 || length.find_first_not_of("0123456789") != std::string::npos) return {};
    named.prefix = std::stoi(length);
    text.resize(slash);
  }
  auto& v4 = reinterpret_cast<sockaddr_in&>(named.at);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(named.at);
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    named.at.ss_family = AF_INET;
  } else if (inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    named.at.ss_family = AF_INET6;
  } else {
    return {};
  }
  if (named.prefix.value_or(0) > (named.at.ss_family == AF_INET ? 32 : 128)) return {};
  return named;
}

// The address of a device: IPv4 before IPv6, and one that means something beyond the link before one that does not.
const Own* of_device(const std::vector<Own>& all, const std::string& device, int family) {
  const auto rank = [](const Own& own) {
    if (own.at.ss_family == AF_INET) return 0;
    return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(own.at).sin6_addr) ? 2 : 1;
  };
  const Own* best = nullptr;
  for (const Own& own : all) {
    if (own.device != device || (family != 0 && own.at.ss_family != family)) continue;
    if (best == nullptr || rank(own) < rank(*best)) best = &own;
  }
  return best;
}

// The address itself, or the one of this host in the same network: the other end of the link has another one.
std::optional<Own> at_address(const std::vector<Own>& all, const Named& named) {
  for (const Own& own : all) {
    if (!named.prefix && same_address(own.at, named.at)) return own;
  }
  for (const Own& own : all) {
    if (!same_network(own.at, named.at, named.prefix.value_or(own.prefix))) continue;
    Own found = own;
    if (!named.prefix && own.loopback) found.at = named.at;  // all of 127.0.0.0/8 is this host
    return found;
  }
  return {};
}

unsigned flags_of(const std::string& device) {
  const fd_io::Fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  device.copy(request.ifr_name, sizeof request.ifr_name - 1);
  if (ioctl(any.get(), SIOCGIFFLAGS, &request) != 0) return 0;
  return static_cast<unsigned>(static_cast<unsigned short>(request.ifr_flags));
}

np_status find_rail(const np_context* context, const std::vector<Own>& all, const std::string& text, Rail& rail) {
  const int family = context->options[kIp].number == 1 ? AF_INET : context->options[kIp].number == 2 ? AF_INET6 : 0;
  const std::optional<Named> named = address_in(text);
  std::optional<Own> found;
  if (named) {
    found = at_address(all, *named);
    if (!found) {
      return fail(context, NP_UNAVAILABLE,
                  "tcp: rails: %s is no address of this host, nor in the network of one; it has %s", text.c_str(),
                  listed(all).c_str());
    }
  } else {
    if (text.empty() || if_nametoindex(text.c_str()) == 0) {
      return fail(context, NP_UNAVAILABLE,
                  "tcp: rails: '%s' is neither a device of this host nor an IP address; it has %s", text.c_str(),
                  listed(all).c_str());
    }
    if (const Own* own = of_device(all, text, family); own != nullptr) found = *own;
    if (!found) {
      return fail(context, NP_UNAVAILABLE,
                  "tcp: rails: device %s has no %s address; give it one, or another ip=", text.c_str(),
                  family == AF_INET    ? "IPv4"
                  : family == AF_INET6 ? "IPv6"
                                       : "IP");
    }
  }
  if (family != 0 && found->at.ss_family != family) {
    return fail(context, NP_USAGE, "tcp: rails: %s is not an address of ip=%s", text.c_str(),
                context->options[kIp].text);
  }
  if ((flags_of(found->device) & IFF_UP) == 0) {
    return fail(context, NP_UNAVAILABLE, "tcp: rails: device %s of %s is down; `ip link set %s up` starts it",
                found->device.c_str(), text.c_str(), found->device.c_str());
  }
  rail = Rail{.at = found->at, .at_bytes = found->at_bytes, .device = found->device, .bound = !found->loopback};
  rail.host = host_of(rail.at, rail.at_bytes);
  return NP_OK;
}

}  // namespace

std::string rail_name(const std::vector<Rail>& rails, size_t index) {
  const Rail& rail = rails[index];
  return "rail " + std::to_string(index + 1) + " (" + rail.host + " on " + rail.device + ")";
}

np_status own_rails(const np_context* context, std::vector<Rail>& rails) {
  rails.clear();
  const std::string_view given = context->options[kRails].text;
  if (given.empty()) {
    Rail only;
    if (const np_status s = fd_io::own_address(context, "tcp", context->options[kIp], only.at, only.at_bytes);
        s != NP_OK)
      return s;
    rails.push_back(only);
    return NP_OK;
  }
  const std::vector<Own> all = addresses_of_this_host();
  for (size_t begin = 0; begin <= given.size();) {
    const size_t end = std::min(given.find('+', begin), given.size());
    const std::string text(given.substr(begin, end - begin));
    Rail rail;
    if (const np_status s = find_rail(context, all, text, rail); s != NP_OK) return s;
    for (const Rail& other : rails) {
      if (same_address(other.at, rail.at)) {
        return fail(context, NP_USAGE, "tcp: rails=%s names %s twice; a rail has an address of its own",
                    context->options[kRails].text, rail.host.c_str());
      }
    }
    rails.push_back(rail);
    begin = end + 1;
  }
  return NP_OK;
}

np_status streams_over(const np_context* context, size_t rails, int& streams) {
  streams = static_cast<int>(context->options[kStreams].number);
  if (rails == 1) return NP_OK;
  if (rails > static_cast<size_t>(fd_io::kMaxLanes)) {
    return fail(context, NP_USAGE, "tcp: %zu rails; there may be up to %d", rails, fd_io::kMaxLanes);
  }
  const int each = static_cast<int>(rails);
  if (streams == 1) streams = each;
  if (streams % each == 0) return NP_OK;
  return fail(context, NP_USAGE, "tcp: streams=%d over %d rails: give a multiple of %d, so that all have as many",
              streams, each, each);
}

np_status bind_to_device(const np_context* context, const std::vector<Rail>& rails, size_t index, int fd) {
  const Rail& rail = rails[index];
  if (!rail.bound) return NP_OK;
  const auto bytes = static_cast<socklen_t>(rail.device.size() + 1);
  if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, rail.device.c_str(), bytes) == 0) return NP_OK;
  const int error = errno;
  return fail(context, NP_UNAVAILABLE, "tcp: %s cannot be bound to its device: %s%s", rail_name(rails, index).c_str(),
              std::strerror(error), error == EPERM ? "; before Linux 5.7 that needs CAP_NET_RAW" : "");
}

np_status leaves_the_host(const np_context* context, const std::vector<Rail>& rails, size_t index, int peer,
                          const sockaddr_storage& there, socklen_t there_bytes) {
  if (!rails[index].bound) return NP_OK;
  for (const Own& own : addresses_of_this_host()) {
    if (!same_address(own.at, there)) continue;
    return fail(
        context, NP_USAGE,
        "tcp: %s would carry nothing: rank %d, at %s, is on this host, and Linux moves such bytes over loopback; "
        "put the ranks on two hosts, or leave rails out",
        rail_name(rails, index).c_str(), peer, host_of(there, there_bytes).c_str());
  }
  return NP_OK;
}

std::string RailNames::stand_still(int peer, uint64_t lanes) const {
  const std::vector<Rail>& rails = endpoint_.rails;
  for (size_t i = 0; i < rails.size(); ++i) {
    const unsigned flags = flags_of(rails[i].device);
    if ((flags & IFF_UP) == 0) return "; " + rail_name(rails, i) + " is down";
    if ((flags & IFF_RUNNING) == 0) return "; " + rail_name(rails, i) + " has no carrier: the other end is down";
  }
  const np_endpoint::Wire& wire = endpoint_.to(peer);
  const int count = wire.lane_count();
  if (count == 0) return "";
  std::string waits;
  bool all = true;
  for (size_t i = 0; i < rails.size(); ++i) {
    bool waiting = false, silent = false;
    for (int j = static_cast<int>(i); j < count; j += static_cast<int>(rails.size())) {
      waiting = waiting || (lanes >> j & 1) != 0;
      tcp_info info{};
      socklen_t bytes = sizeof info;
      getsockopt(wire.lane(j).out, IPPROTO_TCP, TCP_INFO, &info, &bytes);
      silent = silent || info.tcpi_retransmits > 0;
    }
    if (silent) return "; " + rail_name(rails, i) + " gets no answers";
    if (waiting) waits += (waits.empty() ? "; over " : " and ") + rail_name(rails, i);
    all = all && waiting;
  }
  return all && rails.size() > 1 ? "" : waits;
}

}  // namespace netpipe::tcp
