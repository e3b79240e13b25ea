// SPDX-License-Identifier: Apache-2.0
// pipe: messages over two pipes for each two ranks, one for each direction. The lower rank makes them and hands their
// ends over.
//
// There is no vmsplice: it lends the sender's pages to the pipe, and nothing tells the sender when they have been read,
// so send() could not say when the buffer may be written again.
#include <fcntl.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "kit/fd_connect.h"
#include "kit/fd_io.h"
#include "netpipe/module.h"

namespace {

using namespace netpipe::fd_io;

enum Option { kCapacity, kWait, kSpin, kOptions };

constexpr np_option kTable[kOptions] = {
    {"capacity", NP_SIZE, "0", 0, 1 << 30, nullptr, "bytes",
     "what each pipe holds; the kernel rounds up to whole pages, a power of two of them; 0 leaves its default", 1},
    kWaitOption,
    kSpinOption,
};

}  // namespace

struct np_endpoint {
  using Wire = netpipe::fd_io::Wire<FileIo>;

  explicit np_endpoint(const np_context* given)
      : context(given),
        wires(given, WireSettings{.layer = "pipe",
                                  .wait = static_cast<Wait>(given->options[kWait].number),
                                  .spin_ns = given->options[kSpin].number * 1000}) {}

  const np_context* context;
  const int kind = SOCK_STREAM;
  LocalMeeting meeting;
  Wires<FileIo> wires;
  Wire& to(int peer) { return wires.to(peer); }
  [[nodiscard]] const Traffic<FileIo>& traffic() const { return wires.traffic(); }
};

namespace {

struct Pipe {
  Fd read_end, write_end;
};

np_status make_pipe(const np_context* context, Pipe& made) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return fail(context, NP_FAILED, "pipe: cannot create a pipe: %s", std::strerror(errno));
  made = {Fd(ends[0]), Fd(ends[1])};
  const int wanted = static_cast<int>(context->options[kCapacity].number);
  if (wanted == 0 || fcntl(ends[1], F_SETPIPE_SZ, wanted) >= 0) return NP_OK;
  return fail(context, NP_UNAVAILABLE, "pipe: capacity=%s: %s; without privileges the kernel allows fs.pipe-max-size",
              context->options[kCapacity].text, std::strerror(errno));
}

// unix(7), SCM_RIGHTS: the two descriptors travel beside one byte.
struct Parcel {
  Parcel() {
    message.msg_iov = &beside;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
  }
  Parcel(const Parcel&) = delete;  // it points into itself
  Parcel& operator=(const Parcel&) = delete;

  alignas(cmsghdr) char room[CMSG_SPACE(2 * sizeof(int))] = {};
  char byte = 0;
  iovec beside = {&byte, 1};
  msghdr message{};
};

np_status hand_over(const np_context* context, int peer, int socket, const int (&ends)[2]) {
  Parcel parcel;
  cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof ends);
  std::memcpy(CMSG_DATA(header), ends, sizeof ends);
  // NOLINTNEXTLINE(clang-analyzer-unix.StdCLibraryFunctions): a meeting that succeeded has left a socket
  if (sendmsg(socket, &parcel.message, MSG_NOSIGNAL) == 1) return NP_OK;
  return fail(context, NP_PEER_LOST, "pipe: cannot pass the pipes to rank %d: %s", peer, std::strerror(errno));
}

np_status take_over(const np_context* context, int peer, int socket, int64_t deadline_ns, int (&ends)[2]) {
  const std::string text = "pipe: waiting for the pipes of rank " + std::to_string(peer);
  const char* what = text.c_str();
  pollfd wanted = {socket, POLLIN, 0};
  while (wanted.revents == 0) {
    if (const np_status status = poll_slice(context, &wanted, 1, deadline_ns, what, peer); status != NP_OK)
      return status;
  }
  Parcel parcel;
  const ssize_t got = recvmsg(socket, &parcel.message, MSG_CMSG_CLOEXEC);
  const cmsghdr* header = got == 1 ? CMSG_FIRSTHDR(&parcel.message) : nullptr;
  const bool brings = header != nullptr && header->cmsg_type == SCM_RIGHTS;
  if (brings && header->cmsg_len == CMSG_LEN(sizeof ends)) {
    std::memcpy(ends, CMSG_DATA(header), sizeof ends);
    return NP_OK;
  }
  if (got == 1 && (parcel.message.msg_flags & MSG_CTRUNC) != 0) {
    if (brings) {  // one of the two: the kernel hands over as many as there is room for
      int came = -1;
      std::memcpy(&came, CMSG_DATA(header), sizeof came);
      ::close(came);
    }
    return fail(context, NP_FAILED, "%s: no file descriptors are left for them; raise the limit (ulimit -n)", what);
  }
  return fail(context, NP_PEER_LOST, "%s: they did not arrive; its own error says why", what);
}

np_status attach(np_endpoint* endpoint, int peer, const Fd& joined, int64_t deadline_ns) {
  const np_context* context = endpoint->context;
  if (context->rank < peer) {
    Pipe there, back;  // the ends that are handed over close here: a pipe ends when its last holder goes
    if (const np_status s = make_pipe(context, there); s != NP_OK) return s;
    if (const np_status s = make_pipe(context, back); s != NP_OK) return s;
    if (const np_status s = hand_over(context, peer, joined.get(), {there.read_end.get(), back.write_end.get()});
        s != NP_OK) {
      return s;
    }
    const Lane lane{back.read_end.release(), there.write_end.release()};
    endpoint->to(peer).attach(&lane, 1);
  } else {
    int ends[2];
    if (const np_status s = take_over(context, peer, joined.get(), deadline_ns, ends); s != NP_OK) return s;
    const Lane lane{ends[0], ends[1]};
    endpoint->to(peer).attach(&lane, 1);
  }
  return NP_OK;
}

// In round r the ranks i and j with i + j = r (modulo the number of ranks) are a pair: few descriptors are on their way
// at once, of which the kernel allows only so many.
np_status connect(np_endpoint* endpoint, const void* const* addresses, const size_t* bytes) {
  const np_context* context = endpoint->context;
  const int64_t deadline_ns = now_ns() + context->timeout_ns;
  std::vector<Fd> joined;
  np_status status = endpoint->meeting.connect(addresses, bytes, joined);
  for (int round = 0; round < context->nranks && status == NP_OK; ++round) {
    const int peer = (round - context->rank + context->nranks) % context->nranks;
    if (peer == context->rank) continue;
    status = attach(endpoint, peer, joined[static_cast<size_t>(peer)], deadline_ns);
    joined[static_cast<size_t>(peer)].reset();
  }
  return status;
}

void describe(np_endpoint* endpoint, np_emit emit, void* to) {
  describe_waiting(endpoint->context->options[kWait], endpoint->context->options[kSpin],
                   endpoint->context->oversubscribed != 0, emit, to);
  const np_endpoint::Wire& wire = endpoint->to(opposite(endpoint->context));
  if (wire.lane_count() == 0) return;
  const int capacity = fcntl(wire.lane(0).out, F_GETPIPE_SZ);
  np_emit_integer(emit, to, "capacity_kernel_bytes", capacity, "bytes");
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  static const np_module module = local_module<np_endpoint>({
      .name = "pipe",
      .summary = "two pipes between each two processes of one host",
      .below = "shm",
      .adds = "kernel crossing and wake-up",
      .options = kTable,
      .noptions = kOptions,
      .connect = connect,
      .describe = describe,
  });
  return &module;
}
