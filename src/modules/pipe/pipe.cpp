// SPDX-License-Identifier: Apache-2.0
// pipe: messages over two pipes for each two ranks, one for each direction. The lower rank makes them and hands their
// ends over. With send=vmsplice the pages of a message are lent to the pipe instead of copied, and the receiver's copy
// is the only one.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "kit/streams/announced.h"
#include "kit/streams/fd_connect.h"
#include "kit/streams/fd_io.h"
#include "netpipe/module.h"

namespace {

using namespace netpipe::fd_io;

enum Option { kCapacity, kSend, kLeast, kWait, kSpin, kOptions };
enum Send { kCopy, kVmsplice };

constexpr np_option kTable[kOptions] = {
    {"capacity", NP_SIZE, "0", 0, 1 << 30, nullptr, "bytes",
     "what each pipe holds; the kernel rounds up to whole pages, a power of two of them; 0 leaves its default", 1},
    {"send", NP_CHOICE, "copy", 0, 0, "copy|vmsplice", "",
     "how a message gets into the pipe: copied by write, or its pages lent by vmsplice", 1},
    {"vmsplice_min", NP_SIZE, "16k", 1, 1 << 30, nullptr, "bytes", "send=vmsplice: smaller messages are copied", 1, 0,
     "with send=copy: every message is copied"},
    kWaitOption,
    kSpinOption,
};

// send=vmsplice.
class Lending final : public Path {
 public:
  explicit Lending(size_t least) : messages_(least) {}

  np_status expect(const np_context* context, const np_visit& visit) {
    return messages_.expect(context, visit, "pipe: send=vmsplice");
  }
  [[nodiscard]] int64_t lent() const { return lent_; }

  [[nodiscard]] size_t direct_bytes() const override { return messages_.least() - 1; }

  int add(int in, int out) override {
    size_t slot = 0;
    while (slot < lanes_.size() && lanes_[slot].in >= 0) ++slot;
    if (slot == lanes_.size()) lanes_.emplace_back();
    lanes_[slot] = {in, out};
    return static_cast<int>(slot);
  }
  void remove(int slot) override { of(slot) = Lane{}; }
  void cancel(int) override {}  // the pipe only reads, and holds the pages itself

  ssize_t write(int slot, const void* data, size_t bytes) override {
    if (!messages_.lends(data, bytes)) return ::write(of(slot).out, data, bytes);
    const iovec piece{const_cast<void*>(data), bytes};  // NOLINT(*-const-cast): only read
    const ssize_t done = ::vmsplice(of(slot).out, &piece, 1, SPLICE_F_NONBLOCK);
    if (done > 0) ++lent_;
    return done;
  }
  ssize_t read(int slot, void* data, size_t bytes) override { return ::read(of(slot).in, data, bytes); }

  uint64_t written(int) override { return 0; }
  bool settled(int, uint64_t) override { return true; }
  void submit() override {}
  bool sleep(int) override { return false; }

 private:
  Lane& of(int slot) { return lanes_[static_cast<size_t>(slot)]; }

  Announced messages_;
  std::vector<Lane> lanes_;
  int64_t lent_ = 0;
};

std::unique_ptr<Lending> lending(const np_value* options) {
  if (options[kSend].number != kVmsplice) return nullptr;
  return std::make_unique<Lending>(static_cast<size_t>(options[kLeast].number));
}

}  // namespace

struct np_endpoint {
  using Wire = netpipe::fd_io::Wire<FileIo>;

  explicit np_endpoint(const np_context* given)
      : context(given),
        path(lending(given->options)),
        wires(given, WireSettings{.layer = "pipe",
                                  .wait = static_cast<Wait>(given->options[kWait].number),
                                  .spin_ns = given->options[kSpin].number * 1000,
                                  .path = path.get()}) {}

  const np_context* context;
  const int kind = SOCK_STREAM;
  LocalMeeting meeting;
  std::unique_ptr<Lending> path;  // before the wires that take it; null: send=copy
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
  np_emit_text(emit, to, "send", endpoint->context->options[kSend].text);
  if (endpoint->path) {
    np_emit_integer(emit, to, "vmsplice_min_bytes", endpoint->context->options[kLeast].number, "bytes");
  }
}

np_status prepare(np_endpoint* endpoint, const np_visit* visit) {
  return endpoint->path ? endpoint->path->expect(endpoint->context, *visit) : NP_OK;
}

constexpr np_counter kCounters[] = {
    {"vmsplice_sends", "1", "writes that lent pages of the message to the pipe", NP_COUNTS_UP},
    kEmptyPolls,
    kSleepsAfterSpin,
};

void read_counters(np_endpoint* endpoint, int64_t* values) {
  values[0] = endpoint->path ? endpoint->path->lent() : INT64_MIN;
  values[1] = values[2] = 0;
  add_waiting(endpoint->traffic(), values + 1);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  static const np_module module = [] {
    np_module m = local_module<np_endpoint>({
        .name = "pipe",
        .summary = "two pipes between each two processes of one host",
        .below = "shm",
        .adds = "kernel crossing and wake-up",
        .options = kTable,
        .noptions = kOptions,
        .connect = connect,
        .describe = describe,
        .prepare = prepare,
    });
    m.counters = kCounters;
    m.ncounters = std::size(kCounters);
    m.read_counters = read_counters;
    return m;
  }();
  return &module;
}
