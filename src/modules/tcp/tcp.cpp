// SPDX-License-Identifier: Apache-2.0
// tcp: messages over one TCP connection for each two ranks, or striped over several. The higher rank listens, the lower
// one connects and proves itself.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "kit/streams/fd_connect.h"
#include "kit/streams/fd_io.h"
#include "kit/streams/ip_address.h"
#include "netpipe/module.h"
#include "tcp_endpoint.h"
#include "tcp_facts.h"
#include "tcp_options.h"
#include "tcp_paths.h"
#include "tcp_rails.h"
#include "tcp_socket.h"
#include "tcp_tls.h"

namespace netpipe::tcp {
namespace {

using namespace netpipe::fd_io;

np_status probe(char* message, size_t message_bytes) {
  if (Fd(::socket(AF_INET, SOCK_STREAM, 0)) || Fd(::socket(AF_INET6, SOCK_STREAM, 0))) return NP_OK;
  std::snprintf(message, message_bytes, "this kernel provides no TCP sockets: %s", std::strerror(errno));
  return NP_UNAVAILABLE;
}

np_status open(const np_context* context, np_endpoint** endpoint) {
  std::unique_ptr<np_endpoint> made(new (std::nothrow) np_endpoint(context));
  if (!made) return fail(context, NP_NO_MEMORY, "tcp: no memory for an endpoint");
  made->places.resize(static_cast<size_t>(context->nranks));
  made->proofs.resize(static_cast<size_t>(context->nranks));
  const auto rank = static_cast<size_t>(context->rank);
  if (const np_status s = own_rails(context, made->rails); s != NP_OK) return s;
  if (const np_status s = streams_over(context, made->rails.size(), made->streams); s != NP_OK) return s;
  if (const np_status s = tls_is_here(context); s != NP_OK) return s;
  if (const np_status s = make_path(context, made->path); s != NP_OK) return s;
  made->listeners.resize(made->rails.size());
  for (size_t i = 0; i < made->rails.size(); ++i) {
    np_endpoint::Place own{.at = made->rails[i].at, .at_bytes = made->rails[i].at_bytes};
    Fd trial;  // options that this host refuses are refused here and not when all ranks wait
    Fd& fd = listens(context) ? made->listeners[i] : trial;
    if (const np_status s = make_socket(context, own.at.ss_family, fd); s != NP_OK) return s;
    if (const np_status s = bind_to_device(context, made->rails, i, fd.get()); s != NP_OK) return s;
    if (listens(context)) {
      if (const np_status s = listen_at(context, "tcp", context->options[kPort], fd, own.at, own.at_bytes); s != NP_OK)
        return s;
    }
    made->places[rank].push_back(own);
  }
  if (connects(context) && !make_proof(made->proofs[rank])) {
    return fail(context, NP_FAILED, "tcp: getrandom: %s", std::strerror(errno));
  }
  *endpoint = made.release();
  return NP_OK;
}

np_status address(np_endpoint* endpoint, void* data, size_t* bytes) {
  const auto rank = static_cast<size_t>(endpoint->context->rank);
  std::vector<Blob> blobs;
  for (const np_endpoint::Place& place : endpoint->places[rank]) blobs.push_back(blob_of(place.at));
  return write_address(endpoint->context, endpoint->proofs[rank], blobs.data(), blobs.size() * sizeof(Blob), data,
                       bytes);
}

// What another rank wrote there.
np_status read_places(np_endpoint& endpoint, int peer, const Told& told) {
  const np_context* context = endpoint.context;
  if (told.place_bytes % sizeof(Blob) != 0) {
    return fail(context, NP_FAILED, "tcp: the address of rank %d is malformed", peer);
  }
  const size_t count = told.place_bytes / sizeof(Blob), own = endpoint.rails.size();
  if (count != own) {
    return fail(context, NP_USAGE, "tcp: rank %d has %zu rail%s and rank %d has %zu; both ends need as many", peer,
                count, count == 1 ? "" : "s", context->rank, own);
  }
  std::vector<np_endpoint::Place>& places = endpoint.places[static_cast<size_t>(peer)];
  places.assign(count, {});
  for (size_t i = 0; i < count; ++i) {
    Blob blob{};
    std::memcpy(&blob, static_cast<const char*>(told.place) + i * sizeof blob, sizeof blob);
    np_endpoint::Place& place = places[i];
    const sockaddr_storage& here = endpoint.rails[i].at;
    if (const np_status s = read_blob(context, "tcp", peer, blob, here, place.at, place.at_bytes); s != NP_OK) return s;
    place.text = place_of(place.at, place.at_bytes);
    if (const np_status s = leaves_the_host(context, endpoint.rails, i, peer, place.at, place.at_bytes); s != NP_OK) {
      return s;
    }
  }
  return NP_OK;
}

// For sentences: " over rail 2 (10.1.0.1 on eth1)", or nothing where there are no rails.
std::string over(const np_endpoint& endpoint, int lane) {
  if (endpoint.rails[0].device.empty()) return "";
  return " over " + rail_name(endpoint.rails, static_cast<size_t>(lane) % endpoint.rails.size());
}

std::string missing_over(const np_endpoint& endpoint, int lane) {
  const std::string rail = over(endpoint, lane);
  return rail.empty() ? rail : "; nothing came" + rail;
}

np_status connect_lane(np_endpoint& endpoint, int peer, int lane, int64_t deadline_ns, Fd& joined) {
  const np_context* context = endpoint.context;
  const size_t index = static_cast<size_t>(lane) % endpoint.rails.size();
  np_endpoint::Place& there = endpoint.places[static_cast<size_t>(peer)][index];
  const std::string what =
      "tcp: connecting to rank " + std::to_string(peer) + " at " + there.text + over(endpoint, lane);
  if (const np_status s = make_socket(context, there.at.ss_family, joined); s != NP_OK) return s;
  const Rail& rail = endpoint.rails[index];
  if (!rail.device.empty()) {
    if (const np_status s = bind_to_device(context, endpoint.rails, index, joined.get()); s != NP_OK) return s;
    if (::bind(joined.get(), reinterpret_cast<const sockaddr*>(&rail.at), rail.at_bytes) != 0) {
      return fail(context, NP_FAILED, "%s: cannot bind to it: %s", what.c_str(), std::strerror(errno));
    }
  }
  Hello hello;
  hello.proof = endpoint.proofs[static_cast<size_t>(context->rank)];
  hello.generation = Number(endpoint.generation);
  hello.rank = Number(static_cast<uint32_t>(context->rank));
  hello.lane = static_cast<uint8_t>(lane);
  return connect_and_say(context, peer, joined.get(), reinterpret_cast<sockaddr*>(&there.at), there.at_bytes, hello,
                         deadline_ns, what.c_str());
}

// Collective: all lanes of the wires in use, anew.
np_status join(np_endpoint& endpoint) {
  const np_context* context = endpoint.context;
  const int64_t deadline_ns = now_ns() + context->timeout_ns;
  const int streams = endpoint.streams;
  std::string what;
  if (listens(context)) {
    what = "tcp: waiting for " + below(context) + " at ";
    for (const np_endpoint::Place& place : endpoint.places[static_cast<size_t>(context->rank)]) {
      what += (what.ends_with(' ') ? "" : ", ") + place.text;
    }
  }
  Doorman doorman(context, endpoint.proofs, Number(endpoint.generation), false, what.c_str());
  std::vector<Fd> joined(static_cast<size_t>(context->nranks * streams));
  const auto connect = [&](int peer, int lane, Fd& fd) { return connect_lane(endpoint, peer, lane, deadline_ns, fd); };
  const np_status status = join_all(context, streams, endpoint.listeners, doorman, connect, joined.data(), deadline_ns);
  ++endpoint.generation;
  if (status == NP_FAILED && listens(context)) {
    const int missing = doorman.first_missing(streams, joined.data());
    const std::string said = context->message;
    if (missing < context->rank * streams) {
      return fail(context, status, "%s%s", said.c_str(), missing_over(endpoint, missing % streams).c_str());
    }
  }
  if (status != NP_OK) return status;
  if (const np_status s = secure(endpoint, joined, deadline_ns); s != NP_OK) return s;
  if (context->options[kReopen].number == 0 && context->options[kConnections].number != 0) endpoint.listeners.clear();
  for (int peer = 0; peer < context->nranks; ++peer) {
    if (peer == context->rank) continue;
    Lane lanes[kMaxLanes];
    for (int j = 0; j < streams; ++j) {
      const int fd =
          joined[static_cast<size_t>(peer) * static_cast<size_t>(streams) + static_cast<size_t>(j)].release();
      lanes[j] = {fd, fd};
    }
    endpoint.to(peer).attach(lanes, streams);
  }
  return NP_OK;
}

// Collective: from now on messages of this class are sent.
np_status use_class(np_endpoint& endpoint, size_t index) {
  std::unique_ptr<np_endpoint::Wires>& wires = endpoint.of_class[index];
  const np_value* options = endpoint.context->options;
  if (!wires) {
    wires.reset(new (std::nothrow) np_endpoint::Wires(
        endpoint.context, WireSettings{.layer = "tcp",
                                       .wait = waits(options[kWait]),
                                       .spin_ns = options[kSpin].number * 1000,
                                       .stripe_bytes = static_cast<uint64_t>(options[kStripe].number),
                                       .path = endpoint.path.get(),
                                       .names = endpoint.rails[0].device.empty() ? nullptr : &endpoint.rail_names}));
  }
  if (!wires) return fail(endpoint.context, NP_NO_MEMORY, "tcp: no memory for connections");
  endpoint.wires = wires.get();
  return endpoint.to(opposite(endpoint.context)).lane_count() > 0 ? NP_OK : join(endpoint);
}

np_status prepare(np_endpoint* endpoint, const np_visit* visit) {
  if (endpoint->path) {
    if (const np_status s = endpoint->path->expect(*visit); s != NP_OK) return s;
  }
  if (endpoint->context->options[kConnections].number != 0) return NP_OK;
  return use_class(*endpoint, size_class(visit->bytes));
}

np_status connect(np_endpoint* endpoint, const void* const* addresses, const size_t* bytes) {
  const np_context* context = endpoint->context;
  for (int peer = 0; peer < context->nranks; ++peer) {
    const auto p = static_cast<size_t>(peer);
    Told told;
    if (const np_status s = read_address(context, peer, addresses[p], bytes[p], told); s != NP_OK) return s;
    endpoint->proofs[p] = told.proof;
    if (peer == context->rank) {
      for (np_endpoint::Place& place : endpoint->places[p]) place.text = place_of(place.at, place.at_bytes);
    } else if (const np_status s = read_places(*endpoint, peer, told); s != NP_OK) {
      return s;
    }
  }
  return use_class(*endpoint, 0);
}

np_status reset(np_endpoint* endpoint) {
  if (endpoint->context->options[kReopen].number == 0) return NP_OK;
  add_counts(endpoint->closed, *endpoint->wires);
  for (int peer = 0; peer < endpoint->context->nranks; ++peer) {
    if (peer != endpoint->context->rank) endpoint->to(peer).detach();
  }
  return join(*endpoint);
}

void rearm_quickack(const np_endpoint::Wire& wire) {
  const int yes = 1;
  for (int j = 0; j < wire.lane_count(); ++j) {
    setsockopt(wire.lane(j).in, IPPROTO_TCP, TCP_QUICKACK, &yes, sizeof yes);
  }
}

np_status recv(np_endpoint* endpoint, int peer, void* data, size_t bytes) {
  np_endpoint::Wire& wire = endpoint->to(peer);
  const np_status status = wire.recv(data, bytes);
  if (endpoint->quickack) [[unlikely]]
    rearm_quickack(wire);
  return status;
}

np_status wait(np_endpoint* endpoint, np_request* requests, size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) {
    status = np_endpoint::Wire::wait(&requests[i]);
    if (endpoint->quickack) [[unlikely]]
      rearm_quickack(np_endpoint::Wire::of(requests[i]));
  }
  return status;
}

}  // namespace
}  // namespace netpipe::tcp

extern "C" __attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  using namespace netpipe::tcp;  // NOLINT(google-build-using-namespace): its table
  static const np_messages messages = [] {
    np_messages m = netpipe::fd_io::kWireMessages<np_endpoint>;
    m.recv = recv;
    return m;
  }();
  static const np_module module = [] {
    np_module m = netpipe::fd_io::wire_module<np_endpoint>({
        .name = "tcp",
        .summary = "TCP connections over IPv4 or IPv6, one or several",
        .below = "unix",
        .adds = "TCP/IP",
        .options = kTable,
        .noptions = kOptions,
        .crosses_hosts = 1,
        .probe = probe,
        .open = open,
        .address = address,
        .connect = connect,
        .reset = reset,
        .describe = describe,
        .prepare = prepare,
    });
    m.messages = &messages;
    m.wait = wait;
    m.counters = counters().data();
    m.ncounters = static_cast<uint32_t>(counters().size());
    m.read_counters = read_counters;
    return m;
  }();
  return &module;
}
