// SPDX-License-Identifier: Apache-2.0
#include "udp_facts.h"

#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "udp_datagram.h"
#include "udp_options.h"
#include "udp_socket.h"

namespace netpipe::udp {
namespace {

enum Counted {
  kDatagramsSent,
  kNotSent,
  kDatagramsReceived,
  kMessagesReceived,
  kMessagesReordered,
  kMessagesLost,
  kDatagramsLost,
  kKernelDrops,
  kLate,
  kDuplicates,
  kStrangers,
  kQuestions,
  kAnswered,
  kDelays,
  kDelayChangesNs,
  kEmptyPolls,
  kSleepsAfterSpin,
  kCounted
};
constexpr np_counter kCounters[kCounted] = {
    {"datagrams_sent", "1", "datagrams of messages that left", NP_COUNTS_UP},
    {"not_sent", "1", "datagrams that this host dropped before they left (a full queue, a firewall)", NP_COUNTS_UP},
    {"datagrams_received", "1", "datagrams of messages that came, also late and twice", NP_COUNTS_UP},
    {"messages_received", "1", "messages that became whole", NP_COUNTS_UP},
    {"messages_reordered", "1", "of these, with a datagram that came behind a later one", NP_COUNTS_UP},
    {"messages_lost", "1", "messages that never became whole", NP_COUNTS_UP},
    {"datagrams_lost", "1", "datagrams that these lacked", NP_COUNTS_UP},
    {"kernel_drops", "1", "datagrams that the kernel dropped at the receiving sockets, mostly for a full buffer",
     NP_COUNTS_UP},
    {"late", "1", "datagrams of messages that counted as lost when they came", NP_COUNTS_UP},
    {"duplicates", "1", "datagrams that came again", NP_COUNTS_UP},
    {"strangers", "1", "datagrams that were dropped because they belong to no rank of this measurement", NP_COUNTS_UP},
    {"questions", "1", "times that this rank asked whether a message had left", NP_COUNTS_UP},
    {"answered", "1", "such questions of the others", NP_COUNTS_UP},
    {"delays_compared", "1", "messages, one in 16, whose delay was compared with that of the one before", NP_COUNTS_UP},
    {"delay_changes_ns", "ns", "by how much these delays differed, altogether", NP_COUNTS_UP},
    {"empty_polls", "1", "looks that found nothing", NP_COUNTS_UP},
    {"sleeps_after_spin", "1", "sleeps after polling for spin_us in vain", NP_COUNTS_UP},
};

constexpr np_measure kMeasures[] = {
    {"reordered", "1", "messages of which a datagram came behind a later one", kMessagesReordered, kMessagesReceived},
    {"jitter", "ns", "mean absolute difference of the one-way delays of a message and the one before, of one in 16",
     kDelayChangesNs, kDelays},
};

uint64_t drops_of(int fd) {
  uint32_t memory[SK_MEMINFO_VARS] = {};
  socklen_t bytes = sizeof memory;
  return getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &bytes) == 0 ? memory[SK_MEMINFO_DROPS] : 0;
}

void describe_datagrams(const np_endpoint& endpoint, const np_endpoint::Link& link, np_emit emit, void* to) {
  const int64_t payload = link.out->payload(), packet = payload + ip_headers(endpoint.own);
  np_emit_integer(emit, to, "path_mtu_bytes", link.mtu, "bytes");
  np_emit_integer(emit, to, "payload_bytes", payload, "bytes");
  np_emit_integer(emit, to, "header_bytes", sizeof(Header), "bytes");
  np_emit_integer(emit, to, "message_bytes_per_datagram", payload - static_cast<int64_t>(sizeof(Header)), "bytes");
  np_emit_bool(emit, to, "ip_fragments", link.mtu > 0 && packet > link.mtu ? 1 : 0);
  np_emit_integer(emit, to, "batch", link.way.batch, "");
  const int64_t segment = socket_number(link.fd.get(), IPPROTO_UDP, UDP_SEGMENT);
  np_emit_bool(emit, to, "gso", segment > 0 ? 1 : 0);
  np_emit_bool(emit, to, "gro", endpoint.context->options[kGro].number != 0);
}

}  // namespace

void describe(np_endpoint* endpoint, np_emit emit, void* to) {
  const np_context* context = endpoint->context;
  const np_value* options = context->options;
  describe_waiting(options[kWait], options[kSpin], context->oversubscribed != 0, emit, to);
  const int opposite = context->nranks - 1 - context->rank;
  const int peer = opposite != context->rank ? opposite : 0;
  const np_endpoint::Link& link = endpoint->links[static_cast<size_t>(peer)];
  if (!link.in || !link.out) return;
  const int fd = link.fd.get();
  np_emit_text(emit, to, "ip", endpoint->own.is_v4() ? "4" : "6");
  np_emit_text(emit, to, "local", text_of(link.own).c_str());
  np_emit_text(emit, to, "peer", text_of(link.way.from).c_str());
  np_emit_text(emit, to, "interface", interface_of(endpoint->own).c_str());
  np_emit_bool(emit, to, "connected", link.way.connected);
  if (endpoint->group.bytes != 0) {
    np_emit_text(emit, to, "multicast_group", host_text(endpoint->group).c_str());
    np_emit_integer(emit, to, "multicast_ttl", multicast_ttl(link.fd, endpoint->own), "");
  }
  if (endpoint->casts.out) {
    np_emit_text(emit, to, "cast_group", host_text(endpoint->casts.group).c_str());
    np_emit_integer(emit, to, "cast_ttl", multicast_ttl(endpoint->casts.fd, endpoint->own), "");
    np_emit_integer(emit, to, "cast_payload_bytes", endpoint->casts.out->payload(), "bytes");
  }
  describe_datagrams(*endpoint, link, emit, to);
  np_emit_integer(emit, to, "sndbuf_kernel_bytes", socket_number(fd, SOL_SOCKET, SO_SNDBUF), "bytes");
  np_emit_integer(emit, to, "rcvbuf_kernel_bytes", socket_number(fd, SOL_SOCKET, SO_RCVBUF), "bytes");
  np_emit_integer(emit, to, "busy_poll_us", socket_number(fd, SOL_SOCKET, SO_BUSY_POLL), "us");
  np_emit_text(emit, to, "pacing", options[kRate].number != 0 ? "clock" : "none");
  if (options[kRate].number != 0) np_emit_integer(emit, to, "rate_mbit_per_s", options[kRate].number, "Mbit/s");
  np_emit_integer(emit, to, "reorder", options[kReorder].number, "");
  np_emit_real(emit, to, "first_rtt_us", static_cast<double>(link.rtt_ns) * 1e-3, "us");
  np_emit_real(emit, to, "patience_us", static_cast<double>(link.in->patience_ns()) * 1e-3, "us");
}

std::span<const np_counter> counters() { return kCounters; }

std::span<const np_measure> measures() { return kMeasures; }

void read_counters(np_endpoint* endpoint, int64_t* values) {
  std::fill_n(values, +kCounted, 0);
  const auto add = [values](Counted which, uint64_t value) { values[which] += static_cast<int64_t>(value); };
  const auto add_sent = [&](const Outbox& out) {
    add(kDatagramsSent, out.datagrams());
    add(kNotSent, out.not_sent());
  };
  const auto add_received = [&](const Inbox& in, const fd_io::Fd& fd) {
    const Arrivals& came = in.count();
    add(kDatagramsReceived, came.datagrams + came.at_once);
    add(kMessagesReceived, came.whole + came.at_once);
    add(kMessagesReordered, came.reordered);
    add(kMessagesLost, came.messages_lost);
    add(kDatagramsLost, came.datagrams_lost);
    add(kKernelDrops, drops_of(fd.get()));
    add(kLate, came.late);
    add(kDuplicates, came.duplicates);
    add(kStrangers, came.strangers);
    add(kQuestions, came.questions);
    add(kEmptyPolls, came.empty_polls);
    add(kSleepsAfterSpin, came.sleeps);
    add(kDelays, came.delays);
    add(kDelayChangesNs, came.changes_ns);
  };
  for (const np_endpoint::Link& link : endpoint->links) {
    if (!link.in || !link.out) continue;
    add_sent(*link.out);
    add_received(*link.in, link.incoming());
  }
  if (endpoint->casts.out) add_sent(*endpoint->casts.out);
  for (const Casts::Source& source : endpoint->casts.sources) {
    if (source.in) add_received(*source.in, source.fd);
  }
  add(kStrangers, endpoint->clerk.strangers());
  add(kAnswered, endpoint->clerk.answered());
}

}  // namespace netpipe::udp
