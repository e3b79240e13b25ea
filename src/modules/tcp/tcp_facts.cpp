// SPDX-License-Identifier: Apache-2.0
#include "tcp_facts.h"

#include <linux/tcp.h>  // before netinet/tcp.h, which has a shorter tcp_info and may not be included beside it
#include <netinet/in.h>

#include <algorithm>
#include <string>

#include "tcp_address.h"

namespace netpipe::tcp {
namespace {

using fd_io::kEmptyPolls;
using fd_io::kSleepsAfterSpin;

// A kernel older than this header fills less of it; the rest stays 0.
tcp_info info_of(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes);
  return info;
}

int64_t number_of(int fd, int level, int name) {
  int value = -1;
  socklen_t bytes = sizeof value;
  getsockopt(fd, level, name, &value, &bytes);
  return value;
}

enum Counted {
  kRetransmits,
  kSegmentsOut,
  kSegmentsIn,
  kSegmentsDelivered,
  kBytesSent,
  kBytesReceived,
  kRwndLimited,
  kSndbufLimited,
  kConnectionsMade,
  kRtt,
  kRttVar,
  kMinRtt,
  kCwnd,
  kDeliveryRate,
  kWaiting,
  kCounted = kWaiting + 2
};
constexpr np_counter kCounters[kCounted] = {
    {"retransmits", "1", "segments sent again", NP_COUNTS_UP},
    {"segments_out", "1", "segments sent", NP_COUNTS_UP},
    {"segments_in", "1", "segments received", NP_COUNTS_UP},
    {"segments_delivered", "1", "segments that the peer acknowledged", NP_COUNTS_UP},
    {"bytes_sent", "bytes", "bytes sent, retransmissions included", NP_COUNTS_UP},
    {"bytes_received", "bytes", "bytes received", NP_COUNTS_UP},
    {"rwnd_limited_us", "us", "time that the sender waited for the peer's window", NP_COUNTS_UP},
    {"sndbuf_limited_us", "us", "time that the sender waited for room in its send buffer", NP_COUNTS_UP},
    {"connections", "1", "connections made", NP_COUNTS_UP},
    {"rtt_us", "us", "smoothed round-trip time of the connection used last", NP_GAUGE},
    {"rttvar_us", "us", "its mean deviation", NP_GAUGE},
    {"min_rtt_us", "us", "its minimum", NP_GAUGE},
    {"cwnd_segments", "1", "congestion window of the connection used last", NP_GAUGE},
    {"delivery_rate_bytes_per_s", "bytes/s", "delivery rate that the kernel estimates for it", NP_GAUGE},
    kEmptyPolls,
    kSleepsAfterSpin,
};

}  // namespace

void add_counts(Totals& totals, const np_endpoint::Wires& wires) {
  for (const np_endpoint::Wire* wire : wires.traffic().wires) {
    for (int j = 0; j < wire->lane_count(); ++j) {
      const tcp_info info = info_of(wire->lane(j).in);
      totals.retransmits += info.tcpi_total_retrans;
      totals.segments_out += info.tcpi_segs_out;
      totals.segments_in += info.tcpi_segs_in;
      totals.delivered += info.tcpi_delivered;
      totals.bytes_sent += info.tcpi_bytes_sent;
      totals.bytes_received += info.tcpi_bytes_received;
      totals.rwnd_limited_us += info.tcpi_rwnd_limited;
      totals.sndbuf_limited_us += info.tcpi_sndbuf_limited;
    }
  }
}

void describe(np_endpoint* endpoint, np_emit emit, void* to) {
  const np_value* options = endpoint->context->options;
  describe_waiting(options[kWait], options[kSpin], endpoint->context->oversubscribed != 0, emit, to);
  if (endpoint->wires == nullptr) return;
  const np_endpoint::Wire& wire = endpoint->to(fd_io::opposite(endpoint->context));
  if (wire.lane_count() == 0) return;
  const int fd = wire.lane(0).in;
  sockaddr_storage own{}, peer{};
  socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
  getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_bytes);
  getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_bytes);
  const bool v4 = own.ss_family == AF_INET;
  np_emit_text(emit, to, "ip", v4 ? "4" : "6");
  np_emit_text(emit, to, "local", place_of(own, own_bytes).c_str());
  np_emit_text(emit, to, "peer", place_of(peer, peer_bytes).c_str());
  np_emit_text(emit, to, "interface", interface_of(own, own_bytes).c_str());
  np_emit_integer(emit, to, "path_mtu_bytes",
                  v4 ? number_of(fd, IPPROTO_IP, IP_MTU) : number_of(fd, IPPROTO_IPV6, IPV6_MTU), "bytes");
  // What the kernel gave: its bookkeeping included, so twice what was asked for; with autotuning, the size at this
  // moment.
  np_emit_integer(emit, to, "sndbuf_kernel_bytes", number_of(fd, SOL_SOCKET, SO_SNDBUF), "bytes");
  np_emit_integer(emit, to, "rcvbuf_kernel_bytes", number_of(fd, SOL_SOCKET, SO_RCVBUF), "bytes");
  np_emit_bool(emit, to, "sndbuf_autotuned", options[kSndbuf].number == 0);
  np_emit_bool(emit, to, "rcvbuf_autotuned", options[kRcvbuf].number == 0);
  np_emit_bool(emit, to, "nodelay", number_of(fd, IPPROTO_TCP, TCP_NODELAY) > 0);
  np_emit_text(emit, to, "quickack", options[kQuickack].number != 0 ? "set again after each receive" : "no");
  char congestion[64] = "";
  socklen_t bytes = sizeof congestion - 1;
  getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, &bytes);
  np_emit_text(emit, to, "congestion", congestion);
  const tcp_info info = info_of(fd);
  np_emit_integer(emit, to, "snd_mss_bytes", info.tcpi_snd_mss, "bytes");
  np_emit_integer(emit, to, "snd_wscale", info.tcpi_snd_wscale, "");
  np_emit_integer(emit, to, "rcv_wscale", info.tcpi_rcv_wscale, "");
  np_emit_bool(emit, to, "timestamps", (info.tcpi_options & TCPI_OPT_TIMESTAMPS) != 0);
  np_emit_bool(emit, to, "sack", (info.tcpi_options & TCPI_OPT_SACK) != 0);
  np_emit_integer(emit, to, "busy_poll_us", number_of(fd, SOL_SOCKET, SO_BUSY_POLL), "us");
  np_emit_integer(emit, to, "streams", wire.lane_count(), "");
  if (wire.lane_count() > 1) np_emit_integer(emit, to, "stripe_bytes", options[kStripe].number, "bytes");
  np_emit_text(emit, to, "connections", options[kConnections].text);
  np_emit_text(emit, to, "reopen", options[kReopen].text);
}

std::span<const np_counter> counters() { return kCounters; }

void read_counters(np_endpoint* endpoint, int64_t* values) {
  std::fill_n(values, +kCounted, INT64_MIN);
  if (endpoint->wires == nullptr) return;
  Totals totals = endpoint->closed;
  std::fill_n(values + kWaiting, kCounted - kWaiting, 0);
  for (const auto& wires : endpoint->of_class) {
    if (!wires) continue;
    add_counts(totals, *wires);
    fd_io::add_waiting(wires->traffic(), values + kWaiting);
  }
  const np_endpoint::Wire& used = endpoint->to(fd_io::opposite(endpoint->context));
  const auto made = uint64_t{endpoint->generation} * static_cast<uint64_t>(used.lane_count()) *
                    static_cast<uint64_t>(endpoint->context->nranks - 1);
  const auto keep = [values](Counted which, uint64_t value) { values[which] = static_cast<int64_t>(value); };
  keep(kRetransmits, totals.retransmits);
  keep(kSegmentsOut, totals.segments_out);
  keep(kSegmentsIn, totals.segments_in);
  keep(kSegmentsDelivered, totals.delivered);
  keep(kBytesSent, totals.bytes_sent);
  keep(kBytesReceived, totals.bytes_received);
  keep(kRwndLimited, totals.rwnd_limited_us);
  keep(kSndbufLimited, totals.sndbuf_limited_us);
  keep(kConnectionsMade, made);
  if (used.lane_count() > 0) {
    const tcp_info info = info_of(used.lane(0).in);
    keep(kRtt, info.tcpi_rtt);
    keep(kRttVar, info.tcpi_rttvar);
    keep(kMinRtt, info.tcpi_min_rtt);
    keep(kCwnd, info.tcpi_snd_cwnd);
    keep(kDeliveryRate, info.tcpi_delivery_rate);
  }
}

}  // namespace netpipe::tcp
