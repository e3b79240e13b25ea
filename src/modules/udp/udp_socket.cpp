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
bool set_ip(const Fd& fd, int name, const Value& value) {
  return setsockopt(fd.get(), IPPROTO_IP, name, &value, sizeof value) == 0;
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

np_status send_to_groups(const np_context* context, const Fd& fd, const Place& own) {
  ip_mreqn from{};
  from.imr_address = reinterpret_cast<const sockaddr_in&>(own.at).sin_addr;
  const int ttl = static_cast<int>(context->options[kTtl].number), yes = 1, no = 0;
  // Ranks may be on one host, so what leaves is looped back. Of groups that others of the host joined nothing is taken.
  if (set_ip(fd, IP_MULTICAST_IF, from) && set_ip(fd, IP_MULTICAST_TTL, ttl) && set_ip(fd, IP_MULTICAST_LOOP, yes) &&
      set_ip(fd, IP_MULTICAST_ALL, no)) {
    return NP_OK;
  }
  return fail(context, NP_UNAVAILABLE, "udp: the interface of %s sends to no groups: %s", context->local_address,
              std::strerror(errno));
}

np_status join_group(const np_context* context, const Fd& fd, const Place& group, const Place& own) {
  ip_mreqn membership{};
  membership.imr_multiaddr = reinterpret_cast<const sockaddr_in&>(group.at).sin_addr;
  membership.imr_address = reinterpret_cast<const sockaddr_in&>(own.at).sin_addr;
  const int no = 0;
  if (set_ip(fd, IP_ADD_MEMBERSHIP, membership) && set_ip(fd, IP_MULTICAST_ALL, no)) return NP_OK;
  return fail(context, NP_UNAVAILABLE, "udp: the interface of %s cannot join group %s: %s", context->local_address,
              host_text(group).c_str(), std::strerror(errno));
}

int64_t path_mtu(const Place& own, const Place& peer) {
  const Fd fd(::socket(peer.at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP));
  Place from = own;
  from.set_port(0);
  if (!fd || ::bind(fd.get(), from.name(), from.bytes) != 0 || ::connect(fd.get(), peer.name(), peer.bytes) != 0) {
    return 0;
  }
  const int64_t mtu =
      peer.is_v4() ? socket_number(fd.get(), IPPROTO_IP, IP_MTU) : socket_number(fd.get(), IPPROTO_IPV6, IPV6_MTU);
  return std::max<int64_t>(mtu, 0);
}

}  // namespace netpipe::udp
