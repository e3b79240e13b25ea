// SPDX-License-Identifier: Apache-2.0
// How ranks come to share a stream. Of two ranks the higher one has a server, where everybody on the host can knock.
// Every call says in its metadata which rank makes it, and the 32 random bytes of the rank that it calls, as a service
// would have a bearer token; a call without them is refused before it has a message. With api=stream the server is shut
// once all have called: what has begun goes on, and nothing new comes in.
#include <charconv>
#include <string>
#include <vector>

#include "grpc_endpoint.h"

namespace netpipe::grpc {
namespace {

using namespace netpipe::queued;  // NOLINT(google-build-using-namespace): this file is about its words

constexpr int kSliceOfJoiningMs = 20;

// Settings of a connection; both ends have the same.
class Settings {
 public:
  explicit Settings(const np_endpoint& e) {
    add(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, -1);  // or 4 MiB would be the most
    add(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, -1);
    add(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    add(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    add(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // or two endpoints might share a connection
    add(GRPC_ARG_ALLOW_REUSEPORT, 0);            // or somebody else might listen there too
    const int64_t window = e.option(kWindow), frame = e.option(kFrame);
    add(GRPC_ARG_HTTP2_BDP_PROBE, window == 0 ? 1 : 0);
    if (window != 0) add(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, window);
    if (frame != 0) add(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, frame);
    if (e.secured()) add_text(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, kCertifiedName);
  }
  [[nodiscard]] grpc_channel_args get() { return {args_.size(), args_.data()}; }

 private:
  void add(const char* key, int64_t value) {
    grpc_arg arg{};
    arg.type = GRPC_ARG_INTEGER;
    arg.key = const_cast<char*>(key);  // NOLINT(cppcoreguidelines-pro-type-const-cast): only read
    arg.value.integer = static_cast<int>(value);
    args_.push_back(arg);
  }
  void add_text(const char* key, const char* value) {
    grpc_arg arg{};
    arg.type = GRPC_ARG_STRING;
    arg.key = const_cast<char*>(key);             // NOLINT(cppcoreguidelines-pro-type-const-cast): only read
    arg.value.string = const_cast<char*>(value);  // NOLINT(cppcoreguidelines-pro-type-const-cast): "
    args_.push_back(arg);
  }
  std::vector<grpc_arg> args_;
};

grpc_channel_credentials* credentials_for(const np_endpoint& e, int peer) {
  const Library& lib = e.loop.lib;
  if (!e.secured()) return lib.grpc_insecure_credentials_create();
  return lib.grpc_ssl_credentials_create(e.certificates[static_cast<size_t>(peer)].c_str(), nullptr, nullptr, nullptr);
}

grpc_server_credentials* own_credentials(const np_endpoint& e) {
  const Library& lib = e.loop.lib;
  if (!e.secured()) return lib.grpc_insecure_server_credentials_create();
  grpc_ssl_pem_key_cert_pair pair{e.own_certificate.key.c_str(), e.own_certificate.certificate.c_str()};
  return lib.grpc_ssl_server_credentials_create(nullptr, &pair, 1, 0, nullptr);
}

// What is labelled is in force: the library says what secures each stream.
np_status check_security(const np_endpoint& e) {
  for (size_t peer = 0; e.secured() && peer < e.links.size(); ++peer) {
    if (e.links[peer] == nullptr) continue;
    const std::string type = security_of(e.loop.lib, e.links[peer]->life(), GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
    if (type == GRPC_SSL_TRANSPORT_SECURITY_TYPE) continue;
    return fail(e.context, NP_FAILED, "grpc: security=tls: the connection with rank %zu is secured by '%s'", peer,
                type.c_str());
  }
  return NP_OK;
}

std::string_view value_of(const grpc_metadata_array& metadata, std::string_view key) {
  for (size_t i = 0; i < metadata.count; ++i) {
    if (text_of(metadata.metadata[i].key) == key) return text_of(metadata.metadata[i].value);
  }
  return {};
}

// NULL: a stranger. With api=unary called in the timed region, so it allocates nothing.
Link* caller(np_endpoint& e) {
  const std::string_view token = value_of(e.server.metadata, kTokenKey), rank = value_of(e.server.metadata, kRankKey);
  const std::string& wanted = e.tokens[static_cast<size_t>(e.context->rank)];
  const bool knows = token.size() == wanted.size() &&
                     fd_io::same_bytes(reinterpret_cast<const uint8_t*>(token.data()),
                                       reinterpret_cast<const uint8_t*>(wanted.data()), wanted.size());
  int peer = -1;
  const auto [end, error] = std::from_chars(rank.data(), rank.data() + rank.size(), peer);
  const bool named = error == std::errc() && end == rank.data() + rank.size();
  if (!knows || !named || peer < 0 || peer >= e.context->rank) return nullptr;
  return e.links[static_cast<size_t>(peer)].get();
}

bool let_in(np_endpoint& e) {
  Link* const link = caller(e);
  if (link == nullptr) return false;
  const std::string_view method = text_of(e.server.details.method);
  if (method == kStreamMethod && !link->has_called()) return link->answer(e.server.call);
  return method == kUnaryMethod && e.unary() && link->joined() && link->answer_request(e.server.call);
}

void note_call(np_endpoint& e, bool good) {
  const Library& lib = e.loop.lib;
  e.server.asking = false;
  if (!good) return;
  if (!let_in(e)) {
    lib.grpc_call_cancel_with_status(e.server.call, GRPC_STATUS_UNAUTHENTICATED, "this is no place for strangers",
                                     nullptr);
    lib.grpc_call_unref(e.server.call);
  }
  lib.grpc_call_details_destroy(&e.server.details);
  lib.grpc_call_details_init(&e.server.details);
  e.server.metadata.count = 0;
}

void close_server(np_endpoint& e) {
  if (e.server.server == nullptr || e.server.closing) return;
  e.server.closing = true;
  e.loop.started();
  e.loop.lib.grpc_server_shutdown_and_notify(e.server.server, e.loop.queue, &e.server.over);
}

np_status connect_to(np_endpoint& e, int peer) {
  const Library& lib = e.loop.lib;
  const Place& there = e.places[static_cast<size_t>(peer)];
  const bool six = there.host.find(':') != std::string::npos;
  const std::string where =
      e.over_tcp() ? (six ? "ipv6:" : "ipv4:") + numeric_host(there.host) + ":" + std::to_string(there.ports[0])
                   : "unix-abstract:" + abstract_name(there, 0);
  std::string& token = e.tokens[static_cast<size_t>(peer)];
  token = hex(there.proof.data(), there.proof.size());
  Settings settings(e);
  const grpc_channel_args args = settings.get();
  grpc_channel_credentials* const credentials = credentials_for(e, peer);
  if (credentials == nullptr) return fail(e.context, NP_FAILED, "grpc: the certificate of rank %d is malformed", peer);
  grpc_channel* const channel = lib.grpc_channel_create(where.c_str(), credentials, &args);
  lib.grpc_channel_credentials_release(credentials);
  if (channel != nullptr) e.connections.push_back(channel);
  if (channel != nullptr && e.links[static_cast<size_t>(peer)]->call(channel, token, e.own_rank)) return NP_OK;
  return fail(e.context, NP_FAILED, "grpc: no call could be made to %s", where.c_str());
}

// Who is not there yet, or -1.
int missing(const np_endpoint& e) {
  for (int peer = 0; peer < e.context->nranks; ++peer) {
    if (peer != e.context->rank && !e.links[static_cast<size_t>(peer)]->joined()) return peer;
  }
  return -1;
}

}  // namespace

void ask(np_endpoint& e) {
  Server& s = e.server;
  if (s.asking || s.closing) return;
  const Library& lib = e.loop.lib;
  s.asking = lib.grpc_server_request_call(s.server, &s.call, &s.details, &s.metadata, e.loop.queue, e.loop.queue,
                                          &s.asked) == GRPC_CALL_OK;
  if (s.asking) e.loop.started();
}

np_status listen(np_endpoint& e) {
  const Library& lib = e.loop.lib;
  Server& s = e.server;
  lib.grpc_call_details_init(&s.details);
  lib.grpc_metadata_array_init(&s.metadata);
  s.asked = {[](void* self, bool good) { note_call(*static_cast<np_endpoint*>(self), good); }, &e};
  s.over = {[](void* self, bool) { static_cast<np_endpoint*>(self)->server.closed = true; }, &e};
  if (e.context->rank == 0) return NP_OK;  // it calls all others
  Place& own = e.places[static_cast<size_t>(e.context->rank)];
  e.tokens[static_cast<size_t>(e.context->rank)] = hex(own.proof.data(), own.proof.size());
  Settings settings(e);
  const grpc_channel_args args = settings.get();
  s.server = lib.grpc_server_create(&args, nullptr);
  lib.grpc_server_register_completion_queue(s.server, e.loop.queue, nullptr);
  const std::string where = e.over_tcp() ? numeric_host(own.host) + ":0" : "unix-abstract:" + abstract_name(own, 0);
  grpc_server_credentials* const credentials = own_credentials(e);
  const int port = lib.grpc_server_add_http2_port(s.server, where.c_str(), credentials);
  lib.grpc_server_credentials_release(credentials);
  lib.grpc_server_start(s.server);  // what was not started cannot be shut either
  if (port == 0) return fail(e.context, NP_FAILED, "grpc: cannot listen at %s", where.c_str());
  if (e.over_tcp()) own.ports[0] = static_cast<uint16_t>(port);
  return NP_OK;
}

np_status join(np_endpoint& e) {
  const np_context* context = e.context;
  for (int peer = context->rank + 1; peer < context->nranks; ++peer) {
    if (const np_status s = connect_to(e, peer); s != NP_OK) return s;
  }
  const int64_t deadline_ns = now_ns() + context->timeout_ns;
  for (int peer = missing(e); peer >= 0; peer = missing(e)) {
    if (*context->abort != 0) return fail(context, NP_ABORTED, "grpc: connecting was given up");
    for (const auto& link : e.links) {
      if (link == nullptr || !link->lost()) continue;
      return fail(context, NP_FAILED, "grpc: rank %d could not join the others: %s", context->rank,
                  link->why_lost().empty() ? "its call was ended" : link->why_lost().c_str());
    }
    if (now_ns() > deadline_ns) {
      return fail(context, NP_FAILED,
                  "grpc: connecting took longer than %.1f s; is rank %d alive, or is a firewall in between?",
                  static_cast<double>(context->timeout_ns) * 1e-9, peer);
    }
    if (context->rank > 0) ask(e);
    e.loop.sleep(kSliceOfJoiningMs);
  }
  if (!e.unary()) close_server(e);
  return check_security(e);
}

void part(np_endpoint& e) {
  const Library& lib = e.loop.lib;
  for (const auto& link : e.links) {
    if (link != nullptr) link->cancel();
  }
  close_server(e);
  if (e.server.server != nullptr) lib.grpc_server_cancel_all_calls(e.server.server);
  e.loop.end();
  for (auto& link : e.links) {
    if (e.loop.idle()) continue;
    [[maybe_unused]] const auto* const left_alone = link.release();  // the library may still write there
  }
  e.links.clear();
  if (e.server.closed) lib.grpc_server_destroy(e.server.server);
  for (grpc_channel* const channel : e.connections) lib.grpc_channel_destroy(channel);
  lib.grpc_call_details_destroy(&e.server.details);
  lib.grpc_metadata_array_destroy(&e.server.metadata);
}

}  // namespace netpipe::grpc
