// SPDX-License-Identifier: Apache-2.0
// unix: messages over one pair of AF_UNIX sockets, as a byte stream or as packets.
#include <sys/socket.h>

#include "kit/fd_connect.h"
#include "kit/fd_io.h"
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
     "type=seqpacket: the largest packet; 0 takes 64 KiB or what the send buffer allows", 1},
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
  explicit np_endpoint(const np_context* given)
      : context(given),
        kind(given->options[kType].number == 1 ? SOCK_SEQPACKET : SOCK_STREAM),
        wire(given, WireSettings{.layer = "unix",
                                 .wait = static_cast<Wait>(given->options[kWait].number),
                                 .spin_ns = given->options[kSpin].number * 1000}) {}

  const np_context* context;
  const int kind;
  LocalMeeting meeting;
  Wire<SocketIo>& active() { return wire; }
  Wire<SocketIo> wire;
  size_t packet_bytes = 0;
};

namespace {

// The kernel takes what it likes of it; describe() tells. A connected pair takes buffer sizes at any time.
np_status set_size(const np_context* context, int fd, Option option, int name) {
  const int wanted = static_cast<int>(context->options[option].number);
  if (wanted == 0 || setsockopt(fd, SOL_SOCKET, name, &wanted, sizeof wanted) == 0) return NP_OK;
  return fail(context, NP_FAILED, "unix: %s=%d: %s", kTable[option].name, wanted, std::strerror(errno));
}

np_status connect(np_endpoint* endpoint, const void* const* addresses, const size_t* bytes) {
  const np_context* context = endpoint->context;
  Fd joined;
  if (const np_status s = endpoint->meeting.connect(addresses, bytes, joined); s != NP_OK) return s;
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
    endpoint->wire.set_max_call_bytes(endpoint->packet_bytes);
  }
  const int fd = joined.release();
  const Lane lane{fd, fd};
  endpoint->wire.attach(&lane, 1);
  return NP_OK;
}

void describe(np_endpoint* endpoint, np_emit emit, void* to) {
  np_emit_text(emit, to, "type", endpoint->context->options[kType].text);
  describe_waiting(endpoint->context->options[kWait], endpoint->context->options[kSpin],
                   endpoint->context->oversubscribed != 0, emit, to);
  if (endpoint->wire.lane_count() == 0) return;
  const int fd = endpoint->wire.lane(0).in;
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
      .summary = "AF_UNIX sockets between two processes of one host",
      .below = "pipe",
      .adds = "socket layer",
      .options = kTable,
      .noptions = kOptions,
      .connect = connect,
      .describe = describe,
  });
  return &module;
}
