// SPDX-License-Identifier: Apache-2.0
// unix: messages over a pair of AF_UNIX sockets for each two ranks, as a byte stream or as packets.
#include <sys/socket.h>

#include <utility>
#include <vector>

#include "kit/streams/fd_connect.h"
#include "kit/streams/fd_io.h"
#include "netpipe/module.h"

namespace {

using namespace netpipe::fd_io;

enum Option { kType, kSndbuf, kRcvbuf, kPacket, kWait, kSpin, kOptions };

// A packet is one kernel buffer whose first part has to be contiguous: large ones are refused when memory is
// fragmented.
constexpr int64_t kLargestDefaultPacket = 64 * 1024;

constexpr np_option kTable[kOptions] = {
    {"type", NP_CHOICE, "stream", 0, 0, "stream|seqpacket", "",
     "stream: a byte stream; seqpacket: packets, a larger message is split into several", 1},
    {"sndbuf", NP_SIZE, "0", 0, INT32_MAX / 2, nullptr, "bytes",
     "SO_SNDBUF, which limits the bytes in flight; 0 leaves the kernel's default", 1},
    {"rcvbuf", NP_SIZE, "0", 0, INT32_MAX / 2, nullptr, "bytes",
     "SO_RCVBUF, which the kernel hardly uses for these sockets; 0 leaves its default", 1},
    {"packet", NP_SIZE, "0", 0, INT32_MAX / 2, nullptr, "bytes",
     "type=seqpacket: the largest packet; 0 takes 64 KiB or what the send buffer allows", 1, 0,
     "with type=stream: a byte stream has no packets"},
    kWaitOption,
    kSpinOption,
};

int socket_number(int fd, int name) {
  int value = 0;
  socklen_t bytes = sizeof value;
  return getsockopt(fd, SOL_SOCKET, name, &value, &bytes) == 0 ? value : -1;
}

}  // namespace

struct np_endpoint {
  using Wire = netpipe::fd_io::Wire<SocketIo>;

  explicit np_endpoint(const np_context* given)
      : context(given),
        kind(given->options[kType].number == 1 ? SOCK_SEQPACKET : SOCK_STREAM),
        wires(given, WireSettings{.layer = "unix",
                                  .wait = static_cast<Wait>(given->options[kWait].number),
                                  .spin_ns = given->options[kSpin].number * 1000}) {}

  const np_context* context;
  const int kind;
  LocalMeeting meeting;
  Wires<SocketIo> wires;
  Wire& to(int peer) { return wires.to(peer); }
  [[nodiscard]] const Traffic<SocketIo>& traffic() const { return wires.traffic(); }
  size_t packet_bytes = 0;
};

namespace {

// The kernel takes what it likes of it; describe() tells. A connected pair takes buffer sizes at any time.
np_status set_size(const np_context* context, int fd, Option option, int name) {
  const int wanted = static_cast<int>(context->options[option].number);
  if (wanted == 0 || setsockopt(fd, SOL_SOCKET, name, &wanted, sizeof wanted) == 0) return NP_OK;
  return fail(context, NP_FAILED, "unix: %s=%d: %s", kTable[option].name, wanted, std::strerror(errno));
}

np_status attach(np_endpoint* endpoint, int peer, Fd joined) {
  const np_context* context = endpoint->context;
  if (const np_status s = set_size(context, joined.get(), kSndbuf, SO_SNDBUF); s != NP_OK) return s;
  if (const np_status s = set_size(context, joined.get(), kRcvbuf, SO_RCVBUF); s != NP_OK) return s;
  if (endpoint->kind == SOCK_SEQPACKET) {
    // Linux, unix_dgram_sendmsg: a packet may be 32 bytes shorter than the buffer that the kernel gave.
    const int64_t most = socket_number(joined.get(), SO_SNDBUF) - 32;
    const int64_t asked = context->options[kPacket].number;
    if (asked > most) {
      return fail(
          context, NP_USAGE,
          "unix: packet=%lld does not fit the send buffer, which takes packets of %lld bytes; give a larger sndbuf",
          static_cast<long long>(asked), static_cast<long long>(most));
    }
    endpoint->packet_bytes = static_cast<size_t>(asked > 0 ? asked : std::min(most, kLargestDefaultPacket));
    endpoint->to(peer).set_max_call_bytes(endpoint->packet_bytes);
  }
  const int fd = joined.release();
  const Lane lane{fd, fd};
  endpoint->to(peer).attach(&lane, 1);
  return NP_OK;
}

np_status connect(np_endpoint* endpoint, const void* const* addresses, const size_t* bytes) {
  std::vector<Fd> joined;
  np_status status = endpoint->meeting.connect(addresses, bytes, joined);
  for (int peer = 0; peer < endpoint->context->nranks && status == NP_OK; ++peer) {
    if (peer == endpoint->context->rank) continue;
    status = attach(endpoint, peer, std::move(joined[static_cast<size_t>(peer)]));
  }
  return status;
}

void describe(np_endpoint* endpoint, np_emit emit, void* to) {
  np_emit_text(emit, to, "type", endpoint->context->options[kType].text);
  describe_waiting(endpoint->context->options[kWait], endpoint->context->options[kSpin],
                   endpoint->context->oversubscribed != 0, emit, to);
  const np_endpoint::Wire& wire = endpoint->to(opposite(endpoint->context));
  if (wire.lane_count() == 0) return;
  const int fd = wire.lane(0).in;
  np_emit_integer(emit, to, "sndbuf_kernel_bytes", socket_number(fd, SO_SNDBUF), "bytes");
  np_emit_integer(emit, to, "rcvbuf_kernel_bytes", socket_number(fd, SO_RCVBUF), "bytes");
  if (endpoint->kind == SOCK_SEQPACKET) {
    np_emit_integer(emit, to, "packet_bytes", static_cast<int64_t>(endpoint->packet_bytes), "bytes");
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  static const np_module module = local_module<np_endpoint>({
      .name = "unix",
      .summary = "AF_UNIX sockets between processes of one host",
      .below = "pipe",
      .adds = "socket layer",
      .options = kTable,
      .noptions = kOptions,
      .connect = connect,
      .describe = describe,
  });
  return &module;
}
