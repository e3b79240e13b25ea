// SPDX-License-Identifier: Apache-2.0
#include "tcp_facts.h"

#include <linux/mptcp.h>
#include <linux/tcp.h>  // before netinet/tcp.h, which has a shorter tcp_info and may not be included beside it
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <initializer_list>
#include <string>

#include "kit/streams/ip_address.h"
#include "tcp_tls.h"

namespace netpipe::tcp {
namespace {

using fd_io::interface_of;
using fd_io::kEmptyPolls;
using fd_io::kSleepsAfterSpin;
using fd_io::place_of;

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

// Of a connection that was asked for with protocol=mptcp. The first of its subflows is not counted.
mptcp_info mptcp_of(int fd) {
  mptcp_info info{};
  socklen_t bytes = sizeof info;
  constexpr int kSolMptcp = 284;  // of linux/socket.h, which is not for programs
  if (getsockopt(fd, kSolMptcp, MPTCP_INFO, &info, &bytes) != 0) info.mptcpi_flags = MPTCP_INFO_FLAG_FALLBACK;
  return info;
}

enum Counted {
  kRetransmits,
  kLost,
  kReordered,
  kBytesRetransmitted,
  kSegmentsOut,
  kSegmentsIn,
  kSegmentsDelivered,
  kBytesSent,
  kBytesReceived,
  kBusy,
  kRwndLimited,
  kSndbufLimited,
  kConnectionsMade,
  kSignals,
  kSignalsThatMoved,
  kSendsLent,
  kSendsCopied,
  kSendsRefused,
  kRegistered,
  kSubflows,
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
    {"segments_lost", "1", "segments thought lost and not yet acknowledged, of all connections", NP_GAUGE},
    {"reorderings", "1", "times that the peer was seen to receive segments out of order", NP_COUNTS_UP},
    {"bytes_retransmitted", "bytes", "bytes sent again", NP_COUNTS_UP},
    {"segments_out", "1", "segments sent", NP_COUNTS_UP},
    {"segments_in", "1", "segments received", NP_COUNTS_UP},
    {"segments_delivered", "1", "segments that the peer acknowledged", NP_COUNTS_UP},
    {"bytes_sent", "bytes", "bytes sent, retransmissions included", NP_COUNTS_UP},
    {"bytes_received", "bytes", "bytes received", NP_COUNTS_UP},
    {"busy_us", "us", "time in which bytes were waiting to be sent or acknowledged", NP_COUNTS_UP},
    {"rwnd_limited_us", "us", "time that the sender waited for the peer's window", NP_COUNTS_UP},
    {"sndbuf_limited_us", "us", "time that the sender waited for room in its send buffer", NP_COUNTS_UP},
    {"connections", "1", "connections made", NP_COUNTS_UP},
    {"signals", "1", "sleeps that SIGIO ended, with wait=sigio", NP_COUNTS_UP},
    {"signals_that_moved", "1", "signals whose handler moved bytes while the rank did something else", NP_COUNTS_UP},
    {"zerocopy_sends", "1", "sends from the message itself, by path=zerocopy, uring_zc, splice and sendfile",
     NP_COUNTS_UP},
    {"zerocopy_copied", "1", "those of them that the kernel copied after all, as it does over loopback", NP_COUNTS_UP},
    {"zerocopy_refused", "1", "sends that were copied for want of memory that may be locked", NP_COUNTS_UP},
    {"registered_bytes", "bytes", "of messages, registered with io_uring", NP_GAUGE},
    {"subflows", "1", "subflows of the connection used last, with protocol=mptcp", NP_GAUGE},
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
      totals.lost += info.tcpi_lost;
      totals.reordered += info.tcpi_reord_seen;
      totals.bytes_retransmitted += info.tcpi_bytes_retrans;
      totals.segments_out += info.tcpi_segs_out;
      totals.segments_in += info.tcpi_segs_in;
      totals.delivered += info.tcpi_delivered;
      totals.bytes_sent += info.tcpi_bytes_sent;
      totals.bytes_received += info.tcpi_bytes_received;
      totals.busy_us += info.tcpi_busy_time;
      totals.rwnd_limited_us += info.tcpi_rwnd_limited;
      totals.sndbuf_limited_us += info.tcpi_sndbuf_limited;
    }
  }
}

namespace {

struct Ends {
  sockaddr_storage own{}, peer{};
  socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
};
Ends ends_of(int fd) {
  Ends ends;
  getsockname(fd, reinterpret_cast<sockaddr*>(&ends.own), &ends.own_bytes);
  getpeername(fd, reinterpret_cast<sockaddr*>(&ends.peer), &ends.peer_bytes);
  return ends;
}

void describe_protocol(const np_value& protocol, int fd, np_emit emit, void* to) {
  np_emit_text(emit, to, "protocol", protocol.text);
  if (protocol.number != kMptcp) return;
  const mptcp_info info = mptcp_of(fd);
  np_emit_bool(emit, to, "mptcp_fell_back", (info.mptcpi_flags & MPTCP_INFO_FLAG_FALLBACK) != 0);
  np_emit_integer(emit, to, "mptcp_subflows", info.mptcpi_subflows + 1, "");
}

// Of each the first stream.
void describe_rails(const np_endpoint& endpoint, const np_endpoint::Wire& wire, np_emit emit, void* to) {
  if (endpoint.rails[0].device.empty()) return;
  np_emit_integer(emit, to, "rails", static_cast<int64_t>(endpoint.rails.size()), "");
  for (size_t i = 0; i < endpoint.rails.size(); ++i) {
    const int fd = wire.lane(static_cast<int>(i)).out;
    const Ends ends = ends_of(fd);
    const std::string name = "rail_" + std::to_string(i + 1);
    char device[IFNAMSIZ] = "";
    socklen_t bytes = sizeof device;
    getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, &bytes);
    const std::string carries = device[0] != '\0' ? device : interface_of(ends.own, ends.own_bytes);
    np_emit_text(emit, to, (name + "_local").c_str(), place_of(ends.own, ends.own_bytes).c_str());
    np_emit_text(emit, to, (name + "_peer").c_str(), place_of(ends.peer, ends.peer_bytes).c_str());
    np_emit_text(emit, to, (name + "_interface").c_str(),
                 (carries.empty() ? endpoint.rails[i].device : carries).c_str());
  }
}

}  // namespace

void describe(np_endpoint* endpoint, np_emit emit, void* to) {
  const np_value* options = endpoint->context->options;
  if (options[kWait].number == kWaitSigio) {
    np_emit_text(emit, to, "wait", np_waiting_word(NP_WAIT_BLOCK));
    np_emit_text(emit, to, "woken_by", "SIGIO");
    np_emit_text(emit, to, "moved_by", "SIGIO");
  } else {
    describe_waiting(options[kWait], options[kSpin], endpoint->context->oversubscribed != 0, emit, to);
  }
  if (endpoint->wires == nullptr) return;
  const np_endpoint::Wire& wire = endpoint->to(fd_io::opposite(endpoint->context));
  if (wire.lane_count() == 0) return;
  const int fd = wire.lane(0).in;
  const auto [own, peer, own_bytes, peer_bytes] = ends_of(fd);
  const bool v4 = own.ss_family == AF_INET;
  np_emit_text(emit, to, "ip", v4 ? "4" : "6");
  describe_protocol(options[kProtocol], fd, emit, to);
  np_emit_text(emit, to, "local", place_of(own, own_bytes).c_str());
  np_emit_text(emit, to, "peer", place_of(peer, peer_bytes).c_str());
  np_emit_text(emit, to, "interface", interface_of(own, own_bytes).c_str());
  const int64_t mtu = v4 ? number_of(fd, IPPROTO_IP, IP_MTU) : number_of(fd, IPPROTO_IPV6, IPV6_MTU);
  if (mtu > 0) np_emit_integer(emit, to, "path_mtu_bytes", mtu, "bytes");  // of protocol=mptcp the kernel tells none
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
  np_emit_text(emit, to, "path", options[kPath].text);
  const auto path = static_cast<PathKind>(options[kPath].number);
  if (path != PathKind::copy && path != PathKind::uring)
    np_emit_integer(emit, to, "zerocopy_min_bytes", options[kZerocopyMin].number, "bytes");
  np_emit_text(emit, to, "tls", options[kTls].text);
  if (options[kTls].number != kTlsNo) {
    np_emit_text(emit, to, "tls_suite", "TLS_AES_128_GCM_SHA256");
    np_emit_text(emit, to, "tls_library", tls_library().c_str());
  }
  describe_rails(*endpoint, wire, emit, to);
  np_emit_text(emit, to, "connections", options[kConnections].text);
  np_emit_text(emit, to, "reopen", options[kReopen].text);
}

std::span<const np_counter> counters() { return kCounters; }

void read_counters(np_endpoint* endpoint, int64_t* values) {
  std::fill_n(values, +kCounted, INT64_MIN);
  if (endpoint->wires == nullptr) return;
  Totals totals = endpoint->closed;
  totals.lost = 0;  // those of closed connections are history
  std::fill_n(values + kWaiting, kCounted - kWaiting, 0);
  for (const auto& wires : endpoint->of_class) {
    if (!wires) continue;
    add_counts(totals, *wires);
    fd_io::add_waiting(wires->traffic(), values + kWaiting);
  }
  const np_endpoint::Wire& used = endpoint->to(fd_io::opposite(endpoint->context));
  const auto made = uint64_t{endpoint->generation} * static_cast<uint64_t>(used.lane_count()) *
                    static_cast<uint64_t>(endpoint->context->nranks - 1);
  const auto put = [values](Counted first, std::initializer_list<uint64_t> numbers) {
    std::copy(numbers.begin(), numbers.end(), values + first);
  };
  put(kRetransmits, {totals.retransmits, totals.lost, totals.reordered, totals.bytes_retransmitted, totals.segments_out,
                     totals.segments_in, totals.delivered, totals.bytes_sent, totals.bytes_received, totals.busy_us,
                     totals.rwnd_limited_us, totals.sndbuf_limited_us, made});
  if (endpoint->path) {
    const PathCounts& counts = endpoint->path->counts();
    values[kSignals] = counts.signals;
    values[kSignalsThatMoved] = counts.moved;
    values[kSendsLent] = counts.lent;
    values[kSendsCopied] = counts.copied;
    values[kSendsRefused] = counts.refused;
    values[kRegistered] = counts.registered;
  }
  if (used.lane_count() > 0) {
    const tcp_info info = info_of(used.lane(0).in);
    put(kRtt, {info.tcpi_rtt, info.tcpi_rttvar, info.tcpi_min_rtt, info.tcpi_snd_cwnd, info.tcpi_delivery_rate});
    if (endpoint->context->options[kProtocol].number == kMptcp) {
      values[kSubflows] = mptcp_of(used.lane(0).in).mptcpi_subflows + 1;
    }
  }
}

}  // namespace netpipe::tcp
