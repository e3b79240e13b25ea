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
      if (const np_status status = waiter.idle(patience, gap); status != NP_OK) return breaks(gave_up(status));
    }
    return NP_OK;
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
