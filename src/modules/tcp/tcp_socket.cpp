// SPDX-License-Identifier: Apache-2.0
#include "tcp_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "kit/streams/fd_connect.h"
#include "tcp_options.h"

namespace netpipe::tcp {

namespace {

using namespace netpipe::fd_io;

np_status set_option(const np_context* context, int fd, Option option, int level, int name) {
  const int value = static_cast<int>(context->options[option].number);
  if (setsockopt(fd, level, name, &value, sizeof value) == 0) return NP_OK;
  const int error = errno;
  return fail(context, error == EINVAL ? NP_USAGE : NP_UNAVAILABLE, "tcp: %s=%s: %s%s", kTable[option].name,
              context->options[option].text, std::strerror(error), error == EPERM ? "; it needs CAP_NET_ADMIN" : "");
}

np_status set_congestion(const np_context* context, int fd) {
  const std::string name = context->options[kCongestion].text;
  if (name.empty() ||
      setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0)
    return NP_OK;
  const int error = errno;
  std::string known;
  std::getline(std::ifstream("/proc/sys/net/ipv4/tcp_available_congestion_control"), known);
  return fail(context, NP_UNAVAILABLE, "tcp: congestion=%s: %s; this kernel has: %s", name.c_str(),
              std::strerror(error), known.c_str());
}

}  // namespace

np_status make_socket(const np_context* context, int family, Fd& made) {
  const np_value* options = context->options;
  const bool multipath = options[kProtocol].number == kMptcp;
  Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, multipath ? IPPROTO_MPTCP : IPPROTO_TCP));
  if (!fd) {
    const int version = family == AF_INET ? 4 : 6;
    if (multipath) {
      return fail(context, NP_UNAVAILABLE,
                  "tcp: protocol=mptcp: %s; it needs Linux 5.6 with CONFIG_MPTCP, and sysctl net.mptcp.enabled=1",
                  std::strerror(errno));
    }
    return fail(context, NP_UNAVAILABLE, "tcp: cannot create an IPv%d socket: %s", version, std::strerror(errno));
  }
  const struct {
    Option option;
    int level, name;
  } numbers[] = {{kSndbuf, SOL_SOCKET, SO_SNDBUF},
                 {kRcvbuf, SOL_SOCKET, SO_RCVBUF},
                 {kMss, IPPROTO_TCP, TCP_MAXSEG},
                 {kBusyPoll, SOL_SOCKET, SO_BUSY_POLL},
                 {kNodelay, IPPROTO_TCP, TCP_NODELAY}};
  for (const auto& number : numbers) {
    if (options[number.option].number == 0) continue;
    if (const np_status s = set_option(context, fd.get(), number.option, number.level, number.name); s != NP_OK)
      return s;
  }
  if (const np_status s = set_congestion(context, fd.get()); s != NP_OK) return s;
  made = std::move(fd);
  return NP_OK;
}

}  // namespace netpipe::tcp
