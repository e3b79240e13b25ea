// SPDX-License-Identifier: Apache-2.0
// tcp: messages over one TCP connection, or striped over several. Rank 1 listens, rank 0 connects and proves itself.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/tcp.h>  // before netinet/tcp.h, which has a shorter tcp_info and may not be included beside it
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <fstream>
#include <memory>
#include <new>
#include <string>

#include "kit/fd_connect.h"
#include "kit/fd_io.h"
#include "netpipe/module.h"

namespace {

using namespace netpipe::fd_io;

enum Option {
  kIp,
  kPort,
  kSndbuf,
  kRcvbuf,
  kNodelay,
  kQuickack,
  kCongestion,
  kMss,
  kBusyPoll,
  kWait,
  kSpin,
  kStreams,
  kStripe,
  kConnections,
  kReopen,
  kOptions
};

constexpr int64_t kMostBuffer = INT32_MAX / 2;  // the kernel doubles what it is asked for, in an int

constexpr np_option kTable[kOptions] = {
    {"ip", NP_CHOICE, "auto", 0, 0, "auto|4|6", "",
     "IP version; auto takes that of the address that this rank was given", 0},
    {"port", NP_INT, "0", 0, 65535, nullptr, "", "TCP port that rank 1 listens on; 0 lets the kernel choose", 0},
    {"sndbuf", NP_SIZE, "0", 0, kMostBuffer, nullptr, "bytes",
     "SO_SNDBUF, set before connecting; 0 leaves the kernel's autotuning", 1},
    {"rcvbuf", NP_SIZE, "0", 0, kMostBuffer, nullptr, "bytes",
     "SO_RCVBUF, set before connecting; 0 leaves the kernel's autotuning", 1},
    {"nodelay", NP_BOOL, "yes", 0, 0, nullptr, "", "TCP_NODELAY: send small segments at once (no Nagle)", 1},
    {"quickack", NP_BOOL, "no", 0, 0, nullptr, "",
     "TCP_QUICKACK: acknowledge at once; the kernel forgets it, so it is set again after each receive, a system call",
     1},
    {"congestion", NP_TEXT, "", 0, 0, nullptr, "", "congestion control, such as cubic; empty leaves the system's", 1},
    {"mss", NP_INT, "0", 0, 32767, nullptr, "bytes", "TCP_MAXSEG, set before connecting; 0 leaves what the path allows",
     1},
    {"busy_poll", NP_INT, "0", 0, 1'000'000, nullptr, "us",
     "SO_BUSY_POLL: how long a receive asks the device itself before it sleeps; needs CAP_NET_ADMIN", 1},
    kWaitOption,
    kSpinOption,
    {"streams", NP_INT, "1", 1, kMaxLanes, nullptr, "", "connections that one message is striped over", 1},
    {"stripe", NP_SIZE, "64k", 1, 1 << 30, nullptr, "bytes", "what goes to one connection before the next one's turn",
     1},
    {"connections", NP_CHOICE, "by_size", 0, 0, "by_size|one", "",
     "by_size: messages of each power of two have connections of their own, so that none is measured on the window and "
     "the buffers that other sizes left; one: all sizes share them, as in an application that mixes sizes",
     0},
    {"reopen", NP_BOOL, "yes", 0, 0, nullptr, "",
     "connect anew where a pattern asks for it, so that each sample starts from a fresh window", 0},
};

// Messages below this size fit any window, so they need no connections of their own.
constexpr int kSmallBits = 12;
constexpr size_t kSizeClasses = 24;

size_t size_class(size_t bytes) {
  const size_t above = (std::max<size_t>(bytes, 1) - 1) >> kSmallBits;
  return std::min<size_t>(static_cast<size_t>(std::bit_width(above)), kSizeClasses - 1);
}

// What TCP_INFO counts over the life of a connection, summed over connections.
struct Totals {
  uint64_t retransmits = 0, segments_out = 0, segments_in = 0, delivered = 0, bytes_sent = 0, bytes_received = 0;
  uint64_t rwnd_limited_us = 0, sndbuf_limited_us = 0;
};

}  // namespace

struct np_endpoint {
  explicit np_endpoint(const np_context* given) : context(given), quickack(given->options[kQuickack].number != 0) {}

  [[nodiscard]] Wire<SocketIo>& active() const { return *wire; }

  const np_context* context;
  bool quickack;
  // By class of size, made when the first message of a class is announced; and the one in use.
  std::array<std::unique_ptr<Wire<SocketIo>>, kSizeClasses> wires;
  Wire<SocketIo>* wire = nullptr;
  Fd listener;            // rank 1
  sockaddr_storage at{};  // where rank 1 listens
  socklen_t at_bytes = 0;
  std::string place;  // the same for people: "127.0.0.1 port 40001"
  Hello hello;
  uint32_t generation = 0;  // counts the times that the lanes were connected
  Totals closed;            // what the connections have counted that are closed by now
};

namespace {

// What an address looks like on its way to the other rank.
struct Blob {
  uint8_t version;  // 4 or 6
  uint8_t unused;
  uint8_t port[2];   // network order
  uint8_t host[16];  // network order; IPv4: the first four
};
static_assert(sizeof(Blob) == 20);

np_status probe(char* message, size_t message_bytes) {
  if (Fd(::socket(AF_INET, SOCK_STREAM, 0)) || Fd(::socket(AF_INET6, SOCK_STREAM, 0))) return NP_OK;
  std::snprintf(message, message_bytes, "this kernel gives no TCP sockets: %s", std::strerror(errno));
  return NP_UNAVAILABLE;
}

std::string place_of(const sockaddr_storage& address, socklen_t bytes) {
  char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
  getnameinfo(reinterpret_cast<const sockaddr*>(&address), bytes, host, sizeof host, port, sizeof port,
              NI_NUMERICHOST | NI_NUMERICSERV);
  return std::string(host) + " port " + port;
}

// The address that this rank was given, in the IP version that the option asks for.
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
    return fail(context, NP_USAGE, "tcp: '%s' is no numeric IP address to bind to", given.c_str());
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

// A socket with everything set that has to be set before it connects or listens: the buffers decide the window scale.
np_status make_socket(const np_context* context, int family, Fd& made) {
  const np_value* options = context->options;
  Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!fd) {
    const int version = family == AF_INET ? 4 : 6;
    return fail(context, NP_UNAVAILABLE, "tcp: no socket of IPv%d: %s", version, std::strerror(errno));
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

np_status listen_at(np_endpoint& endpoint, sockaddr_storage at, socklen_t bytes) {
  const np_context* context = endpoint.context;
  const uint16_t port = htons(static_cast<uint16_t>(context->options[kPort].number));
  (at.ss_family == AF_INET ? reinterpret_cast<sockaddr_in*>(&at)->sin_port
                           : reinterpret_cast<sockaddr_in6*>(&at)->sin6_port) = port;
  if (const np_status s = make_socket(context, at.ss_family, endpoint.listener); s != NP_OK) return s;
  const int fd = endpoint.listener.get();
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);  // connections in TIME_WAIT do not block a chosen port
  if (::bind(fd, reinterpret_cast<sockaddr*>(&at), bytes) != 0 || ::listen(fd, 2 * kMaxLanes) != 0) {
    const int error = errno;
    return fail(context, error == EADDRINUSE || error == EACCES ? NP_UNAVAILABLE : NP_FAILED,
                "tcp: cannot listen at %s: %s%s", place_of(at, bytes).c_str(), std::strerror(error),
                error == EADDRINUSE ? "; give another port, or 0 for a free one" : "");
  }
  set_blocking(fd, false);
  endpoint.at_bytes = sizeof endpoint.at;
  getsockname(fd, reinterpret_cast<sockaddr*>(&endpoint.at), &endpoint.at_bytes);
  return NP_OK;
}

np_status open(const np_context* context, np_endpoint** endpoint) {
  std::unique_ptr<np_endpoint> made(new (std::nothrow) np_endpoint(context));
  if (!made) return fail(context, NP_NO_MEMORY, "tcp: no memory for an endpoint");
  sockaddr_storage own{};
  socklen_t own_bytes = 0;
  if (const np_status s = own_address(context, own, own_bytes); s != NP_OK) return s;
  if (context->rank == 1) {
    if (const np_status s = listen_at(*made, own, own_bytes); s != NP_OK) return s;
  } else {
    Fd trial;  // options that this host refuses are refused here and not when both ranks wait
    if (const np_status s = make_socket(context, own.ss_family, trial); s != NP_OK) return s;
    if (!make_proof(made->hello)) return fail(context, NP_FAILED, "tcp: getrandom: %s", std::strerror(errno));
  }
  *endpoint = made.release();
  return NP_OK;
}

np_status address(np_endpoint* endpoint, void* data, size_t* bytes) {
  Blob blob{};
  const void* source = &blob;
  size_t wanted = sizeof blob;
  if (endpoint->context->rank == 0) {
    source = endpoint->hello.proof.data();
    wanted = endpoint->hello.proof.size();
  } else if (endpoint->at.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(endpoint->at);
    blob.version = 4;
    std::memcpy(blob.port, &v4.sin_port, sizeof blob.port);
    std::memcpy(blob.host, &v4.sin_addr, sizeof v4.sin_addr);
  } else {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(endpoint->at);
    blob.version = 6;
    std::memcpy(blob.port, &v6.sin6_port, sizeof blob.port);
    std::memcpy(blob.host, &v6.sin6_addr, sizeof v6.sin6_addr);
  }
  if (*bytes < wanted) return fail(endpoint->context, NP_FAILED, "tcp: no room for an address of %zu bytes", wanted);
  std::memcpy(data, source, wanted);
  *bytes = wanted;
  return NP_OK;
}

// Rank 0: where rank 1 listens.
np_status read_blob(np_endpoint& endpoint, const void* data, size_t bytes) {
  Blob blob{};
  if (bytes != sizeof blob) return fail(endpoint.context, NP_FAILED, "tcp: the address of rank 1 is malformed");
  std::memcpy(&blob, data, sizeof blob);
  endpoint.at = {};
  if (blob.version == 4) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(endpoint.at);
    v4.sin_family = AF_INET;
    std::memcpy(&v4.sin_port, blob.port, sizeof blob.port);
    std::memcpy(&v4.sin_addr, blob.host, sizeof v4.sin_addr);
    endpoint.at_bytes = sizeof v4;
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(endpoint.at);
    v6.sin6_family = AF_INET6;
    std::memcpy(&v6.sin6_port, blob.port, sizeof blob.port);
    std::memcpy(&v6.sin6_addr, blob.host, sizeof v6.sin6_addr);
    endpoint.at_bytes = sizeof v6;
    if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) {  // means something on one interface only: that of this rank's address
      sockaddr_storage own{};
      socklen_t own_bytes = 0;
      if (const np_status s = own_address(endpoint.context, own, own_bytes); s != NP_OK) return s;
      sockaddr_in6 own6{};
      if (own.ss_family == AF_INET6) std::memcpy(&own6, &own, sizeof own6);
      v6.sin6_scope_id = own6.sin6_scope_id;
    }
  }
  return NP_OK;
}

// Collective: all lanes of the wire in use, anew.
np_status join(np_endpoint& endpoint) {
  const np_context* context = endpoint.context;
  const int64_t deadline_ns = now_ns() + context->timeout_ns;
  const int streams = static_cast<int>(context->options[kStreams].number);
  set_generation(endpoint.hello, endpoint.generation++);
  Fd joined[kMaxLanes];
  if (context->rank == 1) {
    const std::string what = "tcp: waiting for rank 0 at " + endpoint.place;
    Doorman doorman(context, endpoint.hello, false, what.c_str());
    if (const np_status s = doorman.admit(endpoint.listener.get(), streams, joined, deadline_ns); s != NP_OK) return s;
    const bool last = context->options[kReopen].number == 0 && context->options[kConnections].number != 0;
    if (last) endpoint.listener.reset();
  } else {
    const std::string what = "tcp: connecting to rank 1 at " + endpoint.place;
    for (int j = 0; j < streams; ++j) {
      if (const np_status s = make_socket(context, endpoint.at.ss_family, joined[j]); s != NP_OK) return s;
      endpoint.hello.lane = static_cast<uint8_t>(j);
      const np_status s = connect_and_say(context, joined[j].get(), reinterpret_cast<sockaddr*>(&endpoint.at),
                                          endpoint.at_bytes, endpoint.hello, deadline_ns, what.c_str());
      if (s != NP_OK) return s;
    }
    for (int j = 0; j < streams; ++j) {
      if (const np_status s = await_welcome(context, joined[j].get(), deadline_ns, what.c_str()); s != NP_OK) return s;
    }
  }
  Lane lanes[kMaxLanes];
  for (int j = 0; j < streams; ++j) {
    const int fd = joined[j].release();
    lanes[j] = {fd, fd};
  }
  endpoint.wire->attach(lanes, streams);
  return NP_OK;
}

// Collective: from now on messages of this class are sent.
np_status use_class(np_endpoint& endpoint, size_t index) {
  std::unique_ptr<Wire<SocketIo>>& wire = endpoint.wires[index];
  if (!wire) {
    const np_value* options = endpoint.context->options;
    wire.reset(new (std::nothrow) Wire<SocketIo>(
        endpoint.context, WireSettings{.layer = "tcp",
                                       .wait = static_cast<Wait>(options[kWait].number),
                                       .spin_ns = options[kSpin].number * 1000,
                                       .stripe_bytes = static_cast<uint64_t>(options[kStripe].number)}));
    if (!wire) return fail(endpoint.context, NP_NO_MEMORY, "tcp: no memory for connections");
  }
  endpoint.wire = wire.get();
  return wire->lane_count() > 0 ? NP_OK : join(endpoint);
}

np_status prepare(np_endpoint* endpoint, const np_visit* visit) {
  if (endpoint->context->options[kConnections].number != 0) return NP_OK;
  return use_class(*endpoint, size_class(visit->bytes));
}

np_status connect(np_endpoint* endpoint, const void* const* addresses, const size_t* bytes) {
  if (endpoint->context->rank == 0) {
    if (const np_status s = read_blob(*endpoint, addresses[1], bytes[1]); s != NP_OK) return s;
  } else {
    if (bytes[0] != endpoint->hello.proof.size()) {
      return fail(endpoint->context, NP_FAILED, "tcp: the address of rank 0 is malformed");
    }
    std::memcpy(endpoint->hello.proof.data(), addresses[0], bytes[0]);
  }
  endpoint->place = place_of(endpoint->at, endpoint->at_bytes);
  return use_class(*endpoint, 0);
}

// A kernel older than this header fills less of it; the rest stays 0.
tcp_info info_of(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes);
  return info;
}

void add_counts(Totals& totals, const Wire<SocketIo>& wire) {
  for (int j = 0; j < wire.lane_count(); ++j) {
    const tcp_info info = info_of(wire.lane(j).in);
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

np_status reset(np_endpoint* endpoint) {
  if (endpoint->context->options[kReopen].number == 0) return NP_OK;
  add_counts(endpoint->closed, *endpoint->wire);
  endpoint->wire->detach();
  return join(*endpoint);
}

void rearm_quickack(const np_endpoint* endpoint) {
  if (!endpoint->quickack) [[likely]]
    return;
  const int yes = 1;
  for (int j = 0; j < endpoint->wire->lane_count(); ++j) {
    setsockopt(endpoint->wire->lane(j).in, IPPROTO_TCP, TCP_QUICKACK, &yes, sizeof yes);
  }
}

np_status recv(np_endpoint* endpoint, int, void* data, size_t bytes) {
  const np_status status = endpoint->wire->recv(data, bytes);
  rearm_quickack(endpoint);
  return status;
}

np_status wait(np_endpoint* endpoint, np_request* requests, size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) {
    status = endpoint->wire->wait(&requests[i]);
    rearm_quickack(endpoint);
  }
  return status;
}

int64_t number_of(int fd, int level, int name) {
  int value = -1;
  socklen_t bytes = sizeof value;
  getsockopt(fd, level, name, &value, &bytes);
  return value;
}

// The interface that has this address, or "".
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

void describe(np_endpoint* endpoint, np_emit emit, void* to) {
  const np_value* options = endpoint->context->options;
  describe_waiting(options[kWait], options[kSpin], endpoint->context->oversubscribed != 0, emit, to);
  if (endpoint->wire == nullptr || endpoint->wire->lane_count() == 0) return;
  const int fd = endpoint->wire->lane(0).in;
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
  np_emit_integer(emit, to, "streams", endpoint->wire->lane_count(), "");
  if (endpoint->wire->lane_count() > 1) np_emit_integer(emit, to, "stripe_bytes", options[kStripe].number, "bytes");
  np_emit_text(emit, to, "connections", options[kConnections].text);
  np_emit_text(emit, to, "reopen", options[kReopen].text);
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
    {"rwnd_limited_us", "us", "time that the peer's window held the sender up", NP_COUNTS_UP},
    {"sndbuf_limited_us", "us", "time that the own send buffer held the sender up", NP_COUNTS_UP},
    {"connections", "1", "connections made", NP_COUNTS_UP},
    {"rtt_us", "us", "smoothed round-trip time of the connection used last", NP_GAUGE},
    {"rttvar_us", "us", "its mean deviation", NP_GAUGE},
    {"min_rtt_us", "us", "its minimum", NP_GAUGE},
    {"cwnd_segments", "1", "congestion window of the connection used last", NP_GAUGE},
    {"delivery_rate_bytes_per_s", "bytes/s", "delivery rate that the kernel estimates for it", NP_GAUGE},
    kEmptyPolls,
    kSleepsAfterSpin,
};

void read_counters(np_endpoint* endpoint, int64_t* values) {
  std::fill_n(values, +kCounted, INT64_MIN);
  if (endpoint->wire == nullptr) return;
  Totals totals = endpoint->closed;
  for (const auto& wire : endpoint->wires) {
    if (wire) add_counts(totals, *wire);
  }
  const auto keep = [values](Counted which, uint64_t value) { values[which] = static_cast<int64_t>(value); };
  keep(kRetransmits, totals.retransmits);
  keep(kSegmentsOut, totals.segments_out);
  keep(kSegmentsIn, totals.segments_in);
  keep(kSegmentsDelivered, totals.delivered);
  keep(kBytesSent, totals.bytes_sent);
  keep(kBytesReceived, totals.bytes_received);
  keep(kRwndLimited, totals.rwnd_limited_us);
  keep(kSndbufLimited, totals.sndbuf_limited_us);
  keep(kConnectionsMade, uint64_t{endpoint->generation} * static_cast<uint64_t>(endpoint->wire->lane_count()));
  if (endpoint->wire->lane_count() > 0) {
    const tcp_info info = info_of(endpoint->wire->lane(0).in);
    keep(kRtt, info.tcpi_rtt);
    keep(kRttVar, info.tcpi_rttvar);
    keep(kMinRtt, info.tcpi_min_rtt);
    keep(kCwnd, info.tcpi_snd_cwnd);
    keep(kDeliveryRate, info.tcpi_delivery_rate);
  }
  read_waiting(*endpoint->wire, values + kWaiting);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  static const np_messages messages = [] {
    np_messages m = kWireMessages<np_endpoint>;
    m.recv = recv;
    return m;
  }();
  static const np_module module = [] {
    np_module m = wire_module<np_endpoint>({
        .name = "tcp",
        .summary = "TCP connections over IPv4 or IPv6, one or several",
        .below = "unix",
        .adds = "TCP/IP",
        .options = kTable,
        .noptions = kOptions,
        .crosses_hosts = 1,
        .probe = probe,
        .open = open,
        .address = address,
        .connect = connect,
        .reset = reset,
        .describe = describe,
        .prepare = prepare,
    });
    m.messages = &messages;
    m.wait = wait;
    m.counters = kCounters;
    m.ncounters = kCounted;
    m.read_counters = read_counters;
    return m;
  }();
  return &module;
}
