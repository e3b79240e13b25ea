// SPDX-License-Identifier: Apache-2.0
// nng: messages over nng sockets, one pair of sockets for each two ranks. Threads of the library move a message to TCP
// or AF_UNIX, and on the other side to the one who waits for it.
#include <nng/nng.h>
#include <sched.h>

#include <memory>
#include <new>
#include <string>

#include "kit/libraries/library_version.h"
#include "nng_endpoint.h"

namespace {

using netpipe::fd_io::fail;
using netpipe::queued::Shape;

constexpr Shape kShapes[] = {Shape::pair, Shape::reqrep, Shape::pushpull};  // in the order of the option's choices

// The library's threads inherit the processors of the rank.
bool must_yield(const np_context* context) {
  cpu_set_t usable;
  const bool known = sched_getaffinity(0, sizeof usable, &usable) == 0;
  return netpipe::queued::must_yield(context, known ? CPU_COUNT(&usable) : 1);
}

}  // namespace

np_endpoint::np_endpoint(const np_context* given)
    : context(given),
      shape(kShapes[given->options[netpipe::nng::kPattern].number]),
      yields(must_yield(given)),
      links(static_cast<size_t>(given->nranks)),
      channels(static_cast<size_t>(given->nranks)),
      places(static_cast<size_t>(given->nranks)) {
  using namespace netpipe::queued;  // NOLINT(google-build-using-namespace): its words
  const Pace pace{.wait = static_cast<netpipe::Wait>(option(netpipe::nng::kWait)),
                  .spin_ns = option(netpipe::nng::kSpin) * 1000,
                  .yields = yields};
  for (int peer = 0; peer < given->nranks; ++peer) {
    if (peer == given->rank) continue;
    channels[static_cast<size_t>(peer)].emplace(given, "nng", peer, pace, first_turn(given, shape, peer), traffic,
                                                netpipe::nng::Socket(given, peer));
  }
  traffic.sleeper.items.reserve(2 * channels.size());
}

namespace netpipe::nng {
namespace {

using namespace netpipe::queued;  // NOLINT(google-build-using-namespace): this file is about its words

LibraryVersion library() {
  return {.library = "libnng",
          .built = dotted(NNG_MAJOR_VERSION, NNG_MINOR_VERSION, NNG_PATCH_VERSION),
          .found = nng_version()};
}

const char* version() {
  static const std::string text = library().text();
  return text.c_str();
}

np_status probe(char* message, size_t message_bytes) { return library().probe(message, message_bytes); }

np_status open(const np_context* context, np_endpoint** endpoint) {
  std::unique_ptr<np_endpoint> made(new (std::nothrow) np_endpoint(context));
  if (!made) return fail(context, NP_NO_MEMORY, "nng: no memory for an endpoint");
  np_status status = queues_fit(context, "nng", "sendbuf", made->option(kSendbuf));
  if (status == NP_OK) status = queues_fit(context, "nng", "recvbuf", made->option(kRecvbuf));
  if (status == NP_OK) status = random_place(context, made->places[static_cast<size_t>(context->rank)]);
  if (status == NP_OK) status = listen(*made);
  if (status == NP_OK) *endpoint = made.release();
  return status;
}

np_status address(np_endpoint* e, void* data, size_t* bytes) {
  return write_place(e->context, e->places[static_cast<size_t>(e->context->rank)], data, bytes);
}

np_status connect(np_endpoint* e, const void* const* addresses, const size_t* bytes) {
  for (int peer = 0; peer < e->context->nranks; ++peer) {
    const auto p = static_cast<size_t>(peer);
    if (peer == e->context->rank) continue;
    if (const np_status s = read_place(e->context, peer, addresses[p], bytes[p], e->places[p]); s != NP_OK) return s;
  }
  const Transport transport = e->over_tcp() ? Transport::tcp : Transport::ipc;
  if (const np_status s = same_realm(e->context, "nng", "transport=ipc", transport, e->places); s != NP_OK) return s;
  if (const np_status s = join(*e); s != NP_OK) return s;
  for (int peer = 0; peer < e->context->nranks; ++peer) {
    if (peer == e->context->rank) continue;
    const bool awaits_replies = e->shape == Shape::reqrep && e->context->rank < peer;
    const np_status s = e->to(peer).socket().use(&e->links[static_cast<size_t>(peer)], awaits_replies);
    if (s != NP_OK) return s;
  }
  return NP_OK;
}

np_status prepare(np_endpoint* e, const np_visit*) {
  // Lower ranks first on every rank, so that no circle of ranks waits for each other.
  for (int peer = 0; peer < e->context->nranks; ++peer) {
    if (peer == e->context->rank) continue;
    if (const np_status s = e->to(peer).align(e->places[0].name); s != NP_OK) return s;
  }
  return NP_OK;
}

void describe(np_endpoint* e, np_emit emit, void* to) {
  const np_value* options = e->context->options;
  np_emit_text(emit, to, "pattern", options[kPattern].text);
  np_emit_text(emit, to, "transport", options[kTransport].text);
  const auto peer = static_cast<size_t>(fd_io::opposite(e->context));
  if (e->over_tcp()) np_emit_text(emit, to, "local_address", e->context->local_address);
  if (e->over_tcp()) np_emit_text(emit, to, "peer_address", e->places[peer].host.c_str());
  if (!e->over_tcp()) np_emit_text(emit, to, "below", "unix");
  if (e->over_tcp()) np_emit_bool(emit, to, "nodelay", e->option(kNodelay) != 0);
  const Link& link = e->links[peer];
  int messages = 0;
  if (link.first && e->shape != Shape::reqrep) {
    if (nng_socket_get_int(link.out().socket, NNG_OPT_SENDBUF, &messages) == 0) {
      np_emit_integer(emit, to, "sendbuf_messages", messages, "messages");
    }
    if (e->shape == Shape::pair && nng_socket_get_int(link.in().socket, NNG_OPT_RECVBUF, &messages) == 0) {
      np_emit_integer(emit, to, "recvbuf_messages", messages, "messages");
    }
  }
  describe_waiting(options[kWait], options[kSpin], e->yields, emit, to);
  library().describe(emit, to);
}

}  // namespace
}  // namespace netpipe::nng

extern "C" __attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  static const np_module module = netpipe::queued::queued_module<np_endpoint>({
      .name = "nng",
      .summary = "nng: nanomsg's protocols, request and reply or pipelines, between processes",
      .version = netpipe::nng::version(),
      .below = "tcp",
      .adds = "message queues, and threads that move them",
      .options = netpipe::nng::kTable,
      .noptions = netpipe::nng::kOptions,
      .probe = netpipe::nng::probe,
      .open = netpipe::nng::open,
      .address = netpipe::nng::address,
      .connect = netpipe::nng::connect,
      .describe = netpipe::nng::describe,
      .prepare = netpipe::nng::prepare,
  });
  return &module;
}
