// SPDX-License-Identifier: Apache-2.0
// pvm: messages between tasks of PVM 3, packed by bytes: pvm_initsend, pvm_pkbyte, pvm_send; pvm_recv or pvm_nrecv,
// pvm_upkbyte. netpipe starts a private daemon on each host before the ranks (python/netpipe/libraries/daemons/pvm).
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pvm3.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "kit/libraries/library_version.h"
#include "kit/streams/fd_io.h"
#include "kit/waiting.h"
#include "netpipe/module.h"
#include "pvm/pvm_task.h"

namespace {

using namespace netpipe::pvm;
using netpipe::describe_waiting;
using netpipe::dotted;
using netpipe::LibraryVersion;
using netpipe::Wait;
using netpipe::fd_io::fail;
using netpipe::fd_io::now_ns;

enum Option { kRoute, kEncoding, kFragment, kWait, kSpin, kOptions };

constexpr int64_t kMostFragment = 1 << 20;  // libpvm takes no larger ones

constexpr np_option kTable[kOptions] = {
    {"route", NP_CHOICE, "daemon", 0, 0, "daemon|direct", "",
     "daemon: through the pvmd, which takes and forwards every message; direct: a socket between the two tasks", 1},
    {"encoding", NP_CHOICE, "default", 0, 0, "default|raw|inplace", "",
     "default: XDR, which every machine reads; raw: this machine's bytes, copied into fragments; inplace: sent from "
     "where they lie",
     1},
    {"fragment", NP_SIZE, "0", 0, kMostFragment, nullptr, "bytes",
     "size of the fragments into which default and raw cut a message (PvmFragSize), at least 1 KiB; 0 leaves libpvm's",
     1, 0,
     // 64 bytes did.
     "1..1023: with very small fragments libpvm hangs, so give at least 1k, or 0 for libpvm's own; with "
     "encoding=inplace: what lies in place is sent as one fragment"},
    {"wait", NP_CHOICE, "block", 0, 0, NP_WAIT_CHOICES, "",
     "block sleeps in select (pvm_recv), poll asks again and again (pvm_nrecv), hybrid polls for spin_us and then "
     "sleeps",
     NP_TUNABLE_WAITING},
    netpipe::kSpinOption,
};

constexpr int kEncodings[] = {PvmDataDefault, PvmDataRaw, PvmDataInPlace};

constexpr np_counter kCounters[] = {
    {"empty_polls", "1", "looks that found nothing", NP_COUNTS_UP},
    {"sleeps_after_spin", "1", "sleeps after polling for spin_us in vain", NP_COUNTS_UP},
};

// What a rank tells the others.
struct Address {
  int32_t tid, tag;
};

enum Word { kData, kBytes, kNext, kPeer, kDone };

struct Queue {  // receives that were started from one peer, in their order
  np_request *first = nullptr, *last = nullptr;
};

}  // namespace

struct np_endpoint {
  explicit np_endpoint(const np_context* given)
      : context(given),
        direct(given->options[kRoute].number == 1),
        encoding(kEncodings[given->options[kEncoding].number]),
        wait(static_cast<Wait>(given->options[kWait].number)),
        spin_ns(given->options[kSpin].number * 1000),
        tids(static_cast<size_t>(given->nranks)),
        tags(tids.size()),
        queues(tids.size()) {}
  ~np_endpoint() {
    if (enrolled) task.leave();
  }
  np_endpoint(const np_endpoint&) = delete;
  np_endpoint& operator=(const np_endpoint&) = delete;

  const np_context* context;
  Task& task = Task::of_process();
  const bool direct;
  const int encoding;
  const Wait wait;
  const int64_t spin_ns;
  bool enrolled = false;
  int tag = 0;  // of the messages to this endpoint
  int fragment_bytes = 0;
  std::vector<int> tids, tags;  // by rank: who it is, and the tag of its messages
  std::vector<Task::Peer> peers;
  std::vector<Queue> queues;
  int64_t empty_polls = 0, sleeps = 0;
};

namespace {

// ------------------------------------------------------------------------------------------------ messages

np_status aborted(np_endpoint* e) {
  return fail(e->context, NP_ABORTED, "pvm: rank %d gave up a transfer that was under way", e->context->rank);
}

np_status broken(np_endpoint* e, const char* call, int peer, int code) {
  if (code == PvmSysErr) e->task.lost_daemon();
  if (*e->context->abort != 0) return aborted(e);  // which may be why
  const char* const words = library_words();
  return fail(e->context, NP_FAILED, "pvm: %s with rank %d failed: %s%s%s", call, peer, meaning(code),
              *words != '\0' ? "; it says " : "", words);
}

np_status send(np_endpoint* e, int peer, const void* data, size_t bytes) {
  const auto rank = static_cast<size_t>(peer);
  e->task.waits(true);
  int done = pvm_initsend(e->encoding);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): only read
  if (done >= 0 && bytes > 0)
    done = pvm_pkbyte(static_cast<char*>(const_cast<void*>(data)), static_cast<int>(bytes), 1);
  if (done >= 0) done = pvm_send(e->tids[rank], e->tags[rank]);
  e->task.waits(false);
  if (done < 0) [[unlikely]]
    return broken(e, "pvm_send", peer, done);
  if (*e->context->abort != 0) [[unlikely]]  // then it may have gone another way, or nowhere
    return aborted(e);
  return NP_OK;
}

// The next message of this peer becomes libpvm's receive buffer. NP_OK: it has.
np_status look(np_endpoint* e, int peer) {
  const int got = pvm_nrecv(e->tids[static_cast<size_t>(peer)], e->tag);
  if (got > 0) [[likely]]
    return NP_OK;
  if (got < 0) return broken(e, "pvm_nrecv", peer, got);
  ++e->empty_polls;
  return *e->context->abort != 0 ? aborted(e) : NP_PENDING;
}

np_status sleep_for(np_endpoint* e, int peer) {
  e->task.waits(true);
  const int got = pvm_recv(e->tids[static_cast<size_t>(peer)], e->tag);
  e->task.waits(false);
  return got > 0 ? NP_OK : broken(e, "pvm_recv", peer, got);
}

np_status look_for(np_endpoint* e, int peer) {
  int64_t sleep_at_ns = 0;
  for (;;) {
    if (const np_status status = look(e, peer); status != NP_PENDING) return status;
    if (e->context->oversubscribed != 0) sched_yield();
    if (e->wait != Wait::hybrid) continue;
    const int64_t now = now_ns();
    if (sleep_at_ns == 0) sleep_at_ns = now + e->spin_ns;
    if (now < sleep_at_ns) continue;
    ++e->sleeps;
    return sleep_for(e, peer);
  }
}

np_status unpack(np_endpoint* e, int peer, void* data, size_t bytes) {
  if (bytes == 0) return NP_OK;
  const int done = pvm_upkbyte(static_cast<char*>(data), static_cast<int>(bytes), 1);
  return done >= 0 ? NP_OK : broken(e, "pvm_upkbyte", peer, done);
}

np_status take(np_endpoint* e, int peer, void* data, size_t bytes) {
  const np_status status = e->wait == Wait::block ? sleep_for(e, peer) : look_for(e, peer);
  return status == NP_OK ? unpack(e, peer, data, bytes) : status;
}

// The oldest receive that was started from this peer has its message.
np_status end_first(np_endpoint* e, int peer) {
  Queue& queue = e->queues[static_cast<size_t>(peer)];
  np_request* const request = queue.first;
  const np_status status = unpack(e, peer, reinterpret_cast<void*>(request->word[kData]), request->word[kBytes]);
  queue.first = reinterpret_cast<np_request*>(request->word[kNext]);
  if (queue.first == nullptr) queue.last = nullptr;
  request->word[kDone] = 1;
  return status;
}

np_status end_request(np_endpoint* e, np_request* request) {
  const auto peer = static_cast<int>(request->word[kPeer]);
  while (request->word[kDone] == 0) {
    np_status status = e->wait == Wait::block ? sleep_for(e, peer) : look_for(e, peer);
    if (status == NP_OK) status = end_first(e, peer);
    if (status != NP_OK) return status;
  }
  return NP_OK;
}

np_status recv(np_endpoint* e, int peer, void* data, size_t bytes) {
  while (e->queues[static_cast<size_t>(peer)].last != nullptr) [[unlikely]] {  // those were started before
    const np_status status = end_request(e, e->queues[static_cast<size_t>(peer)].last);
    if (status != NP_OK) return status;
  }
  return take(e, peer, data, bytes);
}

// libpvm has taken or written the whole message when pvm_send returns.
np_status isend(np_endpoint* e, int peer, const void* data, size_t stride, size_t bytes, np_request* requests,
                size_t count) {
  const char* from = static_cast<const char*>(data);
  for (size_t i = 0; i < count; ++i, from += stride) {
    if (const np_status status = send(e, peer, from, bytes); status != NP_OK) return status;
    requests[i].word[kDone] = 1;
  }
  return NP_OK;
}

np_status irecv(np_endpoint* e, int peer, void* data, size_t stride, size_t bytes, np_request* requests, size_t count) {
  Queue& queue = e->queues[static_cast<size_t>(peer)];
  char* into = static_cast<char*>(data);
  for (size_t i = 0; i < count; ++i, into += stride) {
    np_request* const request = &requests[i];
    request->word[kData] = reinterpret_cast<uint64_t>(into);
    request->word[kBytes] = bytes;
    request->word[kNext] = 0;
    request->word[kPeer] = static_cast<uint64_t>(peer);
    request->word[kDone] = 0;
    if (queue.last != nullptr) {
      queue.last->word[kNext] = reinterpret_cast<uint64_t>(request);
    } else {
      queue.first = request;
    }
    queue.last = request;
  }
  return NP_OK;
}

np_status wait(np_endpoint* e, np_request* requests, size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) status = end_request(e, &requests[i]);
  return status;
}

np_status test(np_endpoint* e, np_request* request) {
  const auto peer = static_cast<int>(request->word[kPeer]);
  while (request->word[kDone] == 0) {
    np_status status = look(e, peer);
    if (status == NP_OK) status = end_first(e, peer);
    if (status == NP_PENDING && e->context->oversubscribed != 0) sched_yield();
    if (status != NP_OK) return status;
  }
  return NP_OK;
}

constexpr np_messages kMessages = {
    .size = sizeof(np_messages), .send = send, .recv = recv, .isend = isend, .irecv = irecv};

// ------------------------------------------------------------------------------------------------ the endpoint

LibraryVersion library() {
  return {.library = "PVM",
          .built = dotted(PVM_MAJOR_VERSION, PVM_MINOR_VERSION, PVM_PATCH_VERSION),
          .found = pvm_version()};
}

np_status probe(char* message, size_t message_bytes) {
  if (const np_status status = library().probe(message, message_bytes); status != NP_OK) return status;
  const char* const root = std::getenv("PVM_ROOT");
  const std::string daemon = std::string(root != nullptr && *root != '\0' ? root : "/usr/lib/pvm3") + "/lib/pvmd";
  if (::access(daemon.c_str(), X_OK) == 0) return NP_OK;
  std::snprintf(message, message_bytes, "the PVM daemon, %s, is not there; apt install pvm, or correct PVM_ROOT",
                daemon.c_str());
  return NP_UNAVAILABLE;
}

np_status open(const np_context* context, np_endpoint** endpoint) {
  std::unique_ptr<np_endpoint> made(new (std::nothrow) np_endpoint(context));
  if (!made) return fail(context, NP_NO_MEMORY, "no memory for an endpoint");
  if (const np_status status = made->task.enrol(context); status != NP_OK) return status;
  made->enrolled = true;
  made->tag = made->task.new_tag();
  *endpoint = made.release();
  return NP_OK;
}

np_status address(np_endpoint* e, void* data, size_t* bytes) {
  const Address mine{e->task.tid(), e->tag};
  if (*bytes < sizeof mine) return fail(e->context, NP_FAILED, "no room for an address of %zu bytes", sizeof mine);
  std::memcpy(data, &mine, sizeof mine);
  *bytes = sizeof mine;
  return NP_OK;
}

// Another endpoint of this process may have been measured in between, with other settings.
np_status prepare(np_endpoint* e, const np_visit*) {
  static const int of_library = pvm_getopt(PvmFragSize);  // as the daemon told it
  const int64_t asked = e->context->options[kFragment].number;
  e->fragment_bytes = asked != 0 ? static_cast<int>(asked) : of_library;
  if (pvm_setopt(PvmFragSize, e->fragment_bytes) < 0 || pvm_getopt(PvmFragSize) != e->fragment_bytes) {
    return fail(e->context, NP_USAGE, "pvm: libpvm does not take fragments of %d bytes", e->fragment_bytes);
  }
  forget_library_words();
  std::fill(e->queues.begin(), e->queues.end(), Queue{});  // what an earlier visit gave up
  return e->direct ? e->task.route_directly(e->context, e->peers, e->tag)
                   : e->task.route_by_daemon(e->context, e->peers);
}

np_status connect(np_endpoint* e, const void* const* addresses, const size_t* bytes) {
  e->peers.clear();
  for (int rank = 0; rank < e->context->nranks; ++rank) {
    const auto r = static_cast<size_t>(rank);
    Address told{};
    if (bytes[r] != sizeof told) return fail(e->context, NP_FAILED, "the address of rank %d is malformed", rank);
    std::memcpy(&told, addresses[r], sizeof told);
    e->tids[r] = told.tid;
    e->tags[r] = told.tag;
    if (rank != e->context->rank) e->peers.push_back({rank, told.tid, told.tag});
  }
  return prepare(e, nullptr);
}

np_status limits(np_endpoint*, np_limits* limits) {
  limits->empty = 1;
  limits->max_message_bytes = 1 << 30;  // libpvm counts a message and its headers in an int
  return NP_OK;
}

// Of a run between hosts one on another host, if there is one.
const Task::Peer* farthest(const np_endpoint& e) {
  const auto far =
      std::find_if(e.peers.begin(), e.peers.end(), [&](const Task::Peer& peer) { return e.task.is_far(peer.tid); });
  if (far != e.peers.end()) return &*far;
  return e.peers.empty() ? nullptr : &e.peers.back();
}

std::string ip_of(const sockaddr_storage& address) {  // PVM knows IPv4 alone
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
  return text;
}

void describe(np_endpoint* e, np_emit emit, void* to) {
  const np_context* const context = e->context;
  np_emit_text(emit, to, "route", context->options[kRoute].text);
  np_emit_text(emit, to, "encoding", context->options[kEncoding].text);
  if (e->encoding != PvmDataInPlace) np_emit_integer(emit, to, "fragment_bytes", e->fragment_bytes, "bytes");
  describe_waiting(context->options[kWait], context->options[kSpin], context->oversubscribed != 0, emit, to);
  library().describe(emit, to);
  const Task::Peer* const peer = farthest(*e);
  const bool far = peer != nullptr && e->task.is_far(peer->tid);
  const int through_daemons = far ? 3 : 2;  // far: one to each daemon, and one between them
  np_emit_integer(emit, to, "sockets_on_the_way", e->direct ? 1 : through_daemons, "");
  const int fd = peer == nullptr ? -1 : e->task.socket_to(peer->tid);
  sockaddr_storage mine{};
  socklen_t bytes = sizeof mine;
  if (fd < 0 || getsockname(fd, reinterpret_cast<sockaddr*>(&mine), &bytes) != 0) return;
  np_emit_text(emit, to, "socket_family", mine.ss_family == AF_UNIX ? "AF_UNIX" : "AF_INET");
  if (!far) {
    if (mine.ss_family != AF_UNIX) np_emit_text(emit, to, "below", "tcp");
    return;
  }
  np_emit_text(emit, to, "below", e->direct ? "tcp" : "udp");
  std::string local = e->task.daemon_of(e->task.tid());
  std::string remote = e->task.daemon_of(peer->tid);
  sockaddr_storage other{};
  bytes = sizeof other;
  if (mine.ss_family == AF_INET && getpeername(fd, reinterpret_cast<sockaddr*>(&other), &bytes) == 0) {
    local = ip_of(mine);
    remote = ip_of(other);
  }
  np_emit_text(emit, to, "local_address", local.c_str());
  np_emit_text(emit, to, "peer_address", remote.c_str());
}

void read_counters(np_endpoint* e, int64_t* values) {
  values[0] = e->empty_polls;
  values[1] = e->sleeps;
}

const char* version() {
  static const std::string text = library().text();
  return text.c_str();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  static const np_module module = {
      .magic = NP_MAGIC,
      .abi = NP_ABI,
      .size = sizeof module,
      .name = "pvm",
      .summary = "PVM 3: packed messages through its daemon, or straight between tasks",
      .version = version(),
      .below = "unix",
      .adds = "PVM: packing, fragments and, with route=daemon, the way through its daemon",
      .options = kTable,
      .noptions = kOptions,
      .option_bytes = sizeof(np_option),
      .counters = kCounters,
      .ncounters = std::size(kCounters),
      .counter_bytes = sizeof(np_counter),
      .process_model = NP_DAEMONS,
      .min_ranks = 2,
      .max_ranks = INT32_MAX,
      .crosses_hosts = 1,
      .messages = &kMessages,
      .probe = probe,
      .open = open,
      .close = [](np_endpoint* e) { delete e; },
      .address = address,
      .connect = connect,
      .limits = limits,
      .wait = wait,
      .test = test,
      .describe = describe,
      .read_counters = read_counters,
      .prepare = prepare,
  };
  return &module;
}
