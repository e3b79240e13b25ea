// SPDX-License-Identifier: Apache-2.0
#include "udp_cast.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "udp_connect.h"
#include "udp_datagram.h"
#include "udp_endpoint.h"
#include "udp_options.h"
#include "udp_socket.h"

namespace netpipe::udp {

using namespace netpipe::fd_io;

namespace {

np_status open_way_out(np_endpoint& endpoint) {
  const np_context* context = endpoint.context;
  Casts& casts = endpoint.casts;
  const int64_t nranks = context->nranks, first = context->options[kPort].number;
  if (first != 0 && first + nranks * nranks + nranks - 1 > 65535) {  // the same on all ranks
    return fail(context, NP_UNSUPPORTED, "udp: port=%lld leaves no room for %lld more ports to cast; give a lower one",
                static_cast<long long>(first), static_cast<long long>(nranks));
  }
  Place at = endpoint.own;
  if (const np_status s = make_socket(context, at, nranks * nranks + context->rank, false, casts.fd); s != NP_OK) {
    return s;
  }
  casts.group.set_port(at.port());
  if (const np_status s = send_to_group(context, casts.fd, endpoint.own, casts.group); s != NP_OK) return s;
  if (getrandom(&casts.token, sizeof casts.token, 0) == sizeof casts.token) return NP_OK;
  return fail(context, NP_FAILED, "udp: getrandom: %s", std::strerror(errno));
}

// A socket for what one rank casts.
np_status join(np_endpoint& endpoint, int rank) {
  const np_context* context = endpoint.context;
  Casts::Source& source = endpoint.casts.sources[static_cast<size_t>(rank)];
  Place at = endpoint.casts.group;
  at.set_port(source.port);
  if (const np_status s = listen_in_group(context, at, endpoint.own, source.fd); s != NP_OK) return s;
  source.way = way_of(context, rank, source.fd);
  source.way.connected = false;
  source.way.from = endpoint.desks[static_cast<size_t>(rank)].at;
  source.way.from.set_port(source.port);
  return NP_OK;
}

// That nothing gets through a group is found out once, and not for each visit again.
np_status remember(Casts& casts, const np_context* context, np_status status) {
  if (status == NP_UNSUPPORTED) casts.obstacle = context->message;
  return status;
}

np_status await_casts(np_endpoint& endpoint, int rank, int64_t deadline_ns) {
  Casts::Source& source = endpoint.casts.sources[static_cast<size_t>(rank)];
  Call call;
  call.fd = source.fd.get();
  call.from = source.way.from;
  call.question = kCastQuestion;
  call.token = source.token;
  call.group = true;
  call.silent = NP_UNSUPPORTED;  // between single ranks all may be well
  Greeting greeting;
  if (const np_status s = greet(endpoint, rank, call, deadline_ns, greeting); s != NP_OK) return s;
  source.in = make_inbox(endpoint, source.way, call, greeting);
  return NP_OK;
}

}  // namespace

np_status open_casts(np_endpoint& endpoint) {
  const np_context* context = endpoint.context;
  Casts& casts = endpoint.casts;
  casts.sources.resize(endpoint.links.size());
  if (const np_status s = cast_group(context, endpoint.own, endpoint.group, casts.group); s != NP_OK) return s;
  if (open_way_out(endpoint) != NP_OK) {
    casts.error = errno;
    casts.obstacle = context->message;
    context->message[0] = '\0';
    casts.fd.reset();
  }
  return NP_OK;
}

np_status connect_casts(np_endpoint& endpoint) {
  const np_context* context = endpoint.context;
  Casts& casts = endpoint.casts;
  if (!casts.fd) return NP_OK;
  casts.way = way_of(context, kEverybody, casts.fd);
  casts.way.connected = false;
  casts.way.to = casts.group;
  // No router tells of a group what it carries: what all the ways to single ranks carry.
  int64_t mtu = path_mtu(endpoint.own, casts.group);
  for (const np_endpoint::Link& link : endpoint.links) {
    if (link.mtu > 0) mtu = mtu > 0 ? std::min(mtu, link.mtu) : link.mtu;
  }
  if (make_outbox(endpoint, casts.way, casts.token, mtu, casts.out) == NP_OK) return NP_OK;
  casts.obstacle = context->message;
  context->message[0] = '\0';
  casts.out.reset();
  return NP_OK;
}

Asker cast_asker(const np_endpoint& endpoint) {
  const Casts& casts = endpoint.casts;
  if (!casts.out) return {};
  return {casts.fd.get(), &casts.way.to.at,     casts.way.to.bytes,
          casts.token,    casts.out->payload(), &casts.out->departed()};
}

np_status join_casts(np_endpoint& endpoint) {
  const np_context* context = endpoint.context;
  Casts& casts = endpoint.casts;
  if (casts.joined) return NP_OK;
  if (!casts.obstacle.empty()) return fail(context, NP_UNSUPPORTED, "%s", casts.obstacle.c_str());
  const int64_t deadline_ns = now_ns() + context->timeout_ns / 2;  // before the visit is given up
  for (int rank = 0; rank < context->nranks; ++rank) {
    if (rank == context->rank) continue;
    const Casts::Source& source = casts.sources[static_cast<size_t>(rank)];
    if (source.port == 0) {
      return fail(context, NP_UNSUPPORTED, "udp: rank %d at %s cannot cast to group %s: %s", rank,
                  host_text(endpoint.desks[static_cast<size_t>(rank)].at).c_str(), host_text(casts.group).c_str(),
                  std::strerror(source.error));
    }
    if (join(endpoint, rank) != NP_OK) return NP_UNSUPPORTED;  // it left the sentence
  }
  for (int rank = 0; rank < context->nranks; ++rank) {
    if (rank == context->rank) continue;
    const np_status s = await_casts(endpoint, rank, deadline_ns);
    if (s != NP_OK) return remember(casts, context, s);
  }
  casts.joined = true;
  return NP_OK;
}

}  // namespace netpipe::udp
