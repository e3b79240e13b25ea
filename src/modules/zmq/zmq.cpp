// SPDX-License-Identifier: Apache-2.0
// zmq: messages over ZeroMQ sockets, one pair of sockets for each two ranks. The library takes a message into a queue,
// and threads of its own move it over TCP or AF_UNIX into a queue on the other side.
#include <pthread.h>
#include <sched.h>
#include <zmq.h>

#include <memory>
#include <new>
#include <string>

#include "kit/libraries/library_version.h"
#include "zmq_endpoint.h"

namespace {

using netpipe::fd_io::fail;
using netpipe::queued::Shape;

// The library's threads inherit the processors of the rank, unless an option says otherwise.
bool must_yield(const np_context* context) {
  cpu_set_t usable;
  int64_t processors = sysconf(_SC_NPROCESSORS_ONLN);
  const bool inherited = context->options[netpipe::zmq::kIoPlace].number == 0;
  if (inherited && sched_getaffinity(0, sizeof usable, &usable) == 0) processors = CPU_COUNT(&usable);
  return netpipe::queued::must_yield(context, processors);
}

}  // namespace

np_endpoint::np_endpoint(const np_context* given)
    : context(given),
      shape(static_cast<Shape>(given->options[netpipe::zmq::kPattern].number)),
      yields(must_yield(given)),
      channels(static_cast<size_t>(given->nranks)),
      links(netpipe::queued::kClasses * static_cast<size_t>(given->nranks)),
      places(static_cast<size_t>(given->nranks)) {
  using namespace netpipe::queued;  // NOLINT(google-build-using-namespace): its words
  const Pace pace{.wait = static_cast<netpipe::Wait>(option(netpipe::zmq::kWait)),
                  .spin_ns = option(netpipe::zmq::kSpin) * 1000,
                  .yields = yields};
  for (int peer = 0; peer < given->nranks; ++peer) {
    if (peer == given->rank) continue;
    channels[static_cast<size_t>(peer)].emplace(
        given, "zmq", peer, pace, first_turn(given, shape, peer), traffic,
        netpipe::zmq::Socket(given, peer, option(netpipe::zmq::kZeroCopy) != 0));
  }
  traffic.sleeper.items.reserve(2 * channels.size() + 1);
}

size_t np_endpoint::classes() const {
  return option(netpipe::zmq::kHwm) == 0 && context->max_bytes > netpipe::queued::kLargeBytes ? 2 : 1;
}

int np_endpoint::hwm(size_t size_class) const {
  if (option(netpipe::zmq::kHwm) != 0) return static_cast<int>(option(netpipe::zmq::kHwm));
  if (size_class == 0) return static_cast<int>(netpipe::zmq::kLibraryHwm);
  const uint64_t fit = netpipe::queued::kLargeQueueBytes / std::max<uint64_t>(context->max_bytes, 1);
  return static_cast<int>(std::clamp<uint64_t>(fit, 1, netpipe::zmq::kLibraryHwm));
}

namespace netpipe::zmq {
namespace {

using namespace netpipe::queued;  // NOLINT(google-build-using-namespace): this file is about its words

LibraryVersion library() {
  int major = 0, minor = 0, patch = 0;
  zmq_version(&major, &minor, &patch);
  return {.library = "libzmq",
          .built = dotted(ZMQ_VERSION_MAJOR, ZMQ_VERSION_MINOR, ZMQ_VERSION_PATCH),
          .found = dotted(major, minor, patch)};
}

const char* version() {
  static const std::string text = library().text();
  return text.c_str();
}

np_status probe(char* message, size_t message_bytes) { return library().probe(message, message_bytes); }

// libzmq's threads set their own scheduling when they begin, and end the process where they may not. Whether a thread
// may is found out by one.
bool threads_can_start() {
  int error = 0;
  pthread_t thread{};
  const auto as_libzmq_does = [](void* result) -> void* {
    int policy = 0;
    sched_param parameters{};
    int& told = *static_cast<int*>(result);
    told = pthread_getschedparam(pthread_self(), &policy, &parameters);
    if (told == 0) told = pthread_setschedparam(pthread_self(), policy, &parameters);
    return nullptr;
  };
  if (pthread_create(&thread, nullptr, as_libzmq_does, &error) != 0) return false;
  pthread_join(thread, nullptr);
  return error == 0;
}

// What makes no sense, or what this library cannot do.
np_status check(const np_endpoint& e) {
  const np_context* context = e.context;
  if (e.option(kHwm) != 0) {
    if (const np_status s = queues_fit(context, "zmq", "hwm", e.option(kHwm)); s != NP_OK) return s;
  }
  const int64_t connections = int64_t{context->nranks - 1} * (e.shape == Shape::pushpull ? 2 : 1);  // in use at a time
  if (e.option(kIoThreads) > connections) {
    return fail(context, NP_USAGE,
                "zmq: io_threads=%lld is more than there are connections (%lld, each served by one thread); the others "
                "would do nothing",
                static_cast<long long>(e.option(kIoThreads)), static_cast<long long>(connections));
  }
  if (!threads_can_start()) {
    return fail(context, NP_UNAVAILABLE,
                "zmq: the threads of libzmq cannot start where a thread may not set its own scheduling "
                "(sched_setscheduler), as in a process of 'netpipe serve'; start the ranks by ssh (--hosts)");
  }
  if (e.option(kEncrypt) != 0 && zmq_has("curve") == 0) {
    return fail(context, NP_UNAVAILABLE, "zmq: encrypt=yes needs CURVE, which %s was built without", version());
  }
  return NP_OK;
}

np_status start_library(np_endpoint& e) {
  e.zmq.reset(zmq_ctx_new());
  if (!e.zmq) return fail(e.context, NP_NO_MEMORY, "zmq: zmq_ctx_new: %s", zmq_strerror(zmq_errno()));
  // Two sockets of each link, the monitor of one at both ends, and the doorman.
  const int sockets = static_cast<int>(4 * e.links.size() + 16);
  bool good = zmq_ctx_set(e.zmq.get(), ZMQ_IO_THREADS, static_cast<int>(e.option(kIoThreads))) == 0;
  good = good && zmq_ctx_set(e.zmq.get(), ZMQ_MAX_SOCKETS, std::max(sockets, ZMQ_MAX_SOCKETS_DFLT)) == 0;
  if (e.option(kIoPlace) != 0) {
    for (int cpu = 0; cpu < static_cast<int>(sysconf(_SC_NPROCESSORS_CONF)); ++cpu) {
      good = good && zmq_ctx_set(e.zmq.get(), ZMQ_THREAD_AFFINITY_CPU_ADD, cpu) == 0;
    }
  }
  if (good) return NP_OK;
  return fail(e.context, NP_FAILED, "zmq: zmq_ctx_set: %s", zmq_strerror(zmq_errno()));
}

np_status make_keys(np_endpoint& e, Place& own) {
  if (e.option(kEncrypt) == 0) return NP_OK;
  if (zmq_curve_keypair(e.public_key.data(), e.secret_key.data()) == 0 &&
      zmq_z85_decode(own.proof.data(), e.public_key.data()) != nullptr) {
    return NP_OK;
  }
  return fail(e.context, NP_FAILED, "zmq: zmq_curve_keypair: %s", zmq_strerror(zmq_errno()));
}

np_status open(const np_context* context, np_endpoint** endpoint) {
  std::unique_ptr<np_endpoint> made(new (std::nothrow) np_endpoint(context));
  if (!made) return fail(context, NP_NO_MEMORY, "zmq: no memory for an endpoint");
  Place& own = made->places[static_cast<size_t>(context->rank)];
  np_status status = check(*made);
  if (status == NP_OK) status = start_library(*made);
  if (status == NP_OK) status = random_place(context, own);
  if (status == NP_OK) status = make_keys(*made, own);
  if (status == NP_OK) status = listen(*made);
  if (status == NP_OK) *endpoint = made.release();
  return status;
}

np_status address(np_endpoint* e, void* data, size_t* bytes) {
  return write_place(e->context, e->places[static_cast<size_t>(e->context->rank)], data, bytes);
}

void use_class(np_endpoint& e, size_t size_class) {
  for (int peer = 0; peer < e.context->nranks; ++peer) {
    if (peer != e.context->rank) e.to(peer).socket().use(&e.link(peer, size_class));
  }
}

np_status connect(np_endpoint* e, const void* const* addresses, const size_t* bytes) {
  for (int peer = 0; peer < e->context->nranks; ++peer) {
    const auto p = static_cast<size_t>(peer);
    if (peer == e->context->rank) continue;
    if (const np_status s = read_place(e->context, peer, addresses[p], bytes[p], e->places[p]); s != NP_OK) return s;
  }
  const Transport transport = e->over_tcp() ? Transport::tcp : Transport::ipc;
  if (const np_status s = same_realm(e->context, "zmq", "transport=ipc", transport, e->places); s != NP_OK) return s;
  if (const np_status s = join(*e); s != NP_OK) return s;
  use_class(*e, 0);
  return NP_OK;
}

np_status prepare(np_endpoint* e, const np_visit* visit) {
  use_class(*e, e->classes() > 1 && visit->bytes > kLargeBytes ? 1 : 0);
  // Lower ranks first on every rank, so that no circle of ranks waits for each other.
  for (int peer = 0; peer < e->context->nranks; ++peer) {
    if (peer == e->context->rank) continue;
    if (const np_status s = e->to(peer).align(e->places[0].name); s != NP_OK) return s;
  }
  return NP_OK;
}

void describe_sockets(const np_endpoint& e, np_emit emit, void* to) {
  if (e.classes() > 1) np_emit_integer(emit, to, "hwm_large_messages", e.hwm(1), "messages");
  const int peer = fd_io::opposite(e.context);
  const int fd = e.links[slot(peer, 0)].watch.fd();
  int sndbuf = 0, rcvbuf = 0;
  socklen_t bytes = sizeof sndbuf;
  if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sndbuf, &bytes) != 0 ||
      getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, &bytes) != 0) {
    return;
  }
  np_emit_integer(emit, to, "sndbuf_kernel_bytes", sndbuf, "bytes");
  np_emit_integer(emit, to, "rcvbuf_kernel_bytes", rcvbuf, "bytes");
}

void describe(np_endpoint* e, np_emit emit, void* to) {
  const np_value* options = e->context->options;
  np_emit_text(emit, to, "pattern", options[kPattern].text);
  np_emit_text(emit, to, "transport", options[kTransport].text);
  const auto peer = static_cast<size_t>(fd_io::opposite(e->context));
  if (e->over_tcp()) np_emit_text(emit, to, "local_address", e->context->local_address);
  if (e->over_tcp()) np_emit_text(emit, to, "peer_address", e->places[peer].host.c_str());
  if (!e->over_tcp()) np_emit_text(emit, to, "below", "unix");
  np_emit_text(emit, to, "security", e->option(kEncrypt) != 0 ? "CURVE" : "PLAIN");
  np_emit_bool(emit, to, "zero_copy", e->option(kZeroCopy) != 0);
  np_emit_integer(emit, to, "io_threads", zmq_ctx_get(e->zmq.get(), ZMQ_IO_THREADS), "");
  np_emit_text(emit, to, "io_place", options[kIoPlace].text);
  np_emit_integer(emit, to, "hwm_messages", e->hwm(0), "messages");
  describe_waiting(options[kWait], options[kSpin], e->yields, emit, to);
  library().describe(emit, to);
  describe_sockets(*e, emit, to);
}

}  // namespace
}  // namespace netpipe::zmq

extern "C" __attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  static const np_module module = [] {
    np_module m = netpipe::queued::queued_module<np_endpoint>({
        .name = "zmq",
        .summary = "ZeroMQ: queues of messages between processes, as services use them",
        .version = netpipe::zmq::version(),
        .below = "tcp",
        .adds = "message queues, and threads that move them",
        .options = netpipe::zmq::kTable,
        .noptions = netpipe::zmq::kOptions,
        .probe = netpipe::zmq::probe,
        .open = netpipe::zmq::open,
        .address = netpipe::zmq::address,
        .connect = netpipe::zmq::connect,
        .describe = netpipe::zmq::describe,
        .prepare = netpipe::zmq::prepare,
    });
    return m;
  }();
  return &module;
}
