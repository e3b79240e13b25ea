// SPDX-License-Identifier: Apache-2.0
// shm: our own messages through shared memory between processes of one host. The floor that every other layer on one
// host is held against, so it has every right that a library could take: small messages in one cache line
// (shm_cells.h), large ones copied once and by both processes (shm_transfer.h), memory that the peer has mapped
// (shm_memory.h). No system call between two messages unless an option asks for one (shm_wait.h, cma).
//
// All ranks map one segment of rank 0: what they share, and a part for each pair of ranks. Of more than two ranks the
// pages of a pair are made, and its process is looked up, when the first message goes between the two.
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
#include <vector>

#include "netpipe/module.h"
#include "shm_endpoint.h"
#include "shm_one_sided.h"
#include "shm_options.h"

namespace netpipe::shm {
namespace {

struct Address {
  std::uint64_t magic;
  std::int32_t pid;
  std::int32_t fd;
  std::uint64_t segment_bytes;
  std::uint64_t probe;  // where this process has kSegmentMagic, to try cross-memory attach on
  std::int64_t options[kOptions];
};

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

// The segment, by map(pages): of two ranks with all its pages, of more with those that all share. 0, or an errno.
template <typename Map>
int map_here(np_endpoint& e, const Map& map) {
  const bool two = e.nranks() == 2;
  const int reason = map(two);
  return reason != 0 || two ? reason : e.mapping.populate(0, e.layout.common_bytes());
}

np_status open(const np_context* context, np_endpoint** endpoint) {
  std::unique_ptr<np_endpoint> e(new (std::nothrow) np_endpoint);
  const Peer peer{context, -1, -1};
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
  e->layout = {e->nranks(), Cells::bytes(e->shape)};
  e->waiting = {.mode = static_cast<Wait>(e->option(kWait)),
                .spin_ns = e->option(kSpin) * 1000,
                .oversubscribed = context->oversubscribed != 0,
                .abort = context->abort};
  e->pace.calibrate(e->option(kPollGap));
  e->crowd.memory = &e->memory;
  e->crowd.begun.reserve(e->nranks());
  e->pidfds.reserve(e->nranks());
  if (context->rank == 0) {  // its segment holds what all share
    const std::size_t bytes = e->layout.bytes();
    e->fd = make_memfd(bytes);
    if (const int reason = e->fd < 0 ? errno
                                     : map_here(
                                           *e,
                                           [&](bool pages) {
                                             return pages ? e->mapping.map(e->fd, bytes)
                                                          : e->mapping.reserve(e->fd, bytes);
                                           });
        reason != 0) {
      return e->peer.fail(NP_NO_MEMORY, "cannot get %zu bytes of shared memory: %s", bytes, std::strerror(reason));
    }
    // The kernel's zeroes are what everything in it begins with.
    auto* segment = new (e->mapping.base()) Segment{};
    segment->job = hash(context->job);
    segment->magic.store(kSegmentMagic, std::memory_order_release);
  }
  *endpoint = e.release();
  return NP_OK;
}

void close(np_endpoint* e) { delete e; }

np_status address(np_endpoint* e, void* data, size_t* bytes) {
  Address here{kSegmentMagic, getpid(), e->fd, e->layout.bytes(), reinterpret_cast<std::uintptr_t>(&e->probe), {}};
  for (int i = 0; i < kOptions; ++i) here.options[i] = e->option(i);
  if (*bytes < sizeof here)
    return e->peer.fail(NP_FAILED, "netpipe has no room for an address of %zu bytes", sizeof here);
  std::memcpy(data, &here, sizeof here);
  *bytes = sizeof here;
  return NP_OK;
}

// Waits until all have come as far as this process.
np_status meet(np_endpoint* e, std::uint32_t stage) {
  e->member(e->rank()).reached.store(stage, std::memory_order_release);
  const std::int64_t end = now_ns() + e->peer.context->timeout_ns;
  for (unsigned other = 0; other < e->nranks(); ++other) {
    while (e->member(other).reached.load(std::memory_order_acquire) < stage) {
      if (*e->peer.context->abort != 0)
        return e->peer.fail(NP_ABORTED, "gave up waiting for rank %u in shared memory", other);
      if (now_ns() > end) return e->peer.fail(NP_FAILED, "rank %u did not map the shared memory in time", other);
      usleep(50);
    }
  }
  return NP_OK;
}

// The segment of rank 0. That a descriptor can be opened does not mean that it is the right one: the number of a
// process means another process in another namespace.
np_status map_segment(np_endpoint* e, const Address& there) {
  const int reason =
      map_here(*e, [&](bool pages) { return e->mapping.map_of(there.pid, there.fd, there.segment_bytes, pages); });
  if (reason != 0) {
    return e->peer.fail(
        NP_UNAVAILABLE,
        "cannot map the shared memory of process %d: %s; all ranks must run as the same user in the same "
        "process namespace",
        there.pid, std::strerror(reason));
  }
  const auto* segment = std::launder(reinterpret_cast<Segment*>(e->mapping.base()));
  if (segment->magic.load(std::memory_order_acquire) != kSegmentMagic || segment->job != hash(e->peer.context->job)) {
    return e->peer.fail(NP_UNAVAILABLE,
                        "process %d is not rank 0 of this run: the ranks are in different process namespaces",
                        there.pid);
  }
  return NP_OK;
}

// Whether the kernel lets this process reach the memory of all others; else why not.
void try_cma(np_endpoint* e, const std::vector<Address>& all) {
  bool allowed = true;
  for (unsigned other = 0; other < e->nranks() && allowed; ++other) {
    if (other == e->rank()) continue;
    std::uint64_t word = 0;
    const int reason = copy_from_process(all[other].pid, &word, all[other].probe, sizeof word);
    if (reason != 0) e->cma_reason = std::strerror(reason);
    if (reason == EPERM) e->cma_reason += " (see kernel.yama.ptrace_scope, or the container's seccomp profile)";
    allowed = reason == 0 && word == kSegmentMagic;
  }
  e->member(e->rank()).cma.store(allowed ? 1 : 0, std::memory_order_release);
}

np_status read_addresses(np_endpoint* e, const void* const* addresses, const size_t* bytes, std::vector<Address>& all) {
  all.resize(e->nranks());
  for (unsigned other = 0; other < e->nranks(); ++other) {
    Address& there = all[other];
    if (bytes[other] != sizeof there) {
      return e->peer.fail(NP_FAILED, "rank %u sent %zu bytes as its address, shm has %zu", other, bytes[other],
                          sizeof there);
    }
    std::memcpy(&there, addresses[other], sizeof there);
    if (there.magic != kSegmentMagic) return e->peer.fail(NP_FAILED, "rank %u runs another build of shm", other);
    for (int i = 0; i < kOptions; ++i) {
      if (there.options[i] == e->option(i)) continue;
      return e->peer.fail(NP_USAGE, "option %s is %lld here and %lld at rank %u: all ranks need the same",
                          kOptionTable[i].name, static_cast<long long>(e->option(i)),
                          static_cast<long long>(there.options[i]), other);
    }
    e->pids.push_back(there.pid);
  }
  return NP_OK;
}

// Makes what messages with this rank need, and counts it among those that have begun.
np_status begin(np_endpoint* e, unsigned other) {
  const std::size_t at = e->layout.pair(e->rank(), other);
  if (const int reason = e->mapping.populate(at, e->layout.pair_bytes()); reason != 0) {
    return e->peer.fail(NP_NO_MEMORY, "cannot get %zu bytes of shared memory for messages with rank %u: %s",
                        e->layout.pair_bytes(), other, std::strerror(reason));
  }
  const bool opposite = static_cast<int>(other) == e->opposite;
  Messages& messages = opposite ? e->messages : *e->others[other];
  const unsigned side = e->rank() < other ? 0 : 1;
  const pid_t pid = e->pids[other];
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));  // -1 before Linux 5.3
  if (pidfd >= 0) e->pidfds.push_back(pidfd);
  messages.waiter.bind(e->waiting);
  messages.waiter.pace = e->pace;
  messages.waiter.attach(&e->member(e->rank()).bell, &e->member(other).bell, pidfd);
  messages.memory.attach(e->member(other).allocations, pid);
  messages.cells.bind(e->mapping.base() + at + netpipe::shm::Layout::cells(), e->shape, side, e->option(kHandover) != 0,
                      e->option(kDemote) != 0);
  auto* transfers = std::launder(reinterpret_cast<Transfer*>(e->mapping.base() + at));
  auto* rings = std::launder(reinterpret_cast<SignalRing*>(e->mapping.base() + at + netpipe::shm::Layout::signals()));
  messages.signals.bind(rings, side);
  messages.bind(e->settings, {e->peer.context, static_cast<int>(other), pid}, e->crowd, transfers, side);
  e->links[other] = &messages;
  e->crowd.begun.push_back(&messages);
  return NP_OK;
}

np_status connect(np_endpoint* e, const void* const* addresses, const size_t* bytes) {
  std::vector<Address> all;
  if (const np_status status = read_addresses(e, addresses, bytes, all); status != NP_OK) return status;
  if (e->rank() != 0) {
    if (const np_status status = map_segment(e, all[0]); status != NP_OK) return status;
  }
  const unsigned mirrored = e->nranks() - 1 - e->rank();
  e->opposite = static_cast<int>(mirrored != e->rank() ? mirrored : 0);
  const auto opposite = static_cast<unsigned>(e->opposite);
#ifdef PR_SET_PTRACER
  // Yama: a process that is no ancestor must be named to be let in, and its descendants are then too. Rank 0 has made
  // all others.
  prctl(PR_SET_PTRACER, e->nranks() == 2 ? all[opposite].pid : all[0].pid, 0, 0, 0);
#endif
  e->memory.attach(e->member(e->rank()).allocations);
  if (const np_status status = meet(e, 1); status != NP_OK) return status;
  try_cma(e, all);
  if (const np_status status = meet(e, 2); status != NP_OK) return status;
  e->settings.cma = true;
  for (unsigned other = 0; other < e->nranks(); ++other) e->settings.cma &= e->member(other).cma.load() == 1;
  if (!e->settings.cma && e->cma_reason.empty()) e->cma_reason = "another rank is not allowed to";
  if (!e->settings.cma && e->settings.copy == Copy::cma) {
    return e->peer.fail(NP_UNAVAILABLE, "copy=cma: process_vm_readv is not allowed between the ranks: %s",
                        e->cma_reason.c_str());
  }
  e->links.resize(e->nranks());
  e->others.resize(e->nranks());
  for (unsigned other = 0; other < e->nranks(); ++other) {
    if (other == e->rank() || other == opposite) continue;
    e->others[other].reset(new (std::nothrow) Messages);
    if (!e->others[other]) return e->peer.fail(NP_NO_MEMORY, "no memory for messages with rank %u", other);
  }
  return begin(e, opposite);
}

np_status alloc(np_endpoint* e, size_t bytes, void** memory) {
  const int reason = e->memory.allocate(bytes, memory);
  if (reason == 0) return NP_OK;
  if (reason == EMFILE) {
    return e->peer.fail(NP_NO_MEMORY,
                        "no more shared message memory: at most %u pieces at a time, with a file descriptor for each",
                        kAllocations);
  }
  return e->peer.fail(NP_NO_MEMORY, "cannot get %zu bytes of shared message memory: %s", bytes, std::strerror(reason));
}
void free(np_endpoint* e, void* memory, size_t) { e->memory.free(memory); }

// ---------------------------------------------------------------------------------------------- two-sided

}  // namespace

Messages* link_to(np_endpoint* e, int peer) {
  const auto other = static_cast<unsigned>(peer);
  if (e->links[other] == nullptr && begin(e, other) != NP_OK) return nullptr;
  return e->links[other];
}

namespace {

// The opposite rank comes first, by a branch that the processor foretells: what two ranks need, and the pairs of
// patterns for two, lies in the endpoint itself. Through a table the address would have to be read before the message.
[[gnu::noinline]] np_status send_to(np_endpoint* e, int peer, const void* data, size_t bytes) {
  Messages* const messages = link_to(e, peer);
  return messages != nullptr ? messages->send(data, bytes) : NP_NO_MEMORY;
}
[[gnu::noinline]] np_status receive_from(np_endpoint* e, int peer, void* data, size_t bytes) {
  Messages* const messages = link_to(e, peer);
  return messages != nullptr ? messages->receive(data, bytes) : NP_NO_MEMORY;
}

np_status send(np_endpoint* e, int peer, const void* data, size_t bytes) {
  if (peer == e->opposite) [[likely]]
    return e->messages.send(data, bytes);
  return send_to(e, peer, data, bytes);
}
np_status recv(np_endpoint* e, int peer, void* data, size_t bytes) {
  if (peer == e->opposite) [[likely]]
    return e->messages.receive(data, bytes);
  return receive_from(e, peer, data, bytes);
}

np_status isend(np_endpoint* e, int peer, const void* data, size_t stride, size_t bytes, np_request* requests,
                size_t count) {
  Messages* const messages = peer == e->opposite ? &e->messages : link_to(e, peer);
  if (messages == nullptr) return NP_NO_MEMORY;
  const char* from = static_cast<const char*>(data);
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i, from += stride) {
    status = messages->start_send(new (&requests[i]) Operation{.with = messages}, from, bytes);
  }
  return status;
}
np_status irecv(np_endpoint* e, int peer, void* data, size_t stride, size_t bytes, np_request* requests, size_t count) {
  Messages* const messages = peer == e->opposite ? &e->messages : link_to(e, peer);
  if (messages == nullptr) return NP_NO_MEMORY;
  char* into = static_cast<char*>(data);
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i, into += stride) {
    status = messages->start_receive(new (&requests[i]) Operation{.with = messages}, into, bytes);
  }
  return status;
}
const Operation* operation_of(np_request* request) { return std::launder(reinterpret_cast<Operation*>(request)); }
np_status wait(np_endpoint*, np_request* requests, size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) {
    const Operation* const operation = operation_of(&requests[i]);
    if (operation->state != Operation::State::done) status = operation->with->wait(operation);
  }
  return status;
}
np_status test(np_endpoint*, np_request* request) {
  const Operation* const operation = operation_of(request);
  return operation->with->test(operation);
}

// ---------------------------------------------------------------------------------------------- one-sided

// Puts and gets are done when they return, so a fence is a barrier.
np_status barrier(np_endpoint* e) {
  std::atomic<std::uint64_t>* const arrived = e->arrived();
  const unsigned rank = e->rank(), nranks = e->nranks();
  const std::uint64_t turn = arrived[rank].load(std::memory_order_relaxed) + 1;
  arrived[rank].store(turn, std::memory_order_seq_cst);
  for (unsigned other = 0; other < nranks; ++other) {
    if (other != rank) e->messages.waiter.ring(e->member(other).bell);
  }
  unsigned here = 0;  // those below have been seen
  return e->messages.work_until([&] {
    while (here < nranks && arrived[here].load(std::memory_order_acquire) >= turn) ++here;
    return here == nranks;
  });
}

// ---------------------------------------------------------------------------------------------- what it is

void describe(np_endpoint* e, np_emit emit, void* to) {
  const np_value* options = e->peer.context->options;
  const Pace& pace = e->pace;
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
    {"wakes", "1", "times that it woke another one", NP_COUNTS_UP},
};

void read_counters(np_endpoint* e, int64_t* values) {
  std::fill_n(values, std::size(kCounters), 0);
  for (const Messages* messages : e->crowd.begun) {
    const std::uint64_t now[] = {
        messages->cells.entries_out() - messages->cells.ring_entries_out(),
        messages->cells.ring_entries_out(),
        messages->counts().mapped,
        messages->counts().cma,
        messages->counts().ring,
        messages->counts().helped_units * kUnitBytes,
        messages->waiter.sleeps(),
        messages->waiter.wakes(),
    };
    static_assert(std::size(now) == std::size(kCounters));
    for (std::size_t i = 0; i < std::size(now); ++i) values[i] += static_cast<int64_t>(now[i]);
  }
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
                                             .flush = flush,
                                             .put_signal = put_signal,
                                             .await_signal = await_signal,
                                             .put_strided = put_strided,
                                             .get_strided = get_strided,
                                             .atomic = atomic,
                                             .accumulate = accumulate,
                                             .fetch_accumulate = fetch_accumulate};
  static constexpr np_memory memory = {
      .size = sizeof(np_memory), .kind = NP_MEMORY_LAYER, .host_access = 1, .alloc = alloc, .free = free};
  static constexpr const np_memory* memories[] = {&memory, nullptr};
  static const np_module table = {
      .magic = NP_MAGIC,
      .abi = NP_ABI,
      .size = sizeof(np_module),
      .name = "shm",
      .summary = "messages through shared memory between processes, as fast as the cores allow",
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
      .max_ranks = INT32_MAX,
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
