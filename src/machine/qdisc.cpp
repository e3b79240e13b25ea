// SPDX-License-Identifier: Apache-2.0
// Source of the format: netlink(7), rtnetlink(7), linux/pkt_sched.h.
#include "machine/qdisc.h"

#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/descriptor.h"

namespace netpipe {
namespace {

using Bytes = std::span<const std::byte>;

// Nothing in an answer is aligned for what it is.
template <typename T>
std::optional<T> front(Bytes bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

Bytes from(Bytes bytes, std::size_t offset) { return bytes.subspan(std::min(offset, bytes.size())); }

// The content of an attribute; empty where it is not there.
Bytes attribute(Bytes all, unsigned short type) {
  while (const auto head = front<rtattr>(all)) {
    if (head->rta_len < sizeof *head || head->rta_len > all.size()) break;
    if (head->rta_type == type) return all.subspan(sizeof *head, head->rta_len - sizeof *head);
    all = from(all, RTA_ALIGN(head->rta_len));
  }
  return {};
}

std::string text_of(Bytes bytes) {
  const auto* const text = reinterpret_cast<const char*>(bytes.data());
  return {text, strnlen(text, bytes.size())};
}

void read_tbf(Bytes options, Qdisc& qdisc) {
  const auto parameters = front<tc_tbf_qopt>(attribute(options, TCA_TBF_PARMS));
  if (!parameters) return;
  // The field of 32 bits is full from 34 Gbit/s on, and then there is one of 64.
  const std::uint64_t bytes_per_s =
      front<std::uint64_t>(attribute(options, TCA_TBF_RATE64)).value_or(parameters->rate.rate);
  qdisc.bits_per_s = 8 * bytes_per_s;
  // The bucket is told as the time that it takes to fill, in the scheduler's ticks of 64 ns (net/pkt_sched.h).
  qdisc.burst_bytes = std::llround(parameters->buffer * 64e-9 * static_cast<double>(bytes_per_s));
}

void read_qdisc(Bytes message, Qdiscs& into) {
  const auto head = front<tcmsg>(message);
  if (!head || head->tcm_parent != TC_H_ROOT) return;
  const Bytes attributes = from(message, NLMSG_ALIGN(sizeof *head));
  const Bytes kind = attribute(attributes, TCA_KIND);
  if (kind.empty()) return;
  Qdisc qdisc;
  qdisc.kind = text_of(kind);
  if (qdisc.kind == "tbf") read_tbf(attribute(attributes, TCA_OPTIONS), qdisc);
  into[head->tcm_ifindex] = std::move(qdisc);
}

}  // namespace

bool read_qdiscs(Bytes answer, Qdiscs& into) {
  while (const auto head = front<nlmsghdr>(answer)) {
    if (head->nlmsg_type == NLMSG_DONE || head->nlmsg_type == NLMSG_ERROR) return false;
    if (head->nlmsg_len < sizeof *head || head->nlmsg_len > answer.size()) return false;
    if (head->nlmsg_type == RTM_NEWQDISC)
      read_qdisc(answer.subspan(sizeof *head, head->nlmsg_len - sizeof *head), into);
    answer = from(answer, NLMSG_ALIGN(head->nlmsg_len));
  }
  return true;
}

Qdiscs root_qdiscs() {
  Qdiscs found;
  const Descriptor fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  const timeval limit{1, 0};
  if (!fd || setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) return found;
  struct Request {
    nlmsghdr head;
    tcmsg message;
  } request{};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = RTM_GETQDISC;
  request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.message.tcm_family = AF_UNSPEC;
  if (send(fd.get(), &request, sizeof request, 0) != static_cast<ssize_t>(sizeof request)) return found;
  std::vector<std::byte> room(32768);  // the kernel fills no more of a read
  for (;;) {
    const ssize_t got = recv(fd.get(), room.data(), room.size(), 0);
    if (got <= 0 || !read_qdiscs(Bytes(room).first(static_cast<std::size_t>(got)), found)) return found;
  }
}

}  // namespace netpipe
