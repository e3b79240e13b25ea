// SPDX-License-Identifier: Apache-2.0
#include "udp_requests.h"

#include "udp_endpoint.h"

namespace netpipe::udp {
namespace {

using Link = np_endpoint::Link;

Link& link_of(const np_request& request) { return *reinterpret_cast<Link*>(request.word[kLink]); }
void* into(const np_request& request) { return reinterpret_cast<void*>(request.word[kInto]); }

np_status receive_first(Link& link) {
  const np_request& first = *link.started.first();
  return link.started.end_first(link.in->recv(into(first), first.word[kBytes]));
}

np_status outcome(const np_request& request) { return request.word[kState] == kGivenUp ? NP_LOST : NP_OK; }

np_status finish(np_request& request) {
  while (request.word[kState] == kPending) {
    if (const np_status s = receive_first(link_of(request)); s != NP_OK) return s;
  }
  return outcome(request);
}

}  // namespace

np_status isend(np_endpoint* endpoint, int peer, const void* data, size_t stride, size_t bytes, np_request* requests,
                size_t count) {
  Outbox& out = *endpoint->links[static_cast<size_t>(peer)].out;
  const char* from = static_cast<const char*>(data);
  for (size_t i = 0; i < count; ++i, from += stride) {
    if (const np_status s = out.send(from, bytes); s != NP_OK) return s;
    requests[i].word[kState] = kDone;
  }
  return NP_OK;
}

np_status irecv(np_endpoint* endpoint, int peer, void* data, size_t stride, size_t bytes, np_request* requests,
                size_t count) {
  Link& link = endpoint->links[static_cast<size_t>(peer)];
  char* to = static_cast<char*>(data);
  for (size_t i = 0; i < count; ++i, to += stride) {
    np_request& request = requests[i];
    request.word[kState] = kPending;
    request.word[kLink] = reinterpret_cast<uint64_t>(&link);
    request.word[kInto] = reinterpret_cast<uint64_t>(to);
    request.word[kBytes] = bytes;
    link.started.add(&request);
  }
  return NP_OK;
}

np_status wait(np_endpoint*, np_request* requests, size_t count) {
  np_status all = NP_OK;
  for (size_t i = 0; i < count; ++i) {
    const np_status s = finish(requests[i]);
    if (s != NP_OK && s != NP_LOST) return s;
    if (s == NP_LOST) all = s;
  }
  return all;
}

np_status test(np_endpoint*, np_request* request) {
  while (request->word[kState] == kPending) {
    Link& link = link_of(*request);
    const np_request& first = *link.started.first();
    const np_status s = link.in->look(into(first), first.word[kBytes]);
    if (s == NP_PENDING) return s;
    if (const np_status ended = link.started.end_first(s); ended != NP_OK) return ended;
  }
  return outcome(*request);
}

np_status end_started(np_endpoint& endpoint, int peer) {
  Link& link = endpoint.links[static_cast<size_t>(peer)];
  while (link.started.first() != nullptr) {
    if (const np_status s = receive_first(link); s != NP_OK) return s;
  }
  return NP_OK;
}

}  // namespace netpipe::udp
