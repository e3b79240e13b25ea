// SPDX-License-Identifier: Apache-2.0
// sctp: messages over one SCTP association (RFC 9260, sockets of RFC 6458 of the one-to-one style) for each two ranks.
// The higher rank listens, the lower one connects and proves itself.
//
// The protocol keeps messages apart, and a receive of a part leaves the rest, so the association serves as a stream of
// bytes: a message above `message` goes in pieces.
#include <netinet/in.h>
#include <sys/socket.h>
//
#include <linux/sctp.h>  // needs what stands before it

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "kit/streams/fd_connect.h"
#include "kit/streams/fd_io.h"
#include "kit/streams/ip_address.h"
#include "netpipe/module.h"

namespace {

using namespace netpipe::fd_io;

enum Option { kIp, kPort, kSndbuf, kRcvbuf, kNodelay, kMaxseg, kMessage, kWait, kSpin, kOptions };

constexpr int64_t kMostBuffer = INT32_MAX / 2;  // the kernel doubles what it is asked for, in an int

constexpr np_option kTable[kOptions] = {
    {"ip", NP_CHOICE, "auto", 0, 0, "auto|4|6", "", "IP version; auto uses that of the rank's address", 0},
    {"port", NP_INT, "0", 0, 65535, nullptr, "",
     "SCTP port that rank 1 listens on, and further ranks on those above; 0 lets the kernel choose", 0},
    {"sndbuf", NP_SIZE, "0", 0, kMostBuffer, nullptr, "bytes", "SO_SNDBUF; 0 leaves the kernel's default", 1},
    {"rcvbuf", NP_SIZE, "0", 0, kMostBuffer, nullptr, "bytes", "SO_RCVBUF; 0 leaves the kernel's default", 1},
    {"nodelay", NP_BOOL, "yes", 0, 0, nullptr, "", "SCTP_NODELAY: send small messages at once (no Nagle)", 1},
    {"maxseg", NP_INT, "0", 0, 65535, nullptr, "bytes",
     "SCTP_MAXSEG: the most of a message that one chunk carries; 0 leaves what the path allows", 1},
    {"message", NP_SIZE, "32k", 1, 1 << 20, nullptr, "bytes",
     "a longer message is sent in pieces of this size, which fit into the send buffer", 1},
    kWaitOption,
    kSpinOption,
};

}  // namespace

struct np_endpoint {
  using Wire = netpipe::fd_io::Wire<SocketIo>;

  explicit np_endpoint(const np_context* given)
      : context(given),
        wires(given, WireSettings{.layer = "sctp",
                                  .wait = static_cast<Wait>(given->options[kWait].number),
                                  .spin_ns = given->options[kSpin].number * 1000,
                                  .max_call_bytes = static_cast<size_t>(given->options[kMessage].number)}),
        places(static_cast<size_t>(given->nranks)),
        proofs(static_cast<size_t>(given->nranks)) {}

  const np_context* context;
  Wires<SocketIo> wires;
  Wire& to(int peer) { return wires.to(peer); }
  [[nodiscard]] const Traffic<SocketIo>& traffic() const { return wires.traffic(); }

  struct Place {
    sockaddr_storage at{};
    socklen_t at_bytes = 0;
  };
  Fd listener;
  std::vector<Place> places;  // where a rank listens; of rank 0, which does not, its address
  std::vector<Proof> proofs;
};

namespace {

constexpr const char* kNone = "this kernel has no SCTP (%s); it needs CONFIG_IP_SCTP (modprobe sctp)";

np_status probe(char* message, size_t message_bytes) {
  if (Fd(::socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP)) || Fd(::socket(AF_INET6, SOCK_STREAM, IPPROTO_SCTP))) {
    return NP_OK;
  }
  std::snprintf(message, message_bytes, kNone, std::strerror(errno));
  return NP_UNAVAILABLE;
}

np_status set_number(const np_context* context, int fd, Option option, int level, int name) {
  const int value = static_cast<int>(context->options[option].number);
  const bool untouched = value == 0 && context->options[option].text[0] == '0';
  if (untouched || setsockopt(fd, level, name, &value, sizeof value) == 0) return NP_OK;
  return fail(context, errno == EINVAL ? NP_USAGE : NP_UNAVAILABLE, "sctp: %s=%s: %s", kTable[option].name,
              context->options[option].text, std::strerror(errno));
}

np_status make_socket(const np_context* context, int family, Fd& made) {
  Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_SCTP));
  if (!fd) return fail(context, NP_UNAVAILABLE, "sctp: a socket: %s", std::strerror(errno));
  if (const np_status s = set_number(context, fd.get(), kSndbuf, SOL_SOCKET, SO_SNDBUF); s != NP_OK) return s;
  if (const np_status s = set_number(context, fd.get(), kRcvbuf, SOL_SOCKET, SO_RCVBUF); s != NP_OK) return s;
  if (const np_status s = set_number(context, fd.get(), kNodelay, IPPROTO_SCTP, SCTP_NODELAY); s != NP_OK) return s;
  const sctp_assoc_value segment{0, static_cast<uint32_t>(context->options[kMaxseg].number)};
  if (segment.assoc_value != 0 && setsockopt(fd.get(), IPPROTO_SCTP, SCTP_MAXSEG, &segment, sizeof segment) != 0) {
    return fail(context, NP_USAGE, "sctp: maxseg=%u: %s", segment.assoc_value, std::strerror(errno));
  }
  made = std::move(fd);
  return NP_OK;
}

np_status open(const np_context* context, np_endpoint** endpoint) {
  std::unique_ptr<np_endpoint> made(new (std::nothrow) np_endpoint(context));
  if (!made) return fail(context, NP_NO_MEMORY, "sctp: no memory for an endpoint");
  const auto rank = static_cast<size_t>(context->rank);
  np_endpoint::Place& own = made->places[rank];
  const np_value* options = context->options;
  if (const np_status s = own_address(context, "sctp", options[kIp], own.at, own.at_bytes); s != NP_OK) return s;
  Fd trial;  // options that this host refuses are refused here and not when all ranks wait
  Fd& fd = listens(context) ? made->listener : trial;
  if (const np_status s = make_socket(context, own.at.ss_family, fd); s != NP_OK) return s;
  if (listens(context)) {
    const np_status s = listen_at(context, "sctp", options[kPort], fd, own.at, own.at_bytes);
    if (s != NP_OK) return s;
  }
  if (connects(context) && !make_proof(made->proofs[rank])) {
    return fail(context, NP_FAILED, "sctp: getrandom: %s", std::strerror(errno));
  }
  *endpoint = made.release();
  return NP_OK;
}

np_status address(np_endpoint* endpoint, void* data, size_t* bytes) {
  const auto rank = static_cast<size_t>(endpoint->context->rank);
  const Blob blob = blob_of(endpoint->places[rank].at);
  return write_address(endpoint->context, endpoint->proofs[rank], &blob, sizeof blob, data, bytes);
}

np_status read_places(np_endpoint& endpoint, const void* const* addresses, const size_t* bytes) {
  const np_context* context = endpoint.context;
  for (int peer = 0; peer < context->nranks; ++peer) {
    const auto p = static_cast<size_t>(peer);
    Told told;
    if (const np_status s = read_address(context, peer, addresses[p], bytes[p], told); s != NP_OK) return s;
    endpoint.proofs[p] = told.proof;
    if (peer == context->rank) continue;
    Blob blob{};
    if (told.place_bytes != sizeof blob) {
      return fail(context, NP_FAILED, "sctp: the address of rank %d is malformed", peer);
    }
    std::memcpy(&blob, told.place, sizeof blob);
    const sockaddr_storage& here = endpoint.places[static_cast<size_t>(context->rank)].at;
    np_endpoint::Place& there = endpoint.places[p];
    const np_status s = read_blob(context, "sctp", peer, blob, here, there.at, there.at_bytes);
    if (s != NP_OK) return s;
  }
  return NP_OK;
}

np_status connect(np_endpoint* endpoint, const void* const* addresses, const size_t* bytes) {
  const np_context* context = endpoint->context;
  if (const np_status s = read_places(*endpoint, addresses, bytes); s != NP_OK) return s;
  const int64_t deadline_ns = now_ns() + context->timeout_ns;
  const np_endpoint::Place& own = endpoint->places[static_cast<size_t>(context->rank)];
  const std::string waiting =
      "sctp: waiting for " + (listens(context) ? below(context) : "nobody") + " at " + place_of(own.at, own.at_bytes);
  Doorman doorman(context, endpoint->proofs, Number(), false, waiting.c_str());
  const auto connect_to = [&](int peer, int, Fd& fd) {
    np_endpoint::Place& there = endpoint->places[static_cast<size_t>(peer)];
    const std::string what =
        "sctp: connecting to rank " + std::to_string(peer) + " at " + place_of(there.at, there.at_bytes);
    if (const np_status s = make_socket(context, there.at.ss_family, fd); s != NP_OK) return s;
    Hello hello;
    hello.proof = endpoint->proofs[static_cast<size_t>(context->rank)];
    hello.rank = Number(static_cast<uint32_t>(context->rank));
    return connect_and_say(context, peer, fd.get(), reinterpret_cast<sockaddr*>(&there.at), there.at_bytes, hello,
                           deadline_ns, what.c_str());
  };
  std::vector<Fd> joined(static_cast<size_t>(context->nranks));
  const np_status status =
      join_all(context, 1, std::span(&endpoint->listener, 1), doorman, connect_to, joined.data(), deadline_ns);
  endpoint->listener.reset();
  if (status != NP_OK) return status;
  for (int peer = 0; peer < context->nranks; ++peer) {
    if (peer == context->rank) continue;
    const int fd = joined[static_cast<size_t>(peer)].release();
    const Lane lane{fd, fd};
    endpoint->to(peer).attach(&lane, 1);
  }
  return NP_OK;
}

int number_of(int fd, int level, int name) {
  int value = 0;
  socklen_t bytes = sizeof value;
  return getsockopt(fd, level, name, &value, &bytes) == 0 ? value : -1;
}

void describe(np_endpoint* endpoint, np_emit emit, void* to) {
  const np_value* options = endpoint->context->options;
  describe_waiting(options[kWait], options[kSpin], endpoint->context->oversubscribed != 0, emit, to);
  const np_endpoint::Wire& wire = endpoint->to(opposite(endpoint->context));
  if (wire.lane_count() == 0) return;
  const int fd = wire.lane(0).in;
  sockaddr_storage own{}, peer{};
  socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
  getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_bytes);
  getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_bytes);
  np_emit_text(emit, to, "ip", own.ss_family == AF_INET ? "4" : "6");
  np_emit_text(emit, to, "local", place_of(own, own_bytes).c_str());
  np_emit_text(emit, to, "peer", place_of(peer, peer_bytes).c_str());
  np_emit_text(emit, to, "interface", interface_of(own, own_bytes).c_str());
  np_emit_integer(emit, to, "sndbuf_kernel_bytes", number_of(fd, SOL_SOCKET, SO_SNDBUF), "bytes");
  np_emit_integer(emit, to, "rcvbuf_kernel_bytes", number_of(fd, SOL_SOCKET, SO_RCVBUF), "bytes");
  np_emit_bool(emit, to, "nodelay", number_of(fd, IPPROTO_SCTP, SCTP_NODELAY) > 0);
  np_emit_integer(emit, to, "message_bytes", options[kMessage].number, "bytes");
  sctp_status status{};
  socklen_t bytes = sizeof status;
  if (getsockopt(fd, IPPROTO_SCTP, SCTP_STATUS, &status, &bytes) != 0) return;
  np_emit_integer(emit, to, "fragmentation_bytes", status.sstat_fragmentation_point, "bytes");
  np_emit_integer(emit, to, "path_mtu_bytes", status.sstat_primary.spinfo_mtu, "bytes");
  np_emit_integer(emit, to, "streams_out", status.sstat_outstrms, "");
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  static const np_module module = wire_module<np_endpoint>({
      .name = "sctp",
      .summary = "SCTP associations over IPv4 or IPv6",
      .below = "unix",
      .adds = "SCTP/IP",
      .options = kTable,
      .noptions = kOptions,
      .crosses_hosts = 1,
      .probe = probe,
      .open = open,
      .address = address,
      .connect = connect,
      .describe = describe,
  });
  return &module;
}
