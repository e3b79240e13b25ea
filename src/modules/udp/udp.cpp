// SPDX-License-Identifier: Apache-2.0
// udp: messages as datagrams between each two ranks. Nothing is sent again: what is lost is counted, by the message and
// by the datagram. Each datagram says which part of which message it is (udp_datagram.h), and a receiver that waits in
// vain asks whether its message has left (udp_inbox.h, udp_clerk.h). To all ranks at once: udp_cast.h.
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <new>

#include "kit/streams/fd.h"
#include "netpipe/module.h"
#include "udp_connect.h"
#include "udp_endpoint.h"
#include "udp_facts.h"
#include "udp_options.h"

namespace netpipe::udp {
namespace {

using namespace netpipe::fd_io;

np_status probe(char* message, size_t message_bytes) {
  if (Fd(::socket(AF_INET, SOCK_DGRAM, 0)) || Fd(::socket(AF_INET6, SOCK_DGRAM, 0))) return NP_OK;
  std::snprintf(message, message_bytes, "this kernel provides no UDP sockets: %s", std::strerror(errno));
  return NP_UNAVAILABLE;
}

np_status no_memory(const np_context* context) { return fail(context, NP_NO_MEMORY, "udp: no memory for an endpoint"); }

np_status open(const np_context* context, np_endpoint** endpoint) {
  try {
    auto made = std::make_unique<np_endpoint>(context);
    if (const np_status s = open_sockets(*made); s != NP_OK) return s;
    *endpoint = made.release();
    return NP_OK;
  } catch (const std::exception&) {
    return no_memory(context);
  }
}

np_status connect(np_endpoint* endpoint, const void* const* addresses, const size_t* bytes) {
  try {
    return connect_all(*endpoint, addresses, bytes);
  } catch (const std::exception&) {
    return no_memory(endpoint->context);
  }
}

np_status send(np_endpoint* endpoint, int peer, const void* data, size_t bytes) {
  return endpoint->links[static_cast<size_t>(peer)].out->send(data, bytes);
}

np_status recv(np_endpoint* endpoint, int peer, void* data, size_t bytes) {
  np_endpoint::Link& link = endpoint->links[static_cast<size_t>(peer)];
  if (link.started.first() != nullptr) [[unlikely]] {
    if (const np_status s = end_started(*endpoint, peer); s != NP_OK) return s;
  }
  return link.in->recv(data, bytes);
}

np_status cast(np_endpoint* endpoint, const void* data, size_t bytes) { return endpoint->casts.out->send(data, bytes); }

np_status recv_cast(np_endpoint* endpoint, int sender, void* data, size_t bytes) {
  return endpoint->casts.sources[static_cast<size_t>(sender)].in->recv(data, bytes);
}

np_status limits(np_endpoint*, np_limits* limits) {
  limits->lossy = 1;
  limits->unordered = 1;
  limits->empty = 1;
  return NP_OK;
}

np_status prepare(np_endpoint* endpoint, const np_visit* visit) {
  const np_context* context = endpoint->context;
  const bool casts = (visit->uses & NP_USES_CAST) != 0;
  if (!casts && endpoint->group.bytes == 0 && context->options[kTtl].number != 1) {
    return fail(context, NP_UNSUPPORTED,
                "udp: ttl=%s is of datagrams to a group, and there are none: give multicast=GROUP, or measure pattern "
                "cast",
                context->options[kTtl].text);
  }
  try {
    if (const np_status s = casts ? join_casts(*endpoint) : NP_OK; s != NP_OK) return s;
  } catch (const std::exception&) {
    return no_memory(context);
  }
  for (np_endpoint::Link& link : endpoint->links) {
    if (link.in) link.in->begin_visit();
    link.started = {};  // those of a visit that failed
  }
  for (Casts::Source& source : endpoint->casts.sources) {
    if (source.in) source.in->begin_visit();
  }
  return NP_OK;
}

constexpr np_messages kMessages = {
    .size = sizeof(np_messages),
    .send = send,
    .recv = recv,
    .isend = isend,
    .irecv = irecv,
    .cast = cast,
    .recv_cast = recv_cast,
};

}  // namespace
}  // namespace netpipe::udp

extern "C" __attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  using namespace netpipe::udp;  // NOLINT(google-build-using-namespace): its table
  static const np_module module = {
      .magic = NP_MAGIC,
      .abi = NP_ABI,
      .size = sizeof(np_module),
      .name = "udp",
      .summary = "UDP datagrams over IPv4 or IPv6, which may be lost",
      .version = netpipe::fd_io::kernel_version(),
      .below = "unix",
      .adds = "UDP/IP",
      .options = kTable,
      .noptions = kOptions,
      .option_bytes = sizeof(np_option),
      .counters = counters().data(),
      .ncounters = static_cast<uint32_t>(counters().size()),
      .counter_bytes = sizeof(np_counter),
      .process_model = NP_FORKED,
      .min_ranks = 2,
      .max_ranks = INT32_MAX,
      .crosses_hosts = 1,
      .messages = &kMessages,
      .probe = probe,
      .open = open,
      .close = [](np_endpoint* e) { delete e; },
      .address = [](np_endpoint* e, void* data, size_t* bytes) { return write_address(*e, data, bytes); },
      .connect = connect,
      .limits = limits,
      .wait = wait,
      .test = test,
      .describe = describe,
      .read_counters = read_counters,
      .prepare = prepare,
      .measures = measures().data(),
      .nmeasures = static_cast<uint32_t>(measures().size()),
      .measure_bytes = sizeof(np_measure),
  };
  return &module;
}
