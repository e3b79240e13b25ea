// SPDX-License-Identifier: Apache-2.0
// shm: our own messages through shared memory between two processes of one host. The floor that every other layer
// on one host is held against, so it has every right that a library could take: small messages in one cache line
// (shm_cells.h), large ones copied once and by both processes (shm_transfer.h), memory that the peer has mapped
// (shm_memory.h). No system call between two messages unless an option asks for one (shm_wait.h, cma).
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <string>

#include "netpipe/module.h"
#include "shm_cells.h"
#include "shm_memory.h"
#include "shm_messages.h"
#include "shm_pace.h"
#include "shm_transfer.h"
#include "shm_wait.h"

namespace netpipe::shm {
namespace {

enum Option {
  kWait,
  kSpin,
  kCopy,
  kCooperate,
  kEager,
  kCmaMin,
  kChunk,
  kRing,
  kSlots,
  kHandover,
  kPollGap,
  kDemote,
  kOptions
};
constexpr np_option kOptionTable[kOptions] = {
    {"wait", NP_CHOICE, "poll", 0, 0, NP_WAIT_CHOICES, "",
     "block sleeps in the kernel (futex), poll reads memory again and again, hybrid polls for spin_us and then "
     "sleeps",
     1},
    kSpinOption,
    {"copy", NP_CHOICE, "auto", 0, 0, "auto|pipeline|cma", "",
     "messages above eager: auto copies once where the peer's memory can be mapped, else by cma from cma_min on, else "
     "through the ring; pipeline always through the ring; cma always by process_vm_readv",
     1},
    {"cooperate", NP_BOOL, "yes", 0, 0, nullptr, "",
     "both processes copy a large message at the same time, the receiver from its front and the waiting sender from "
     "its back",
     1},
    {"eager", NP_SIZE, "4k", 0, 256 << 10, nullptr, "bytes",
     "largest message that is copied into shared memory at once, without waiting for its receiver", 1},
    {"cma_min", NP_SIZE, "48k", 0, INT64_MAX, nullptr, "bytes",
     "copy=auto: smallest message that is worth the system call of process_vm_readv", 1},
    {"chunk", NP_SIZE, "16k", 1024, 256 << 10, nullptr, "bytes", "parts of a message that goes through the ring", 1},
    {"ring", NP_SIZE, "256k", 16 << 10, 64 << 20, nullptr, "bytes",
     "payload in flight in one direction; rounded up to a power of two, at least four times eager and chunk", 1},
    {"slots", NP_INT, "256", 8, 65536, nullptr, "",
     "messages and parts in flight in one direction; rounded up to a power of two", 1},
    {"handover", NP_BOOL, "yes", 0, 0, nullptr, "",
     "a reply goes into the cache line that brought the message; no sends everything through the rings", 1},
    {"poll_gap", NP_INT, "30", 0, 1000000, nullptr, "ns",
     "pause between two polls, so that a poll does not take the cache line from a peer that is about to write it", 1},
    {"demote", NP_BOOL, "yes", 0, 0, nullptr, "",
     "lines of messages up to 4k are pushed towards the shared cache after writing (cldemote)", 1},
};

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
  std::uint64_t probe;  // where this process has kSegmentMagic, to try cross-memory attach on
  std::int64_t options[kOptions];
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

struct np_endpoint {
  netpipe::shm::Mapping mapping;    // of the segment; unmapped last
  netpipe::shm::Messages messages;  // all that a message needs
  netpipe::shm::Peer peer;
  netpipe::shm::Segment* segment = nullptr;
  netpipe::shm::Messages::Settings settings;
  netpipe::shm::Shape shape;
  int fd = -1;     // rank 0: the segment
  int pidfd = -1;  // of the peer
  std::uint64_t probe = netpipe::shm::kSegmentMagic;
  std::string cma_reason;  // why cross-memory attach is not allowed

  np_endpoint() = default;
  np_endpoint(const np_endpoint&) = delete;
  np_endpoint& operator=(const np_endpoint&) = delete;
  ~np_endpoint() {
    messages.waiter.close();
    if (fd >= 0) ::close(fd);
    if (pidfd >= 0) ::close(pidfd);
  }

  [[nodiscard]] unsigned rank() const { return static_cast<unsigned>(peer.context->rank); }
  [[nodiscard]] std::int64_t option(int which) const { return peer.context->options[which].number; }
};

namespace netpipe::shm {
namespace {

np_status probe(char* message, size_t message_bytes) {
  const int fd = make_memfd(kPageBytes);
  Mapping mapping;
  const int reason = fd < 0 ? errno : mapping.map_of(getpid(), fd, kPageBytes);
  if (fd >= 0) ::close(fd);
  if (reason == 0) return NP_OK;
  std::snprintf(message, message_bytes,
                "shared memory through /proc/self/fd failed: %s; mount /proc and allow memfd_create",
                std::strerror(reason));
  return NP_UNAVAILABLE;
}

np_status open(const np_context* context, np_endpoint** endpoint) {
  std::unique_ptr<np_endpoint> e(new (std::nothrow) np_endpoint);
  const Peer peer{context, 1 - context->rank, -1};
  if (e == nullptr) return peer.fail(NP_NO_MEMORY, "no memory for an endpoint");
  e->peer = peer;
  const auto size = [&](Option which) { return static_cast<std::uint64_t>(e->option(which)); };
  e->settings = {.eager = size(kEager),
                 .cma_min = size(kCmaMin),
                 .chunk = size(kChunk),
                 .copy = static_cast<Copy>(e->option(kCopy)),
                 .cooperate = e->option(kCooperate) != 0,
                 .cma = false};
  // A quarter of a ring is told free at a time: a larger entry might wait for room that nobody tells of.
  e->shape = {.slots = power_of_two(size(kSlots)),
              .ring_bytes = power_of_two(std::max({size(kRing), 4 * size(kEager), 4 * size(kChunk)})),
              .handover_bytes = round_up(std::max<std::uint64_t>(size(kEager), kLineBytes), kLineBytes)};
  e->messages.waiter.bind({.mode = static_cast<Wait>(e->option(kWait)),
                           .spin_ns = e->option(kSpin) * 1000,
                           .oversubscribed = context->oversubscribed != 0,
                           .abort = context->abort});
  e->messages.waiter.pace.calibrate(e->option(kPollGap));
  if (context->rank == 0) {  // its segment holds what both share
    const std::size_t bytes = kCellsOffset + Cells::bytes(e->shape);
    e->fd = make_memfd(bytes);
    if (const int reason = e->fd < 0 ? errno : e->mapping.map(e->fd, bytes); reason != 0) {
      return e->peer.fail(NP_NO_MEMORY, "cannot get %zu bytes of shared memory: %s", bytes, std::strerror(reason));
    }
    e->segment = new (e->mapping.base()) Segment{};
    e->segment->job = hash(context->job);
    e->segment->magic.store(kSegmentMagic, std::memory_order_release);
  }
  *endpoint = e.release();
  return NP_OK;
}

void close(np_endpoint* e) { delete e; }

np_status address(np_endpoint* e, void* data, size_t* bytes) {
  Address here{kSegmentMagic,
               getpid(),
               e->fd,
               kCellsOffset + Cells::bytes(e->shape),
               reinterpret_cast<std::uintptr_t>(&e->probe),
               {}};
  for (int i = 0; i < kOptions; ++i) here.options[i] = e->option(i);
  if (*bytes < sizeof here)
    return e->peer.fail(NP_FAILED, "netpipe has no room for an address of %zu bytes", sizeof here);
  std::memcpy(data, &here, sizeof here);
  *bytes = sizeof here;
  return NP_OK;
}

// Waits until the peer has come as far as this process.
np_status meet(np_endpoint* e, std::uint32_t stage) {
  e->segment->stage[e->rank()].reached.store(stage, std::memory_order_release);
  const std::int64_t end = now_ns() + e->peer.context->timeout_ns;
  while (e->segment->stage[e->peer.rank].reached.load(std::memory_order_acquire) < stage) {
    if (*e->peer.context->abort != 0) return e->peer.gave_up(NP_ABORTED);
    if (now_ns() > end) return e->peer.fail(NP_FAILED, "rank %d did not map the shared memory in time", e->peer.rank);
    usleep(50);
  }
  return NP_OK;
}

// Rank 1: the segment of rank 0. That a descriptor can be opened does not mean that it is the right one: the number of
// a process means another process in another namespace.
np_status map_segment(np_endpoint* e, const Address& there) {
  if (const int reason = e->mapping.map_of(there.pid, there.fd, there.segment_bytes); reason != 0) {
    return e->peer.fail(
        NP_UNAVAILABLE,
        "cannot map the shared memory of process %d: %s; both ranks must run as the same user in the same "
        "process namespace",
        there.pid, std::strerror(reason));
  }
  auto* segment = std::launder(reinterpret_cast<Segment*>(e->mapping.base()));
  if (segment->magic.load(std::memory_order_acquire) != kSegmentMagic || segment->job != hash(e->peer.context->job)) {
    return e->peer.fail(NP_UNAVAILABLE,
                        "process %d is not rank 0 of this run: the ranks are in different process namespaces",
                        there.pid);
  }
  e->segment = segment;
  return NP_OK;
}

// Whether the kernel lets this process reach the other's memory; else why not.
void try_cma(np_endpoint* e, const Address& there) {
  std::uint64_t word = 0;
  const int reason = copy_from_process(there.pid, &word, there.probe, sizeof word);
  if (reason != 0) e->cma_reason = std::strerror(reason);
  if (reason == EPERM) e->cma_reason += " (see kernel.yama.ptrace_scope, or the container's seccomp profile)";
  e->segment->stage[e->rank()].cma.store(reason == 0 && word == kSegmentMagic ? 1 : 0, std::memory_order_release);
}

np_status connect(np_endpoint* e, const void* const* addresses, const size_t* bytes) {
  Address there;
  if (bytes[e->peer.rank] != sizeof there) {
    return e->peer.fail(NP_FAILED, "rank %d sent %zu bytes as its address, shm has %zu", e->peer.rank,
                        bytes[e->peer.rank], sizeof there);
  }
  std::memcpy(&there, addresses[e->peer.rank], sizeof there);
  if (there.magic != kSegmentMagic) return e->peer.fail(NP_FAILED, "rank %d runs another build of shm", e->peer.rank);
  for (int i = 0; i < kOptions; ++i) {
    if (there.options[i] == e->option(i)) continue;
    return e->peer.fail(NP_USAGE, "option %s is %lld here and %lld at rank %d: both ranks need the same",
                        kOptionTable[i].name, static_cast<long long>(e->option(i)),
                        static_cast<long long>(there.options[i]), e->peer.rank);
  }
  e->peer.pid = there.pid;
  if (e->rank() == 1) {
    if (const np_status status = map_segment(e, there); status != NP_OK) return status;
  }
  Segment& segment = *e->segment;
  const unsigned here = e->rank(), other = 1 - here;
#ifdef PR_SET_PTRACER
  prctl(PR_SET_PTRACER, there.pid, 0, 0, 0);  // Yama: a process that is no ancestor must be named to be let in
#endif
  e->pidfd = static_cast<int>(syscall(SYS_pidfd_open, there.pid, 0));  // -1 before Linux 5.3
  Messages& messages = e->messages;
  messages.waiter.attach(&segment.bell[here], &segment.bell[other], e->pidfd);
  messages.memory.attach(segment.allocations[here], segment.allocations[other], there.pid);
  messages.cells.bind(e->mapping.base() + kCellsOffset, e->shape, here, e->option(kHandover) != 0,
                      e->option(kDemote) != 0);
  if (const np_status status = meet(e, 1); status != NP_OK) return status;
  try_cma(e, there);
  if (const np_status status = meet(e, 2); status != NP_OK) return status;
  e->settings.cma = segment.stage[0].cma.load() == 1 && segment.stage[1].cma.load() == 1;
  if (!e->settings.cma && e->cma_reason.empty()) e->cma_reason = "the other rank is not allowed to";
  if (!e->settings.cma && e->settings.copy == Copy::cma) {
    return e->peer.fail(NP_UNAVAILABLE, "copy=cma: process_vm_readv is not allowed between the ranks: %s",
                        e->cma_reason.c_str());
  }
  messages.bind(e->settings, e->peer, segment.transfer);
  return NP_OK;
}

np_status alloc(np_endpoint* e, size_t bytes, void** memory) {
  const int reason = e->messages.memory.allocate(bytes, memory);
  if (reason == 0) return NP_OK;
  if (reason == EMFILE) {
    return e->peer.fail(NP_NO_MEMORY,
                        "no more shared message memory: at most %u pieces at a time, with a file descriptor for each",
                        kAllocations);
  }
  return e->peer.fail(NP_NO_MEMORY, "cannot get %zu bytes of shared message memory: %s", bytes, std::strerror(reason));
}
void free(np_endpoint* e, void* memory, size_t) { e->messages.memory.free(memory); }

// ---------------------------------------------------------------------------------------------- two-sided
// There are two ranks, so the peer is always the other one.

np_status send(np_endpoint* e, int, const void* data, size_t bytes) { return e->messages.send(data, bytes); }
np_status recv(np_endpoint* e, int, void* data, size_t bytes) { return e->messages.receive(data, bytes); }

np_status isend(np_endpoint* e, int, const void* data, size_t stride, size_t bytes, np_request* requests,
                size_t count) {
  const char* from = static_cast<const char*>(data);
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i, from += stride) {
    status = e->messages.start_send(new (&requests[i]) Operation, from, bytes);
  }
  return status;
}
np_status irecv(np_endpoint* e, int, void* data, size_t stride, size_t bytes, np_request* requests, size_t count) {
  char* into = static_cast<char*>(data);
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i, into += stride) {
    status = e->messages.start_receive(new (&requests[i]) Operation, into, bytes);
  }
  return status;
}
const Operation* operation_of(np_request* request) { return std::launder(reinterpret_cast<Operation*>(request)); }
np_status wait(np_endpoint* e, np_request* requests, size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) status = e->messages.wait(operation_of(&requests[i]));
  return status;
}
np_status test(np_endpoint* e, np_request* request) { return e->messages.test(operation_of(request)); }

// ---------------------------------------------------------------------------------------------- one-sided

np_status expose(np_endpoint* e, void* memory, size_t bytes, np_region* region) {
  const Key key{e->messages.memory.place(memory, bytes), bytes};
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
  unsigned char* mapped = e->messages.memory.reach(key.place, key.bytes);
  if (mapped == nullptr && !e->settings.cma) {
    return e->peer.fail(NP_UNAVAILABLE,
                        "the memory of rank %d can neither be mapped nor reached through the kernel: %s", e->peer.rank,
                        e->cma_reason.c_str());
  }
  region->base = reinterpret_cast<void*>(key.place.address);
  region->bytes = key.bytes;
  region->word[kRegionLocal] = reinterpret_cast<std::uintptr_t>(mapped);
  region->word[kRegionRemote] = key.place.address;
  return NP_OK;
}

void withdraw(np_endpoint*, np_region*) {}  // an allocation stays mapped until its owner frees it

[[gnu::cold]] np_status outside(const np_endpoint* e, const np_region* region, size_t offset, size_t bytes) {
  return e->peer.fail(NP_USAGE, "%zu bytes at offset %zu are not within the %llu bytes of the region of rank %d", bytes,
                      offset, static_cast<unsigned long long>(region->bytes), e->peer.rank);
}

np_status put(np_endpoint* e, int, const void* source, const np_region* target, size_t offset, size_t bytes) {
  if (offset > target->bytes || bytes > target->bytes - offset) return outside(e, target, offset, bytes);
  if (target->word[kRegionLocal] != 0) {
    std::memcpy(reinterpret_cast<unsigned char*>(target->word[kRegionLocal]) + offset, source, bytes);
    return NP_OK;
  }
  const int reason = copy_to_process(e->peer.pid, target->word[kRegionRemote] + offset, source, bytes);
  return reason == 0 ? NP_OK : e->messages.kernel_refused(reason, "writing to");
}

np_status get(np_endpoint* e, int, void* target, const np_region* source, size_t offset, size_t bytes) {
  if (offset > source->bytes || bytes > source->bytes - offset) return outside(e, source, offset, bytes);
  if (source->word[kRegionLocal] != 0) {
    std::memcpy(target, reinterpret_cast<const unsigned char*>(source->word[kRegionLocal]) + offset, bytes);
    return NP_OK;
  }
  const int reason = copy_from_process(e->peer.pid, target, source->word[kRegionRemote] + offset, bytes);
  return reason == 0 ? NP_OK : e->messages.kernel_refused(reason, "reading from");
}

// A put is done when it returns; the fence puts it before whatever this process publishes next.
np_status flush(np_endpoint*, int) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return NP_OK;
}

// Puts and gets are done when they return, so a fence is a barrier.
np_status barrier(np_endpoint* e) {
  auto& arrived = e->segment->barrier.arrived;
  const std::uint64_t turn = arrived[e->rank()].load(std::memory_order_relaxed) + 1;
  arrived[e->rank()].store(turn, std::memory_order_seq_cst);
  e->messages.waiter.ring();
  return e->messages.work_until([&] { return arrived[e->peer.rank].load(std::memory_order_acquire) >= turn; });
}

// ---------------------------------------------------------------------------------------------- what it is

void describe(np_endpoint* e, np_emit emit, void* to) {
  const np_value* options = e->peer.context->options;
  const Pace& pace = e->messages.waiter.pace;
  describe_waiting(options[kWait], options[kSpin], e->peer.context->oversubscribed != 0, emit, to);
  char text[160];
  std::snprintf(text, sizeof text, "%u pauses of %.1f ns", pace.gap(0), pace.pause_ns());
  np_emit_text(emit, to, "poll_gap", text);
  std::snprintf(text, sizeof text, "up to %llu bytes %s", static_cast<unsigned long long>(e->settings.eager),
                e->option(kHandover) != 0 ? "in the line of the last one, or through the ring" : "through the ring");
  np_emit_text(emit, to, "eager", text);
  std::snprintf(text, sizeof text, "%zu slots, %zu bytes each way", e->shape.slots, e->shape.ring_bytes);
  np_emit_text(emit, to, "ring", text);
  std::string large;
  if (e->settings.copy == Copy::automatic) large = "mapped memory: one copy; other memory: ";
  if (e->settings.copy == Copy::pipeline || !e->settings.cma) {
    large += "two copies through the ring";
  } else {
    large += "one copy by process_vm_readv";
    if (e->settings.copy == Copy::automatic) {
      large += " from " + std::to_string(e->settings.cma_min) + " bytes on, two copies through the ring below";
    }
  }
  if (e->settings.cooperate && e->settings.copy != Copy::pipeline) large += "; single copies by both processes";
  np_emit_text(emit, to, "large", large.c_str());
  np_emit_text(emit, to, "cma", e->settings.cma ? "allowed" : e->cma_reason.c_str());
}

constexpr np_counter kCounters[] = {
    {"entries_handed_over", "1", "messages and parts sent in the line of the last one", NP_COUNTS_UP},
    {"entries_in_ring", "1", "messages and parts sent through the ring", NP_COUNTS_UP},
    {"messages_mapped", "1", "large messages copied once, through mapped memory", NP_COUNTS_UP},
    {"messages_cma", "1", "large messages copied once, by process_vm_readv", NP_COUNTS_UP},
    {"messages_through_ring", "1", "large messages copied twice, through the ring", NP_COUNTS_UP},
    {"helped_bytes", "bytes", "bytes of large messages that the waiting sender copied", NP_COUNTS_UP},
    {"sleeps", "1", "times that this process slept", NP_COUNTS_UP},
    {"wakes", "1", "times that it woke the other one", NP_COUNTS_UP},
};

void read_counters(np_endpoint* e, int64_t* values) {
  const Messages& messages = e->messages;
  const std::uint64_t now[] = {
      messages.cells.entries_out() - messages.cells.ring_entries_out(),
      messages.cells.ring_entries_out(),
      messages.counts().mapped,
      messages.counts().cma,
      messages.counts().ring,
      messages.counts().helped_units * kUnitBytes,
      messages.waiter.sleeps(),
      messages.waiter.wakes(),
  };
  static_assert(std::size(now) == std::size(kCounters));
  std::copy(std::begin(now), std::end(now), values);
}

// The layer that it binds is the kernel's.
const char* version() {
  static const std::string text = [] {
    utsname kernel{};
    uname(&kernel);
    return std::string(kernel.sysname) + " " + kernel.release;
  }();
  return text.c_str();
}

np_status limits(np_endpoint*, np_limits* limits) {
  limits->any_memory = 1;  // other memory goes through the kernel, or through the ring
  return NP_OK;
}

const np_module* module_table() {
  static constexpr np_messages messages = {
      .size = sizeof(np_messages), .send = send, .recv = recv, .isend = isend, .irecv = irecv};
  static constexpr np_one_sided one_sided = {.size = sizeof(np_one_sided),
                                             .expose = expose,
                                             .attach = attach,
                                             .withdraw = withdraw,
                                             .put = put,
                                             .get = get,
                                             .fence = barrier,
                                             .flush = flush};
  static constexpr np_memory memory = {
      .size = sizeof(np_memory), .kind = NP_MEMORY_LAYER, .host_access = 1, .alloc = alloc, .free = free};
  static constexpr const np_memory* memories[] = {&memory, nullptr};
  static const np_module table = {
      .magic = NP_MAGIC,
      .abi = NP_ABI,
      .size = sizeof(np_module),
      .name = "shm",
      .summary = "messages through shared memory between two processes, as fast as the cores allow",
      .version = version(),
      .below = "memcpy",
      .adds = "a message between two processes",
      .options = kOptionTable,
      .noptions = kOptions,
      .option_bytes = sizeof(np_option),
      .counters = kCounters,
      .ncounters = std::size(kCounters),
      .counter_bytes = sizeof(np_counter),
      .min_ranks = 2,
      .max_ranks = 2,
      .messages = &messages,
      .one_sided = &one_sided,
      .memories = memories,
      .probe = probe,
      .open = open,
      .close = close,
      .address = address,
      .connect = connect,
      .limits = limits,
      .wait = wait,
      .test = test,
      .barrier = barrier,
      .describe = describe,
      .read_counters = read_counters,
  };
  return &table;
}

}  // namespace
}  // namespace netpipe::shm

extern "C" [[gnu::visibility("default")]] const np_module* netpipe_module() { return netpipe::shm::module_table(); }
