// SPDX-License-Identifier: Apache-2.0
// grpc: messages over gRPC, a connection for each two ranks. They travel on one stream, or each request and its reply
// are a call. The messages are bytes as they are (the interface below generated code), so no time is that of
// serialisation.
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "grpc_endpoint.h"

np_endpoint::np_endpoint(const np_context* given, const netpipe::grpc::Library& library)
    : context(given),
      started(library),
      loop(library),
      links(static_cast<size_t>(given->nranks)),
      channels(static_cast<size_t>(given->nranks)),
      places(static_cast<size_t>(given->nranks)),
      tokens(static_cast<size_t>(given->nranks)),
      certificates(static_cast<size_t>(given->nranks)),
      own_rank(std::to_string(given->rank)) {
  using namespace netpipe::queued;  // NOLINT(google-build-using-namespace): its words
  const Pace pace{.wait = static_cast<netpipe::Wait>(option(netpipe::grpc::kWait)),
                  .spin_ns = option(netpipe::grpc::kSpin) * 1000,
                  .yields = given->oversubscribed != 0};
  const netpipe::grpc::Door door{[](void* self) { netpipe::grpc::ask(*static_cast<np_endpoint*>(self)); }, this};
  for (int peer = 0; peer < given->nranks; ++peer) {
    const auto p = static_cast<size_t>(peer);
    if (peer == given->rank) continue;
    links[p] = std::make_unique<netpipe::grpc::Link>(loop, unary(), door);
    channels[p].emplace(given, "grpc", peer, pace, first_turn(given, unary() ? Shape::reqrep : Shape::pair, peer),
                        traffic, netpipe::grpc::Socket(given, peer, loop, *links[p]));
  }
}

np_endpoint::~np_endpoint() { netpipe::grpc::part(*this); }

namespace netpipe::grpc {
namespace {

using namespace netpipe::queued;  // NOLINT(google-build-using-namespace): this file is about its words

// Of the file that this module was built with: the library itself is not asked before it is loaded.
const char* version() {
  static const std::string text = "gRPC core " + std::string(file()).substr(std::string(file()).rfind('.') + 1);
  return text.c_str();
}

np_status probe(char* message, size_t message_bytes) {
  const std::string why = why_missing();
  if (why.empty()) return NP_OK;
  std::snprintf(message, message_bytes, "%s", why.c_str());
  return NP_UNAVAILABLE;
}

np_status open(const np_context* context, np_endpoint** endpoint) {
  std::string why;
  const Library* const lib = library(why);
  if (lib == nullptr) return fail(context, NP_UNAVAILABLE, "grpc: %s", why.c_str());
  std::unique_ptr<np_endpoint> made(new (std::nothrow) np_endpoint(context, *lib));
  if (!made) return fail(context, NP_NO_MEMORY, "grpc: no memory for an endpoint");
  np_status status = random_place(context, made->places[static_cast<size_t>(context->rank)]);
  if (status == NP_OK && made->secured() && context->rank > 0)
    status = make_certificate(context, made->own_certificate);
  if (status == NP_OK) status = listen(*made);
  if (status == NP_OK) *endpoint = made.release();
  return status;
}

// An address: the place, a byte 0, and the certificate as text.
np_status address(np_endpoint* e, void* data, size_t* bytes) {
  const std::string& certificate = e->own_certificate.certificate;
  size_t place_bytes = *bytes;
  const np_status s = write_place(e->context, e->places[static_cast<size_t>(e->context->rank)], data, &place_bytes);
  if (s != NP_OK) return s;
  if (*bytes - place_bytes < certificate.size() + 1) {
    return fail(e->context, NP_USAGE,
                "grpc: %d ranks are more than this layer can join with security=tls; ask for fewer",
                e->context->nranks);
  }
  char* const end = static_cast<char*>(data) + place_bytes;
  *end = '\0';
  std::memcpy(end + 1, certificate.data(), certificate.size());
  *bytes = place_bytes + 1 + certificate.size();
  return NP_OK;
}

np_status read_address(np_endpoint& e, int peer, std::string_view told) {
  const auto p = static_cast<size_t>(peer);
  const size_t end = told.rfind('\0');
  if (end == std::string_view::npos) {
    return fail(e.context, NP_FAILED, "grpc: the address of rank %d is malformed", peer);
  }
  e.certificates[p] = told.substr(end + 1);
  return read_place(e.context, peer, told.data(), end, e.places[p]);
}

np_status connect(np_endpoint* e, const void* const* addresses, const size_t* bytes) {
  for (int peer = 0; peer < e->context->nranks; ++peer) {
    const auto p = static_cast<size_t>(peer);
    if (peer == e->context->rank) continue;
    const std::string_view told(static_cast<const char*>(addresses[p]), bytes[p]);
    if (const np_status s = read_address(*e, peer, told); s != NP_OK) return s;
  }
  const Transport transport = e->over_tcp() ? Transport::tcp : Transport::ipc;
  if (const np_status s = same_realm(e->context, "grpc", "transport=unix", transport, e->places); s != NP_OK) return s;
  return join(*e);
}

np_status prepare(np_endpoint* e, const np_visit*) {
  // Lower ranks first on every rank, so that no circle of ranks waits for each other.
  for (int peer = 0; peer < e->context->nranks; ++peer) {
    if (peer == e->context->rank) continue;
    if (const np_status s = e->to(peer).align(e->places[0].name); s != NP_OK) return s;
  }
  return NP_OK;
}

np_status limits(np_endpoint*, np_limits* limits) {
  limits->empty = 1;
  limits->max_message_bytes = INT32_MAX;
  return NP_OK;
}

void describe(np_endpoint* e, np_emit emit, void* to) {
  const np_value* options = e->context->options;
  np_emit_text(emit, to, "api", options[kApi].text);
  np_emit_text(emit, to, "transport", options[kTransport].text);
  const auto peer = static_cast<size_t>(fd_io::opposite(e->context));
  if (e->over_tcp()) np_emit_text(emit, to, "local_address", e->context->local_address);
  if (e->over_tcp()) np_emit_text(emit, to, "peer_address", e->places[peer].host.c_str());
  if (!e->over_tcp()) np_emit_text(emit, to, "below", "unix");
  np_emit_text(emit, to, "library_version", e->loop.lib.grpc_version_string());
  np_emit_text(emit, to, "security", options[kSecurity].text);
  if (const Link* const link = e->links[peer].get(); e->secured() && link != nullptr) {
    const std::string level = security_of(e->loop.lib, link->life(), GRPC_TRANSPORT_SECURITY_LEVEL_PROPERTY_NAME);
    np_emit_text(emit, to, "security_level", level.c_str());
    np_emit_text(emit, to, "certificate", "ECDSA P-256, signed by the rank itself");
  }
  np_emit_text(emit, to, "serialisation", "none");
  np_emit_text(emit, to, "compression", "none");
  const int64_t window = e->option(kWindow), frame = e->option(kFrame);
  np_emit_bool(emit, to, "http2_bdp_probes", window == 0 ? 1 : 0);
  if (window != 0) {
    np_emit_integer(emit, to, "http2_window_bytes", window, "bytes");
    np_emit_integer(emit, to, "http2_max_frame_bytes", frame != 0 ? frame : kLeastFrame, "bytes");
  }
  describe_waiting(options[kWait], options[kSpin], e->context->oversubscribed != 0, emit, to);
}

}  // namespace
}  // namespace netpipe::grpc

extern "C" __attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  static const np_module module = [] {
    np_module m = netpipe::queued::queued_module<np_endpoint>({
        .name = "grpc",
        .summary = "gRPC: streams and remote calls over HTTP/2, as services use them",
        .version = netpipe::grpc::version(),
        .below = "tcp",
        .adds = "gRPC: HTTP/2 with flow control, and a copy into and out of the library",
        .options = netpipe::grpc::kTable,
        .noptions = netpipe::grpc::kOptions,
        .probe = netpipe::grpc::probe,
        .open = netpipe::grpc::open,
        .address = netpipe::grpc::address,
        .connect = netpipe::grpc::connect,
        .describe = netpipe::grpc::describe,
        .prepare = netpipe::grpc::prepare,
    });
    m.limits = netpipe::grpc::limits;
    return m;
  }();
  return &module;
}
