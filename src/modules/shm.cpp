// SPDX-License-Identifier: Apache-2.0
// shm: our own messages through shared memory between two processes of one host. The floor that every other layer
// on one host is held against, so it has every right that a library could take: small messages in one cache line
// (shm_cells.h), large ones copied once and by both processes (shm_transfer.h), memory that the peer has mapped
// (shm_memory.h). No system call between two messages unless an option asks for one (shm_wait.h, cma).
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "netpipe/module.h"
#include "shm_cells.h"
#include "shm_memory.h"
#include "shm_transfer.h"
#include "shm_wait.h"

namespace netpipe::shm {
namespace {

enum Option { kWait, kSpin, kCopy, kCooperate, kEager, kCmaMin, kChunk, kRing, kSlots, kHandover, kPollGap, kDemote, kOptions };
enum class Copy { automatic = 0, pipeline = 1, cma = 2 };  // in the order of the option's choices

constexpr np_option kOptionTable[kOptions] = {
    {"wait", NP_CHOICE, "poll", 0, 0, "poll|block|hybrid", "",
     "how a process waits: by looking again, asleep in the kernel (futex), or looking for spin_us and then asleep", 1},
    {"spin_us", NP_INT, "50", 0, 1000000, nullptr, "us", "how long wait=hybrid looks before it sleeps", 1},
    {"copy", NP_CHOICE, "auto", 0, 0, "auto|pipeline|cma", "",
     "messages above eager: auto copies once where the peer's memory can be mapped, else by cma from cma_min on, else "
     "through the ring; pipeline always through the ring; cma always by process_vm_readv",
     1},
    {"cooperate", NP_BOOL, "yes", 0, 0, nullptr, "",
     "both processes copy a large message at the same time, the receiver from its front and the waiting sender from "
     "its back",
     1},
    {"eager", NP_SIZE, "8k", 0, 256 << 10, nullptr, "bytes",
     "largest message that is copied into shared memory at once, without waiting for its receiver", 1},
    {"cma_min", NP_SIZE, "32k", 0, INT64_MAX, nullptr, "bytes",
     "copy=auto: smallest message that is worth the system call of process_vm_readv", 1},
    {"chunk", NP_SIZE, "16k", 1024, 256 << 10, nullptr, "bytes", "parts of a message that goes through the ring", 1},
    {"ring", NP_SIZE, "256k", 16 << 10, 64 << 20, nullptr, "bytes",
     "payload in flight in one direction; rounded up to a power of two, at least four times eager and chunk", 1},
    {"slots", NP_INT, "256", 8, 65536, nullptr, "",
     "messages and parts in flight in one direction; rounded up to a power of two", 1},
    {"handover", NP_BOOL, "yes", 0, 0, nullptr, "",
     "an answer goes into the cache line that brought the question; no sends all through the rings", 1},
    {"poll_gap", NP_INT, "40", 0, 1000000, nullptr, "ns",
     "pause between two looks, so that a look does not take the line from a peer that is about to write it", 1},
    {"demote", NP_BOOL, "yes", 0, 0, nullptr, "",
     "lines of messages up to 4k are pushed towards the shared cache after writing (cldemote)", 1},
};

// Below these sizes the sender's help costs more than it brings: a claim is a trip of a line, a call of the kernel
// about a microsecond.
constexpr std::uint64_t kSharedMin = 16 << 10, kSharedMinCma = 128 << 10;
constexpr std::uint64_t kLeastShareUnits = 2, kLeastShareUnitsCma = 16;

constexpr std::uint64_t kSegmentMagic = 0x316d68732d706e;  // "np-shm1"

struct Segment {
  std::atomic<std::uint64_t> magic;
  std::uint64_t job;  // hash of context->job: a descriptor of the same number in another process is not taken for it
  struct alignas(kApart) Stage {
    std::atomic<std::uint32_t> reached;  // how far connect() has come
    std::atomic<std::uint32_t> cma;      // 1: this process can read and write the other's memory
  } stage[2];
  Bell bell[2];
  Transfer transfer[2];  // by the rank that sends
  struct alignas(kApart) {
    std::atomic<std::uint64_t> arrived[2];
  } barrier;
  Announced allocations[2][kAllocations];
};
constexpr std::size_t kCellsOffset = round_up(sizeof(Segment), kPageBytes);

struct Address {
  std::uint64_t magic;
  std::int32_t pid;
  std::int32_t fd;
  std::uint64_t segment_bytes;
  std::uint64_t probe;                // where this process has kSegmentMagic, to try cross-memory attach on
  std::int64_t options[kOptions];
};

// An np_request, as this module uses it, while it is in a queue.
struct Operation {
  enum class State : std::uint32_t { waiting, parts, pulling, joining, done };
  Operation* next = nullptr;
  unsigned char* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t moved = 0;
  std::uint64_t ticket = 0;
  State state = State::waiting;
};
static_assert(sizeof(Operation) <= sizeof(np_request) && alignof(Operation) <= alignof(np_request));

class Queue {
 public:
  [[nodiscard]] Operation* head() const { return head_; }
  void push(Operation* operation) {
    operation->next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = operation;
    tail_ = operation;
  }
  Operation* pop() {
    Operation* first = head_;
    head_ = first->next;
    return first;
  }

 private:
  Operation *head_ = nullptr, *tail_ = nullptr;
};

struct Key {  // np_region.key
  Place place;
  std::uint64_t bytes;
};
static_assert(sizeof(Key) <= NP_KEY_BYTES);
enum RegionWord { kRegionLocal, kRegionRemote };  // attached: where it is mapped here (or 0), and where it is there

std::uint64_t hash(const char* text) {  // FNV-1a
  std::uint64_t value = 14695981039346656037U;
  for (; *text != 0; ++text) value = (value ^ static_cast<unsigned char>(*text)) * 1099511628211U;
  return value;
}

std::size_t power_of_two(std::uint64_t at_least) {
  std::size_t value = 1;
  while (value < at_least) value *= 2;
  return value;
}

}  // namespace
}  // namespace netpipe::shm

using namespace netpipe::shm;  // NOLINT(google-build-using-namespace): the rest of this file is that room

struct np_endpoint {
  // ---- what every small message needs
  Cells cells;
  Waiter waiter;
  std::uint64_t eager = 0;
  std::uint64_t pending = 0;  // operations in the queues; 0: a small message may take the short way
  std::int32_t peer = 0;
  // ---- large messages
  Queue sends;     // not yet, or only in parts, in the cells
  Queue offered;   // offered, not yet fetched
  Queue receives;  // posted
  Copy copy = Copy::automatic;
  bool cooperate = true, cma = false;
  std::uint64_t cma_min = 0, chunk = 0;
  std::uint64_t tickets = 0;       // offers made
  std::uint64_t helped_there = 0;  // units of the peer's offers that the peer has copied, as of the last message
  std::uint64_t helped_here = 0;   // units of own offers that this process has copied
  struct {                         // the peer's offer that is being copied; one at a time, in their order
    unsigned char* mapped = nullptr;
    std::uint64_t remote = 0, ticket = 0, units = 0;
    bool shared = false;
  } incoming;
  SharedMemory memory;
  Transfer *out = nullptr, *in = nullptr;
  std::uint64_t arrived = 0;  // barriers
  // ---- the rest
  const np_context* context = nullptr;
  np_status broken = NP_OK;
  Segment* segment = nullptr;
  Mapping mapping;
  Shape shape;
  int fd = -1, pidfd = -1;
  pid_t peer_pid = -1;
  std::uint64_t probe = kSegmentMagic;
  std::string cma_reason;
  std::uint64_t by_mapping = 0, by_cma = 0, by_ring = 0;

  ~np_endpoint() {
    if (segment != nullptr) {
      segment->bell[rank()].closed.store(1, std::memory_order_release);
      if (waiter_attached) waiter.ring();
    }
    if (fd >= 0) ::close(fd);
    if (pidfd >= 0) ::close(pidfd);
  }
  bool waiter_attached = false;

  [[nodiscard]] unsigned rank() const { return static_cast<unsigned>(context->rank); }
  [[nodiscard]] std::int64_t option(Option which) const { return context->options[which].number; }

  [[gnu::format(printf, 3, 4), gnu::cold]] np_status fail(np_status status, const char* format, ...) const {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(context->message, context->message_bytes, format, arguments);
    va_end(arguments);
    return status;
  }

  // What idle() ended with, as a sentence.
  [[gnu::cold]] np_status gave_up(np_status status) const {
    if (status == NP_ABORTED) return fail(status, "gave up waiting for rank %d in shared memory", peer);
    return fail(status, "rank %d (process %d) has ended or closed its shared memory; see what it said", peer,
                static_cast<int>(peer_pid));
  }

  // After a failure in the middle of a message nobody knows where the next one begins.
  [[gnu::cold]] np_status breaks(np_status status) {
    broken = status;
    ++pending;  // never the short way again
    return status;
  }

  [[gnu::cold]] np_status wrong_size(std::uint64_t expected, std::uint64_t sent) {
    return breaks(fail(NP_FAILED, "a message of %llu bytes arrived where rank %d expected one of %llu bytes",
                       static_cast<unsigned long long>(sent), context->rank,
                       static_cast<unsigned long long>(expected)));
  }

  [[gnu::cold]] np_status kernel_refused(int reason, const char* what) {
    if (reason == ESRCH) return breaks(gave_up(NP_PEER_LOST));
    return breaks(fail(NP_FAILED, "%s the memory of rank %d (process %d) failed: %s", what, peer,
                       static_cast<int>(peer_pid), std::strerror(reason)));
  }

  void finish(Operation* operation) {
    operation->state = Operation::State::done;
    --pending;
  }

  // ---------------------------------------------------------------------------------------------- sending

  // Puts what the queue holds into the cells, as far as there is room.
  void progress_sends(bool& moved) {
    while (Operation* send = sends.head()) {
      if (send->bytes <= eager) {
        if (!cells.put(send->data, send->bytes, send->bytes)) return;
        finish(sends.pop());
      } else if (send->state == Operation::State::waiting) {
        if (!announce(send)) return;
      } else {
        const std::uint64_t part = std::min(chunk, send->bytes - send->moved);
        if (!cells.put(send->data + send->moved, part, part)) return;
        send->moved += part;
        if (send->moved == send->bytes) finish(sends.pop());
      }
      waiter.ring();
      moved = true;
    }
  }

  bool announce(Operation* send) {
    Offer offer{send->bytes, tickets + 1, memory.place(send->data, send->bytes)};
    const bool mapped = copy == Copy::automatic && offer.source.slot < kAllocations;
    if (copy == Copy::cma) offer.source.slot = kAllocations;
    const bool through_kernel = !mapped && cma && (copy == Copy::cma || (copy == Copy::automatic && send->bytes >= cma_min));
    const std::uint64_t info = mapped || through_kernel ? kOffer : kLong;
    if (!cells.put(&offer, sizeof offer, info)) return false;
    if (info == kLong) {
      send->state = Operation::State::parts;
      ++by_ring;
      return true;
    }
    ++(mapped ? by_mapping : by_cma);
    send->ticket = ++tickets;
    offered.push(sends.pop());
    return true;
  }

  // An offered message is done when its receiver says so; until then this process helps to copy it.
  np_status progress_offered(bool& moved) {
    Operation* send = offered.head();
    if (out->done.load(std::memory_order_acquire) >= send->ticket) {
      finish(offered.pop());
      moved = true;
      return NP_OK;
    }
    if (!cooperate || out->open.load(std::memory_order_acquire) != send->ticket) return NP_OK;
    const std::uint64_t slot = out->slot.load(std::memory_order_relaxed);
    const Place target{out->address.load(std::memory_order_relaxed), static_cast<std::uint32_t>(slot),
                       static_cast<std::uint32_t>(slot >> 32), out->offset.load(std::memory_order_relaxed)};
    unsigned char* mapped = memory.reach(target, send->bytes);
    if (mapped == nullptr && !cma) return NP_OK;
    const Share share = claim(out->claims, send->ticket, units_of(send->bytes), Side::back,
                              mapped != nullptr ? kLeastShareUnits : kLeastShareUnitsCma);
    if (share.units == 0) return NP_OK;
    // The claim holds, so the receiver waits for this share and the target above is still that of this message.
    const std::uint64_t begin = share.begin * kUnitBytes;
    const std::uint64_t bytes = std::min(share.units * kUnitBytes, send->bytes - begin);
    if (mapped != nullptr) {
      std::memcpy(mapped + begin, send->data + begin, bytes);
    } else if (const int reason = copy_to_process(peer_pid, target.address + begin, send->data + begin, bytes)) {
      return kernel_refused(reason, "writing to");
    }
    helped_here += share.units;
    out->helped.store(helped_here, std::memory_order_release);
    waiter.ring();
    moved = true;
    return NP_OK;
  }

  // ---------------------------------------------------------------------------------------------- receiving

  np_status progress_receives(bool& moved) {
    Operation* receive = receives.head();
    if (receive->state == Operation::State::pulling || receive->state == Operation::State::joining) {
      return progress_pull(receive, moved);
    }
    const Cell* cell = cells.look();
    if (cell == nullptr) return NP_OK;
    moved = true;
    const std::uint64_t info = Cells::info(cell);
    if (receive->state == Operation::State::parts) {
      const std::uint64_t part = std::min(info, receive->bytes - receive->moved);
      if (cells.take(cell, receive->data + receive->moved, part)) waiter.ring();
      receive->moved += part;
      if (receive->moved == receive->bytes) finish(receives.pop());
      return NP_OK;
    }
    if (info <= kLargestEntryBytes) {
      if (info != receive->bytes) return wrong_size(receive->bytes, info);
      if (cells.take(cell, receive->data, info)) waiter.ring();
      finish(receives.pop());
      return NP_OK;
    }
    Offer offer;
    if (cells.take(cell, &offer, sizeof offer)) waiter.ring();
    if (offer.bytes != receive->bytes) return wrong_size(receive->bytes, offer.bytes);
    if (info == kLong) {
      receive->state = Operation::State::parts;
      return NP_OK;
    }
    return begin_pull(receive, offer, moved);
  }

  np_status begin_pull(Operation* receive, const Offer& offer, bool& moved) {
    incoming.mapped = memory.reach(offer.source, offer.bytes);
    incoming.remote = offer.source.address;
    incoming.ticket = offer.ticket;
    incoming.units = units_of(offer.bytes);
    if (incoming.mapped == nullptr && !cma) {
      return breaks(fail(NP_FAILED, "cannot map the message memory of rank %d: %s; try copy=pipeline", peer,
                         std::strerror(errno)));
    }
    const bool mapped = incoming.mapped != nullptr;
    incoming.shared = cooperate && incoming.units <= kLargestSharedUnits &&
                      offer.bytes >= (mapped ? kSharedMin : kSharedMinCma);
    receive->state = Operation::State::pulling;
    if (!incoming.shared) return progress_pull(receive, moved);
    Place target = memory.place(receive->data, receive->bytes);
    if (copy == Copy::cma) target.slot = kAllocations;
    const std::uint64_t first = share_of(incoming.units, least_share());
    in->address.store(target.address, std::memory_order_relaxed);
    in->slot.store(std::uint64_t{target.generation} << 32 | target.slot, std::memory_order_relaxed);
    in->offset.store(target.offset, std::memory_order_relaxed);
    in->claims.store(claims_word(incoming.ticket, first), std::memory_order_relaxed);
    in->open.store(incoming.ticket, std::memory_order_release);
    return pull(receive, Share{0, first});
  }

  [[nodiscard]] std::uint64_t least_share() const {
    return incoming.mapped != nullptr ? kLeastShareUnits : kLeastShareUnitsCma;
  }

  np_status pull(Operation* receive, const Share& share) {
    const std::uint64_t begin = share.begin * kUnitBytes;
    const std::uint64_t bytes = std::min(share.units * kUnitBytes, receive->bytes - begin);
    if (incoming.mapped != nullptr) {
      std::memcpy(receive->data + begin, incoming.mapped + begin, bytes);
    } else if (const int reason = copy_from_process(peer_pid, receive->data + begin, incoming.remote + begin, bytes)) {
      return kernel_refused(reason, "reading from");
    }
    return NP_OK;
  }

  np_status progress_pull(Operation* receive, bool& moved) {
    if (receive->state == Operation::State::pulling) {
      Share share;
      if (incoming.shared) {
        share = claim(in->claims, incoming.ticket, incoming.units, Side::front, least_share());
      } else {
        share = Share{receive->moved, std::min(incoming.units - receive->moved, kLargestShareUnits)};
        receive->moved += share.units;
      }
      if (share.units != 0) {
        moved = true;
        const np_status status = pull(receive, share);
        if (status != NP_OK || incoming.shared || receive->moved != incoming.units) return status;
      }
      if (incoming.shared) helped_there += claimed_from_back(in->claims);
      receive->state = Operation::State::joining;
    }
    if (in->helped.load(std::memory_order_acquire) != helped_there) return NP_OK;
    moved = true;
    in->done.store(incoming.ticket, std::memory_order_release);
    waiter.ring();
    finish(receives.pop());
    return NP_OK;
  }

  // ---------------------------------------------------------------------------------------------- both

  np_status progress(bool& moved) {
    if (receives.head() != nullptr) {
      if (const np_status status = progress_receives(moved); status != NP_OK) return status;
    }
    if (sends.head() != nullptr) progress_sends(moved);
    return offered.head() != nullptr ? progress_offered(moved) : NP_OK;
  }

  // Does what there is to do until the operation is done. It is in a queue; after a failure nobody looks at the
  // queues again.
  np_status complete(const Operation& operation) {
    if (broken != NP_OK) return broken;
    Waiter::Patience patience(waiter);
    const unsigned gap = waiter.gap(operation.bytes);
    while (operation.state != Operation::State::done) {
      bool moved = false;
      if (const np_status status = progress(moved); status != NP_OK) return breaks(status);
      if (moved && *context->abort == 0) continue;
      if (const np_status status = waiter.idle(patience, gap); status != NP_OK) {
        take_target_back();
        return breaks(gave_up(status));
      }
    }
    return NP_OK;
  }

  // Given up in the middle of a message: the memory that the sender was helping to fill may be freed next. No further
  // share can be claimed, and one that is being written is waited for a little.
  [[gnu::cold]] void take_target_back() {
    if (!incoming.shared) return;
    const std::uint64_t closed = in->claims.exchange(claims_word(incoming.ticket + 1, 0), std::memory_order_acq_rel);
    if (closed >> (2 * kClaimBits) != (incoming.ticket & 0xFFFF)) return;
    const std::uint64_t expected = helped_there + (closed >> kClaimBits & kClaimMask);
    const std::int64_t end = now_ns() + 50'000'000;
    while (in->helped.load(std::memory_order_acquire) < expected && now_ns() < end) relax();
  }

  [[gnu::noinline]] np_status send_long_way(const void* data, std::size_t bytes) {
    if (broken != NP_OK) return broken;
    Operation send;
    enqueue(send, sends, const_cast<void*>(data), bytes);
    return complete(send);
  }

  [[gnu::noinline]] np_status receive_long_way(void* data, std::size_t bytes) {
    if (broken != NP_OK) return broken;
    Operation receive;
    enqueue(receive, receives, data, bytes);
    return complete(receive);
  }

  void enqueue(Operation& operation, Queue& queue, void* data, std::size_t bytes) {
    operation.data = static_cast<unsigned char*>(data);
    operation.bytes = bytes;
    queue.push(&operation);
    ++pending;
  }
};

namespace netpipe::shm {
namespace {

np_status probe(char* message, size_t message_bytes) {
  const int fd = make_memfd(kPageBytes);
  Mapping mapping;
  const int reason = fd < 0 ? errno : mapping.map_of(getpid(), fd, kPageBytes);
  if (fd >= 0) ::close(fd);
  if (reason == 0) return NP_OK;
  std::snprintf(message, message_bytes, "shared memory through /proc/self/fd failed: %s; mount /proc and allow memfd_create",
                std::strerror(reason));
  return NP_UNAVAILABLE;
}

np_status open(const np_context* context, np_endpoint** endpoint) {
  std::unique_ptr<np_endpoint> e(new (std::nothrow) np_endpoint);
  if (e == nullptr) return NP_NO_MEMORY;
  e->context = context;
  e->peer = 1 - context->rank;
  const auto option = [&](Option which) { return e->option(which); };
  e->eager = static_cast<std::uint64_t>(option(kEager));
  e->cma_min = static_cast<std::uint64_t>(option(kCmaMin));
  e->chunk = static_cast<std::uint64_t>(option(kChunk));
  e->copy = static_cast<Copy>(option(kCopy));
  e->cooperate = option(kCooperate) != 0;
  e->shape.slots = power_of_two(static_cast<std::uint64_t>(option(kSlots)));
  e->shape.ring_bytes =
      power_of_two(std::max({static_cast<std::uint64_t>(option(kRing)), 4 * e->eager, 4 * e->chunk}));
  e->shape.handover_bytes = round_up(std::max<std::uint64_t>(e->eager, kLineBytes), kLineBytes);
  e->waiter.bind({.mode = static_cast<WaitMode>(option(kWait)),
                  .spin_ns = option(kSpin) * 1000,
                  .gap_ns = option(kPollGap),
                  .oversubscribed = context->oversubscribed != 0,
                  .abort = context->abort});
  const std::size_t bytes = kCellsOffset + Cells::bytes(e->shape);
  int reason = 0;
  if (context->rank == 0) {  // its memory holds the cells of both
    e->fd = make_memfd(bytes);
    reason = e->fd < 0 ? errno : e->mapping.map(e->fd, bytes);
    if (reason == 0) {
      e->segment = new (e->mapping.base()) Segment{};
      e->segment->job = hash(context->job);
      e->segment->magic.store(kSegmentMagic, std::memory_order_release);
    }
  }
  if (reason != 0) {
    return e->fail(NP_NO_MEMORY, "cannot get %zu bytes of shared memory: %s", bytes, std::strerror(reason));
  }
  *endpoint = e.release();
  return NP_OK;
}

void close(np_endpoint* e) { delete e; }

np_status address(np_endpoint* e, void* data, size_t* bytes) {
  Address address{kSegmentMagic, getpid(), e->fd, kCellsOffset + Cells::bytes(e->shape),
                  reinterpret_cast<std::uintptr_t>(&e->probe), {}};
  for (int i = 0; i < kOptions; ++i) address.options[i] = e->option(static_cast<Option>(i));
  if (*bytes < sizeof address) return e->fail(NP_FAILED, "the core leaves no room for an address of shared memory");
  std::memcpy(data, &address, sizeof address);
  *bytes = sizeof address;
  return NP_OK;
}

// Waits until the peer has come as far as this process.
np_status meet(np_endpoint* e, std::uint32_t stage) {
  e->segment->stage[e->rank()].reached.store(stage, std::memory_order_release);
  const std::int64_t end = now_ns() + e->context->timeout_ns;
  while (e->segment->stage[e->peer].reached.load(std::memory_order_acquire) < stage) {
    if (*e->context->abort != 0) return e->gave_up(NP_ABORTED);
    if (now_ns() > end) return e->fail(NP_FAILED, "rank %d did not map the shared memory in time", e->peer);
    usleep(50);
  }
  return NP_OK;
}

// Whether the kernel lets this process read the other's memory; else why not.
void try_cma(np_endpoint* e, const Address& there) {
  std::uint64_t word = 0;
  const int reason = copy_from_process(e->peer_pid, &word, there.probe, sizeof word);
  const bool allowed = reason == 0 && word == kSegmentMagic;
  if (reason != 0) e->cma_reason = std::strerror(reason);
  if (reason == EPERM) e->cma_reason += " (kernel.yama.ptrace_scope, a container's seccomp profile or another user)";
  e->segment->stage[e->rank()].cma.store(allowed ? 1 : 0, std::memory_order_release);
}

np_status connect(np_endpoint* e, const void* const* addresses, const size_t* bytes) {
  Address here, there;
  if (bytes[e->peer] != sizeof there) return e->fail(NP_FAILED, "rank %d sent no address of shared memory", e->peer);
  std::memcpy(&here, addresses[e->rank()], sizeof here);
  std::memcpy(&there, addresses[e->peer], sizeof there);
  if (there.magic != kSegmentMagic) return e->fail(NP_FAILED, "rank %d runs another build of shm", e->peer);
  for (int i = 0; i < kOptions; ++i) {
    if (here.options[i] == there.options[i]) continue;
    return e->fail(NP_USAGE, "option %s is %lld here and %lld at rank %d: both need the same", kOptionTable[i].name,
                   static_cast<long long>(here.options[i]), static_cast<long long>(there.options[i]), e->peer);
  }
  e->peer_pid = there.pid;
  if (e->rank() == 1) {
    if (const int reason = e->mapping.map_of(there.pid, there.fd, there.segment_bytes); reason != 0) {
      return e->fail(NP_UNAVAILABLE, "cannot map the shared memory of process %d: %s; both ranks must run as one user in one "
                     "process namespace", there.pid, std::strerror(reason));
    }
    auto* segment = std::launder(reinterpret_cast<Segment*>(e->mapping.base()));
    if (segment->magic.load(std::memory_order_acquire) != kSegmentMagic || segment->job != hash(e->context->job)) {
      return e->fail(NP_UNAVAILABLE, "process %d is not rank 0 of this run: the ranks are in different process namespaces",
                     there.pid);
    }
    e->segment = segment;
  }
  Segment& segment = *e->segment;
#ifdef PR_SET_PTRACER
  prctl(PR_SET_PTRACER, there.pid, 0, 0, 0);  // Yama lets only descendants read a process unless it names another
#endif
  e->pidfd = static_cast<int>(syscall(SYS_pidfd_open, there.pid, 0));
  e->waiter.attach(&segment.bell[e->rank()], &segment.bell[e->peer], e->pidfd);
  e->waiter_attached = true;
  e->memory.attach(segment.allocations[e->rank()], segment.allocations[e->peer], there.pid);
  e->out = &segment.transfer[e->rank()];
  e->in = &segment.transfer[e->peer];
  e->cells.bind(e->mapping.base() + kCellsOffset, e->shape, e->rank(), e->option(kHandover) != 0, e->option(kDemote) != 0);
  if (const np_status status = meet(e, 1); status != NP_OK) return status;
  try_cma(e, there);
  if (const np_status status = meet(e, 2); status != NP_OK) return status;
  e->cma = segment.stage[0].cma.load() == 1 && segment.stage[1].cma.load() == 1;
  if (e->cma) return NP_OK;
  if (e->cma_reason.empty()) e->cma_reason = "the other rank may not";
  if (e->copy != Copy::cma) return NP_OK;
  return e->fail(NP_UNAVAILABLE, "copy=cma: process_vm_readv is not allowed between the ranks: %s", e->cma_reason.c_str());
}

np_status limits(np_endpoint*, np_limits* limits) {
  *limits = {.max_message_bytes = 0, .alignment = 0, .delivers = 1, .reserved = 0};
  return NP_OK;
}

np_status alloc(np_endpoint* e, size_t bytes, void** memory) {
  const int reason = e->memory.allocate(bytes, memory);
  if (reason == 0) return NP_OK;
  return e->fail(NP_NO_MEMORY, "cannot get %zu bytes of shared message memory: %s (at most %u pieces at a time)", bytes,
                 std::strerror(reason), kAllocations);
}
void free(np_endpoint* e, void* memory, size_t) { e->memory.free(memory); }

np_status send(np_endpoint* e, int, const void* data, size_t bytes) {
  if (e->pending == 0 && bytes <= e->eager) [[likely]] {
    if (e->cells.put(data, bytes, bytes)) [[likely]] {
      e->waiter.ring();
      return NP_OK;
    }
  }
  return e->send_long_way(data, bytes);
}

np_status recv(np_endpoint* e, int, void* data, size_t bytes) {
  if (e->pending != 0 || bytes > e->eager) return e->receive_long_way(data, bytes);
  const unsigned gap = e->waiter.gap(bytes);
  Waiter::Patience patience(e->waiter);
  for (;;) {
    if (const Cell* cell = e->cells.look()) {
      const std::uint64_t info = Cells::info(cell);
      if (info != bytes) [[unlikely]] return e->receive_long_way(data, bytes);
      if (e->cells.take(cell, data, bytes)) e->waiter.ring();
      return NP_OK;
    }
    if (const np_status status = e->waiter.idle(patience, gap); status != NP_OK) return e->gave_up(status);
  }
}

np_status start(np_endpoint* e, Queue& queue, void* data, size_t bytes, np_request* request) {
  if (e->broken != NP_OK) return e->broken;
  e->enqueue(*new (request) Operation, queue, data, bytes);
  bool moved = false;
  const np_status status = e->progress(moved);
  return status == NP_OK ? NP_OK : e->breaks(status);
}

np_status isend(np_endpoint* e, int, const void* data, size_t bytes, np_request* request) {
  if (e->pending == 0 && bytes <= e->eager && e->cells.put(data, bytes, bytes)) {
    e->waiter.ring();
    (new (request) Operation)->state = Operation::State::done;
    return NP_OK;
  }
  return start(e, e->sends, const_cast<void*>(data), bytes, request);
}

np_status irecv(np_endpoint* e, int, void* data, size_t bytes, np_request* request) {
  return start(e, e->receives, data, bytes, request);
}

Operation* operation_of(np_request* request) { return std::launder(reinterpret_cast<Operation*>(request)); }

np_status wait(np_endpoint* e, np_request* request) { return e->complete(*operation_of(request)); }

np_status test(np_endpoint* e, np_request* request) {
  Operation* operation = operation_of(request);
  if (operation->state == Operation::State::done) return NP_OK;
  if (e->broken != NP_OK) return e->broken;
  if (*e->context->abort != 0) return e->breaks(e->gave_up(NP_ABORTED));
  bool moved = false;
  if (const np_status status = e->progress(moved); status != NP_OK) return e->breaks(status);
  return operation->state == Operation::State::done ? NP_OK : NP_PENDING;
}

// ---------------------------------------------------------------------------------------------- one-sided

np_status expose(np_endpoint* e, void* memory, size_t bytes, np_region* region) {
  const Key key{e->memory.place(memory, bytes), bytes};
  *region = {};
  region->base = memory;
  region->bytes = bytes;
  region->key_bytes = sizeof key;
  std::memcpy(region->key, &key, sizeof key);
  return NP_OK;
}

np_status attach(np_endpoint* e, int, np_region* region) {
  Key key;
  std::memcpy(&key, region->key, sizeof key);
  unsigned char* mapped = e->memory.reach(key.place, key.bytes);
  if (mapped == nullptr && !e->cma) {
    return e->fail(NP_UNAVAILABLE, "rank %d's memory can neither be mapped nor read through the kernel: %s", e->peer,
                   e->cma_reason.c_str());
  }
  region->base = reinterpret_cast<void*>(key.place.address);  // NOLINT(performance-no-int-to-ptr)
  region->bytes = key.bytes;
  region->word[kRegionLocal] = reinterpret_cast<std::uintptr_t>(mapped);
  region->word[kRegionRemote] = key.place.address;
  return NP_OK;
}

void withdraw(np_endpoint*, np_region*) {}

np_status outside(const np_endpoint* e, const np_region* region, size_t offset, size_t bytes) {
  return e->fail(NP_USAGE, "%zu bytes at offset %zu are not within the %llu bytes of rank %d's region", bytes, offset,
                 static_cast<unsigned long long>(region->bytes), e->peer);
}

np_status put(np_endpoint* e, int, const void* source, const np_region* target, size_t offset, size_t bytes) {
  if (offset > target->bytes || bytes > target->bytes - offset) return outside(e, target, offset, bytes);
  if (target->word[kRegionLocal] != 0) {
    std::memcpy(reinterpret_cast<unsigned char*>(target->word[kRegionLocal]) + offset, source, bytes);
    return NP_OK;
  }
  const int reason = copy_to_process(e->peer_pid, target->word[kRegionRemote] + offset, source, bytes);
  return reason == 0 ? NP_OK : e->kernel_refused(reason, "writing to");
}

np_status get(np_endpoint* e, int, void* target, const np_region* source, size_t offset, size_t bytes) {
  if (offset > source->bytes || bytes > source->bytes - offset) return outside(e, source, offset, bytes);
  if (source->word[kRegionLocal] != 0) {
    std::memcpy(target, reinterpret_cast<const unsigned char*>(source->word[kRegionLocal]) + offset, bytes);
    return NP_OK;
  }
  const int reason = copy_from_process(e->peer_pid, target, source->word[kRegionRemote] + offset, bytes);
  return reason == 0 ? NP_OK : e->kernel_refused(reason, "reading from");
}

np_status flush(np_endpoint*, int) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return NP_OK;
}

np_status barrier(np_endpoint* e) {
  if (e->broken != NP_OK) return e->broken;
  auto& arrived = e->segment->barrier.arrived;
  arrived[e->rank()].store(++e->arrived, std::memory_order_seq_cst);
  e->waiter.ring();
  Waiter::Patience patience(e->waiter);
  while (arrived[e->peer].load(std::memory_order_acquire) < e->arrived) {
    bool moved = false;
    if (const np_status status = e->progress(moved); status != NP_OK) return e->breaks(status);
    if (moved) continue;
    const np_status status = e->waiter.idle(patience, e->waiter.gap(0));
    if (status != NP_OK) return e->gave_up(status);
  }
  return NP_OK;
}

// ---------------------------------------------------------------------------------------------- what it is

void describe(np_endpoint* e, np_emit emit, void* to) {
  char text[256];
  const char* const modes[] = {"poll", "block", "hybrid"};
  std::snprintf(text, sizeof text, "%s", modes[e->option(kWait)]);
  if (e->option(kWait) == 2) {
    std::snprintf(text, sizeof text, "looks for %lld us, then futex", static_cast<long long>(e->option(kSpin)));
  }
  emit(to, "waits", e->context->oversubscribed != 0 ? (std::string(text) + ", yields the processor").c_str() : text);
  std::snprintf(text, sizeof text, "%u pauses of %.1f ns", e->waiter.gap(0), e->waiter.relax_ns());
  emit(to, "poll_gap", text);
  std::snprintf(text, sizeof text, "up to %llu bytes; %s", static_cast<unsigned long long>(e->eager),
                e->option(kHandover) != 0 ? "handed over in the line of the last one, else through the ring" : "through the ring");
  emit(to, "eager", text);
  std::snprintf(text, sizeof text, "%zu slots, %zu bytes in each direction", e->shape.slots, e->shape.ring_bytes);
  emit(to, "ring", text);
  std::string large;
  if (e->copy == Copy::automatic) large = "module memory: one copy from the mapped buffer; other memory: ";
  if (e->copy == Copy::pipeline || !e->cma) {
    large += "two copies through the ring";
  } else {
    large += "one copy by process_vm_readv";
    if (e->copy == Copy::automatic) large += " from " + std::to_string(e->cma_min) + " bytes on, two copies through the ring below";
  }
  if (e->cooperate && e->copy != Copy::pipeline) large += "; both processes copy";
  emit(to, "large", large.c_str());
  emit(to, "cma", e->cma ? "allowed" : e->cma_reason.c_str());
}

void counters(np_endpoint* e, np_emit emit, void* to) {
  const auto count = [&](const char* name, std::uint64_t value) { emit(to, name, std::to_string(value).c_str()); };
  count("entries_handed_over", e->cells.entries_out() - e->cells.ring_entries_out());
  count("entries_in_ring", e->cells.ring_entries_out());
  count("messages_mapped", e->by_mapping);
  count("messages_cma", e->by_cma);
  count("messages_through_ring", e->by_ring);
  count("helped_bytes", e->helped_here * kUnitBytes);
  count("sleeps", e->waiter.sleeps());
  count("wakes", e->waiter.wakes());
}

// The layer that it binds is the kernel's.
const char* version() {
  static const std::string text = [] {
    utsname kernel{};
    uname(&kernel);
    return std::string(kernel.sysname) + " " + kernel.release + ", glibc " + gnu_get_libc_version();
  }();
  return text.c_str();
}

}  // namespace
}  // namespace netpipe::shm

extern "C" [[gnu::visibility("default")]] const np_module* netpipe_module() {
  static const np_module module = {
      .magic = NP_MAGIC,
      .abi = NP_ABI,
      .size = sizeof(np_module),
      .name = "shm",
      .summary = "messages through shared memory between two processes, as quick as the cores can",
      .version = version(),
      .below = "memcpy",
      .adds = "a message between two processes",
      .options = kOptionTable,
      .noptions = kOptions,
      .min_ranks = 2,
      .max_ranks = 2,
      .crosses_hosts = 0,
      .probe = probe,
      .open = open,
      .close = netpipe::shm::close,
      .bootstrap = nullptr,
      .address = address,
      .connect = connect,
      .reset = nullptr,
      .limits = limits,
      .alloc = alloc,
      .free = netpipe::shm::free,
      .send = send,
      .recv = recv,
      .isend = isend,
      .irecv = irecv,
      .wait = wait,
      .test = test,
      .expose = expose,
      .attach = attach,
      .withdraw = withdraw,
      .put = put,
      .get = get,
      .fence = barrier,
      .flush = flush,
      .collective = nullptr,
      .barrier = barrier,
      .describe = describe,
      .counters = counters,
  };
  return &module;
}
