// SPDX-License-Identifier: Apache-2.0
// tcp: messages over one TCP connection, or striped over several. Rank 1 listens, rank 0 connects and proves itself.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <memory>
#include <new>
#include <string>

#include "kit/fd_connect.h"
#include "kit/fd_io.h"
#include "netpipe/module.h"
#include "tcp_address.h"
#include "tcp_endpoint.h"
#include "tcp_facts.h"
#include "tcp_options.h"
#include "tcp_socket.h"

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
  sockaddr_storage own{};
  socklen_t own_bytes = 0;
  if (const np_status s = own_address(context, own, own_bytes); s != NP_OK) return s;
  if (context->rank == 1) {
    if (const np_status s = listen_at(context, made->listener, own, own_bytes); s != NP_OK) return s;
    made->at = own;
    made->at_bytes = own_bytes;
  } else {
    Fd trial;  // options that this host refuses are refused here and not when both ranks wait
    if (const np_status s = make_socket(context, own.ss_family, trial); s != NP_OK) return s;
    if (!make_proof(made->hello)) return fail(context, NP_FAILED, "tcp: getrandom: %s", std::strerror(errno));
  }
  *endpoint = made.release();
  return NP_OK;
}

np_status address(np_endpoint* endpoint, void* data, size_t* bytes) {
  const Blob blob = blob_of(endpoint->at);
  const void* source = &blob;
  size_t wanted = sizeof blob;
  if (endpoint->context->rank == 0) {
    source = endpoint->hello.proof.data();
    wanted = endpoint->hello.proof.size();
  }
  if (*bytes < wanted) return fail(endpoint->context, NP_FAILED, "tcp: no room for an address of %zu bytes", wanted);
  std::memcpy(data, source, wanted);
  *bytes = wanted;
  return NP_OK;
}

// Collective: all lanes of the wire in use, anew.
np_status join(np_endpoint& endpoint) {
  const np_context* context = endpoint.context;
  const int64_t deadline_ns = now_ns() + context->timeout_ns;
  const int streams = static_cast<int>(context->options[kStreams].number);
  set_generation(endpoint.hello, endpoint.generation++);
  Fd joined[kMaxLanes];
  if (context->rank == 1) {
    const std::string what = "tcp: waiting for rank 0 at " + endpoint.place;
    Doorman doorman(context, endpoint.hello, false, what.c_str());
    if (const np_status s = doorman.admit(endpoint.listener.get(), streams, joined, deadline_ns); s != NP_OK) return s;
    const bool last = context->options[kReopen].number == 0 && context->options[kConnections].number != 0;
    if (last) endpoint.listener.reset();
  } else {
    const std::string what = "tcp: connecting to rank 1 at " + endpoint.place;
    for (int j = 0; j < streams; ++j) {
      if (const np_status s = make_socket(context, endpoint.at.ss_family, joined[j]); s != NP_OK) return s;
      endpoint.hello.lane = static_cast<uint8_t>(j);
      const np_status s = connect_and_say(context, joined[j].get(), reinterpret_cast<sockaddr*>(&endpoint.at),
                                          endpoint.at_bytes, endpoint.hello, deadline_ns, what.c_str());
      if (s != NP_OK) return s;
    }
    for (int j = 0; j < streams; ++j) {
      if (const np_status s = await_welcome(context, joined[j].get(), deadline_ns, what.c_str()); s != NP_OK) return s;
    }
  }
  Lane lanes[kMaxLanes];
  for (int j = 0; j < streams; ++j) {
    const int fd = joined[j].release();
    lanes[j] = {fd, fd};
  }
  endpoint.wire->attach(lanes, streams);
  return NP_OK;
}

// Collective: from now on messages of this class are sent.
np_status use_class(np_endpoint& endpoint, size_t index) {
  std::unique_ptr<np_endpoint::Wire>& wire = endpoint.wires[index];
  if (!wire) {
    const np_value* options = endpoint.context->options;
    wire.reset(new (std::nothrow) np_endpoint::Wire(
        endpoint.context, WireSettings{.layer = "tcp",
                                       .wait = static_cast<Wait>(options[kWait].number),
                                       .spin_ns = options[kSpin].number * 1000,
                                       .stripe_bytes = static_cast<uint64_t>(options[kStripe].number)}));
    if (!wire) return fail(endpoint.context, NP_NO_MEMORY, "tcp: no memory for connections");
  }
  endpoint.wire = wire.get();
  return wire->lane_count() > 0 ? NP_OK : join(endpoint);
}

np_status prepare(np_endpoint* endpoint, const np_visit* visit) {
  if (endpoint->context->options[kConnections].number != 0) return NP_OK;
  return use_class(*endpoint, size_class(visit->bytes));
}

np_status connect(np_endpoint* endpoint, const void* const* addresses, const size_t* bytes) {
  if (endpoint->context->rank == 0) {
    if (const np_status s = read_blob(endpoint->context, addresses[1], bytes[1], endpoint->at, endpoint->at_bytes);
        s != NP_OK) {
      return s;
    }
  } else {
    if (bytes[0] != endpoint->hello.proof.size()) {
      return fail(endpoint->context, NP_FAILED, "tcp: the address of rank 0 is malformed");
    }
    std::memcpy(endpoint->hello.proof.data(), addresses[0], bytes[0]);
  }
  endpoint->place = place_of(endpoint->at, endpoint->at_bytes);
  return use_class(*endpoint, 0);
}

np_status reset(np_endpoint* endpoint) {
  if (endpoint->context->options[kReopen].number == 0) return NP_OK;
  add_counts(endpoint->closed, *endpoint->wire);
  endpoint->wire->detach();
  return join(*endpoint);
}

void rearm_quickack(const np_endpoint* endpoint) {
  if (!endpoint->quickack) [[likely]]
    return;
  const int yes = 1;
  for (int j = 0; j < endpoint->wire->lane_count(); ++j) {
    setsockopt(endpoint->wire->lane(j).in, IPPROTO_TCP, TCP_QUICKACK, &yes, sizeof yes);
  }
}

np_status recv(np_endpoint* endpoint, int, void* data, size_t bytes) {
  const np_status status = endpoint->wire->recv(data, bytes);
  rearm_quickack(endpoint);
  return status;
}

np_status wait(np_endpoint* endpoint, np_request* requests, size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) {
    status = endpoint->wire->wait(&requests[i]);
    rearm_quickack(endpoint);
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
