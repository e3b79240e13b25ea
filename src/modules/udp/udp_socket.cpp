// SPDX-License-Identifier: Apache-2.0
#include "udp_socket.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "udp_options.h"

namespace netpipe::udp {
namespace {

using namespace netpipe::fd_io;

np_status refused(const np_context* context, Option option, int error) {
  return fail(context, error == EINVAL ? NP_USAGE : NP_UNAVAILABLE, "udp: %s=%s: %s%s", kTable[option].name,
              context->options[option].text, std::strerror(error), error == EPERM ? "; it needs CAP_NET_ADMIN" : "");
}

// The kernel doubles what it is asked for, and stops at a limit without a word, which is no setting in force.
np_status set_buffer(const np_context* context, int fd, Option option, int name, int force, const char* limit) {
  const int wanted = static_cast<int>(context->options[option].number);
  if (wanted == 0) return NP_OK;
  if (setsockopt(fd, SOL_SOCKET, name, &wanted, sizeof wanted) != 0) return refused(context, option, errno);
  if (socket_number(fd, SOL_SOCKET, name) >= 2 * int64_t{wanted}) return NP_OK;
  if (setsockopt(fd, SOL_SOCKET, force, &wanted, sizeof wanted) == 0) return NP_OK;
  std::string most;
  std::getline(std::ifstream(std::string("/proc/sys/net/core/") + limit), most);
  return fail(context, NP_UNAVAILABLE,
              "udp: %s=%s: the kernel gives no more than %s bytes; ask for less, raise net.core.%s, or run with "
              "CAP_NET_ADMIN",
              kTable[option].name, context->options[option].text, most.c_str(), limit);
}

np_status set_numbers(const np_context* context, int fd) {
  const np_value* options = context->options;
  if (const np_status s = set_buffer(context, fd, kSndbuf, SO_SNDBUF, SO_SNDBUFFORCE, "wmem_max"); s != NP_OK) return s;
  if (const np_status s = set_buffer(context, fd, kRcvbuf, SO_RCVBUF, SO_RCVBUFFORCE, "rmem_max"); s != NP_OK) return s;
  if (options[kRcvbuf].number == 0) {
    const int most = static_cast<int>(kDefaultReceiveBuffer);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &most, sizeof most);
  }
  const int busy = static_cast<int>(options[kBusyPoll].number);
  if (busy != 0 && setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &busy, sizeof busy) != 0) {
    return refused(context, kBusyPoll, errno);
  }
  const int yes = 1;
  if (options[kGro].number != 0 && setsockopt(fd, IPPROTO_UDP, UDP_GRO, &yes, sizeof yes) != 0) {
    return refused(context, kGro, errno);
  }
  return NP_OK;
}

template <typename Value>
bool set(const Fd& fd, int level, int name, const Value& value) {
  return setsockopt(fd.get(), level, name, &value, sizeof value) == 0;
}

in_addr v4(const Place& place) { return reinterpret_cast<const sockaddr_in&>(place.at).sin_addr; }
in6_addr v6(const Place& place) { return reinterpret_cast<const sockaddr_in6&>(place.at).sin6_addr; }

// A socket that is connected to this place. None: the kernel knows no way there, and errno says why.
Fd on_the_way(const Place& own, const Place& to) {
  Fd fd(::socket(to.at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP));
  Place from = own;
  from.set_port(0);
  const bool there = fd && (to.is_v4() || set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, to.interface())) &&
                     ::bind(fd.get(), from.name(), from.bytes) == 0 && ::connect(fd.get(), to.name(), to.bytes) == 0;
  return there ? std::move(fd) : Fd();
}

}  // namespace

int64_t socket_number(int fd, int level, int name) {
  int value = 0;
  socklen_t bytes = sizeof value;
  return getsockopt(fd, level, name, &value, &bytes) == 0 ? value : -1;
}

np_status new_socket(const np_context* context, const Place& at, bool plain, Fd& made) {
  Fd fd(::socket(at.at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP));
  if (!fd) {
    return fail(context, NP_UNAVAILABLE, "udp: cannot create an IPv%d socket: %s", at.is_v4() ? 4 : 6,
                std::strerror(errno));
  }
  if (!plain) {
    if (const np_status s = set_numbers(context, fd.get()); s != NP_OK) return s;
  }
  made = std::move(fd);
  return NP_OK;
}

np_status make_socket(const np_context* context, Place& at, int64_t index, bool plain, Fd& made) {
  if (const np_status s = new_socket(context, at, plain, made); s != NP_OK) return s;
  const int64_t first = context->options[kPort].number;
  if (first != 0 && first + index > 65535) {
    return fail(context, NP_USAGE, "udp: port=%lld leaves no room for the %d x %d ports of this run; give a lower one",
                static_cast<long long>(first), context->nranks, context->nranks);
  }
  at.set_port(first == 0 ? uint16_t{0} : static_cast<uint16_t>(first + index));
  return bind_socket(context, made, at);
}

np_status bind_socket(const np_context* context, const Fd& fd, Place& at) {
  // NOLINTNEXTLINE(clang-analyzer-unix.StdCLibraryFunctions): there is a socket, unless fail() returned NP_OK
  if (::bind(fd.get(), at.name(), at.bytes) != 0) {
    const int error = errno;
    return fail(context, error == EADDRINUSE || error == EACCES || error == EADDRNOTAVAIL ? NP_UNAVAILABLE : NP_FAILED,
                "udp: cannot bind to %s: %s%s", text_of(at).c_str(), std::strerror(error),
                error == EADDRINUSE ? "; give another port, or 0 for free ones" : "");
  }
  at.bytes = sizeof at.at;
  getsockname(fd.get(), at.name(), &at.bytes);
  return NP_OK;
}

np_status send_to_group(const np_context* context, const Fd& fd, const Place& own, const Place& group) {
  const ip_mreqn from{.imr_multiaddr = {}, .imr_address = v4(own), .imr_ifindex = 0};
  const int ttl = static_cast<int>(context->options[kTtl].number), yes = 1;
  // Ranks may be on one host, so what leaves is looped back.
  const bool done = own.is_v4()
                        ? set(fd, IPPROTO_IP, IP_MULTICAST_IF, from) && set(fd, IPPROTO_IP, IP_MULTICAST_TTL, ttl) &&
                              set(fd, IPPROTO_IP, IP_MULTICAST_LOOP, yes)
                        : set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, group.interface()) &&
                              set(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, ttl) &&
                              set(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, yes);
  if (!done) {
    return fail(context, NP_UNAVAILABLE, "udp: the interface of %s sends to no groups: %s", host_text(own).c_str(),
                std::strerror(errno));
  }
  if (own.is_v4() || on_the_way(own, group)) return NP_OK;
  // Linux gives every interface such a route but the loopback, where any that is not local would reject what it gets.
  const int error = errno;
  const std::string interface = interface_of(own);
  fail(context, NP_UNAVAILABLE, "udp: %s sends to no IPv6 group (%s)%s", interface.c_str(), std::strerror(error),
       interface == "lo" ? "; add the route: ip -6 route add local ff00::/8 dev lo table local" : "");
  errno = error;
  return NP_UNAVAILABLE;
}

np_status listen_in_group(const np_context* context, Place at, const Place& own, Fd& made) {
  Fd fd;
  if (const np_status s = new_socket(context, at, false, fd); s != NP_OK) return s;
  const int yes = 1, no = 0;
  if (!set(fd, SOL_SOCKET, SO_REUSEADDR, yes)) {
    return fail(context, NP_UNAVAILABLE, "udp: ranks cannot share a port of a group: %s", std::strerror(errno));
  }
  const ip_mreqn to_v4{.imr_multiaddr = v4(at), .imr_address = v4(own), .imr_ifindex = 0};
  const ipv6_mreq to_v6{.ipv6mr_multiaddr = v6(at), .ipv6mr_interface = at.interface()};
  if (const np_status s = bind_socket(context, fd, at); s != NP_OK) return s;
  // Of what others of the host joined nothing is taken.
  const bool joined =
      own.is_v4() ? set(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, to_v4) && set(fd, IPPROTO_IP, IP_MULTICAST_ALL, no)
                  : set(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, to_v6) && set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, no);
  if (!joined) {
    return fail(context, NP_UNAVAILABLE, "udp: the interface of %s cannot join group %s: %s", host_text(own).c_str(),
                host_text(at).c_str(), std::strerror(errno));
  }
  made = std::move(fd);
  return NP_OK;
}

int64_t multicast_ttl(const Fd& fd, const Place& own) {
  return own.is_v4() ? socket_number(fd.get(), IPPROTO_IP, IP_MULTICAST_TTL)
                     : socket_number(fd.get(), IPPROTO_IPV6, IPV6_MULTICAST_HOPS);
}

int64_t path_mtu(const Place& own, const Place& peer) {
  const Fd fd = on_the_way(own, peer);
  if (!fd) return 0;
  const int64_t mtu =
      peer.is_v4() ? socket_number(fd.get(), IPPROTO_IP, IP_MTU) : socket_number(fd.get(), IPPROTO_IPV6, IPV6_MTU);
  return std::max<int64_t>(mtu, 0);
}

}  // namespace netpipe::udp
