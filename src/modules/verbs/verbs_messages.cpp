// SPDX-License-Identifier: Apache-2.0
// A message of the size of the visit is one send, which lands in the receive that its receiver has posted. Where a rank
// has one peer these are posted ahead, at the places where the next messages will land, so that a message finds one
// when its receiver is late; otherwise the device of the sender tries again until it does (RNR). Of several peers it is
// not known whose message takes which place. Messages of other sizes, and words that are not the visit's, take the
// control pair: both sides know which these are, so both know the way.
#include "verbs_messages.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "verbs_control.h"
#include "verbs_datagrams.h"
#include "verbs_memory.h"
#include "verbs_progress.h"
#include "verbs_queues.h"
#include "verbs_written.h"

namespace netpipe::verbs {
namespace {

constexpr size_t kMostWord = 16;

Span span_of(const np_places& places, size_t bytes) {
  if (places.count == 0) return {};
  return {reinterpret_cast<uintptr_t>(places.base), places.stride * (places.count - 1) + bytes};
}

// Whether it is one of the visit's, for which receives are posted. A word between ranks may have their size, but it
// neither starts nor lands where they do.
bool is_of_visit(const np_endpoint& endpoint, const void* data, size_t bytes) {
  if (bytes != endpoint.visit_bytes) return false;
  if (bytes > kMostWord || bytes == 0 || endpoint.landing.count == 0) return true;
  const auto at = reinterpret_cast<uintptr_t>(data);
  return std::any_of(endpoint.places.begin(), endpoint.places.end(),
                     [at](const Span& span) { return at - span.base < span.bytes; });
}

Queue& queue_of(const Peer& peer, uint64_t message) { return *peer.queues[message % peer.queues.size()]; }

// The number that the last receive of its queue pair has, counted from the first message of the visit.
uint64_t number_of(const Peer& peer, uint64_t message) { return message / peer.queues.size() + 1; }

char* place_of(const np_endpoint& endpoint, uint64_t message) {
  const np_places& places = endpoint.landing;
  return places.base + places.stride * ((places.next + message) % places.count);
}

// ---------------------------------------------------------------------------------------------- sending

// The local key of a message. mr: where register=each keeps what it registers.
uint32_t message_key(np_endpoint& endpoint, const void* data, size_t bytes, int access, HeldMr& mr) {
  if (!endpoint.set.each || bytes == 0) return key_of(endpoint, data, bytes);
  if (const np_status s = register_memory(endpoint, data, bytes, access, mr); s == NP_OK) return mr->lkey;
  endpoint.status = NP_NO_MEMORY;
  return 0;
}

np_status send_whole(np_endpoint& endpoint, Peer& peer, const void* data, size_t bytes) {
  Queue& queue = queue_of(peer, peer.sent++);
  const unsigned flags = inlined(endpoint, bytes);
  HeldMr mr;
  ibv_sge from{reinterpret_cast<uint64_t>(data), static_cast<uint32_t>(bytes), 0};
  if (flags == 0) from.lkey = message_key(endpoint, data, bytes, 0, mr);
  ibv_send_wr request{};
  request.sg_list = &from;
  request.num_sge = bytes > 0 ? 1 : 0;
  request.opcode = IBV_WR_SEND;
  request.send_flags = flags;
  const np_status status = start(endpoint, queue, request, flags == 0);
  if (status != NP_OK || flags != 0) return status;
  return await_sent(endpoint, queue, queue.sent);
}

void fill(np_request& request, State state, Queue& queue, uint64_t number, HeldMr& mr) {
  request.word[kState] = state;
  request.word[kQueue] = reinterpret_cast<uint64_t>(&queue);
  request.word[kNumber] = number;
  request.word[kMemory] = reinterpret_cast<uint64_t>(mr.release());
  request.word[kInto] = request.word[kLanded] = 0;
}

// So many of the messages on this queue pair in one call; they are `step` apart among all.
np_status post_list(np_endpoint& endpoint, Queue& queue, const char* data, size_t stride, size_t bytes,
                    np_request* requests, size_t step, size_t count, bool last) {
  ibv_send_wr list[kMostList];
  ibv_sge from[kMostList];
  const unsigned flags = inlined(endpoint, bytes);
  if (const np_status s = room_for(endpoint, queue, count); s != NP_OK) return s;
  for (size_t i = 0; i < count; ++i) {
    const char* const at = data + i * step * stride;
    HeldMr mr;
    from[i] = {reinterpret_cast<uint64_t>(at), static_cast<uint32_t>(bytes), 0};
    if (flags == 0) from[i].lkey = message_key(endpoint, at, bytes, 0, mr);
    list[i] = ibv_send_wr{};
    list[i].sg_list = &from[i];
    list[i].num_sge = bytes > 0 ? 1 : 0;
    list[i].opcode = IBV_WR_SEND;
    list[i].send_flags = flags;
    list[i].next = i + 1 < count ? &list[i + 1] : nullptr;
    number(endpoint, queue, list[i], flags == 0 && last && i + 1 == count);
    fill(requests[i * step], flags != 0 ? kDone : kSent, queue, queue.sent, mr);
  }
  if (endpoint.status != NP_OK) return endpoint.status;
  return post(endpoint, queue, list[0]);
}

np_status send_many(np_endpoint& endpoint, Peer& peer, const char* data, size_t stride, size_t bytes,
                    np_request* requests, size_t count) {
  const size_t step = peer.queues.size();
  for (size_t first = 0; first < std::min(step, count); ++first) {
    Queue& queue = queue_of(peer, peer.sent + first);
    const size_t all = (count - first + step - 1) / step;
    for (size_t done = 0; done < all;) {
      const size_t part = std::min<size_t>(all - done, endpoint.set.list);
      const size_t at = first + done * step;
      const np_status s =
          post_list(endpoint, queue, data + at * stride, stride, bytes, requests + at, step, part, done + part == all);
      if (s != NP_OK) return s;
      done += part;
    }
  }
  peer.sent += count;
  return NP_OK;
}

np_status send(np_endpoint* endpoint, int rank, const void* data, size_t bytes) {
  if (endpoint->set.type != kRc) return send_datagram(*endpoint, rank, data, bytes, nullptr);
  Peer& peer = peer_of(*endpoint, rank);
  if (!is_of_visit(*endpoint, data, bytes)) return control_send(*endpoint, peer, data, bytes);
  if (endpoint->set.op != kSend) return send_written(*endpoint, peer, data, bytes);
  return send_whole(*endpoint, peer, data, bytes);
}

np_status isend(np_endpoint* endpoint, int rank, const void* data, size_t stride, size_t bytes, np_request* requests,
                size_t count) {
  Peer& peer = peer_of(*endpoint, rank);
  const char* from = static_cast<const char*>(data);
  if (endpoint->set.type == kRc && is_of_visit(*endpoint, data, bytes)) {
    return endpoint->set.op == kSend ? send_many(*endpoint, peer, from, stride, bytes, requests, count)
                                     : isend_written(*endpoint, peer, from, stride, bytes, requests, count);
  }
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i, from += stride) {
    requests[i].word[kMemory] = 0;
    if (endpoint->set.type != kRc) {
      status = send_datagram(*endpoint, rank, from, bytes, &requests[i]);
    } else {
      requests[i].word[kState] = kDone;  // it is copied
      status = control_send(*endpoint, peer, from, bytes);
    }
  }
  return status;
}

// ---------------------------------------------------------------------------------------------- receiving

bool has_room(const np_endpoint& endpoint, const Queue& queue) {
  return queue.posted - queue.arrived < endpoint.set.receive_depth;
}

np_status post_at(np_endpoint& endpoint, Queue& queue, void* data, size_t bytes, uint32_t key) {
  ibv_sge into{reinterpret_cast<uint64_t>(data), static_cast<uint32_t>(bytes), key};
  ibv_recv_wr wanted{};
  wanted.wr_id = id_of(kToReceive, queue.index, 0);
  wanted.sg_list = &into;
  wanted.num_sge = bytes > 0 ? 1 : 0;
  ++queue.posted;
  return post_receive(endpoint, queue, wanted);
}

// Receives of messages that nobody has asked for yet.
np_status post_ahead(np_endpoint& endpoint, Peer& peer) {
  const size_t bytes = endpoint.visit_bytes;
  while (peer.ahead < peer.started + endpoint.set.ahead) {
    Queue& queue = queue_of(peer, peer.ahead);
    if (!has_room(endpoint, queue)) return NP_OK;
    char* const place = place_of(endpoint, peer.ahead);
    HeldMr& mr = peer.ahead_memory[peer.ahead % kMostAhead];
    const uint32_t key = message_key(endpoint, place, bytes, IBV_ACCESS_LOCAL_WRITE, mr);
    if (endpoint.status != NP_OK) return endpoint.status;
    if (const np_status s = post_at(endpoint, queue, place, bytes, key); s != NP_OK) return s;
    ++peer.ahead;
  }
  return NP_OK;
}

void bring(np_request& request) {
  const uint64_t landed = request.word[kLanded], into = request.word[kInto];
  if (landed == into) [[likely]]
    return;
  std::memcpy(reinterpret_cast<void*>(into), reinterpret_cast<const void*>(landed), request.word[kBytes]);
}

// Starts one receive. It is behind those that were started before, wherever they are.
np_status receive_one(np_endpoint& endpoint, Peer& peer, void* data, size_t bytes, np_request* request) {
  const uint64_t message = peer.started++;
  Queue& queue = queue_of(peer, message);
  HeldMr mr;
  if (message < peer.ahead) {
    mr = std::move(peer.ahead_memory[message % kMostAhead]);
    fill(*request, kArrived, queue, number_of(peer, message), mr);
    request->word[kLanded] = reinterpret_cast<uint64_t>(place_of(endpoint, message));
    request->word[kInto] = reinterpret_cast<uint64_t>(data);
    request->word[kBytes] = bytes;
    return NP_OK;
  }
  const uint32_t key = message_key(endpoint, data, bytes, IBV_ACCESS_LOCAL_WRITE, mr);
  if (endpoint.status != NP_OK) return endpoint.status;
  peer.ahead = message + 1;
  fill(*request, kArrived, queue, number_of(peer, message), mr);
  request->word[kInto] = request->word[kLanded] = reinterpret_cast<uint64_t>(data);
  request->word[kBytes] = bytes;
  if (peer.backlog.first == nullptr && has_room(endpoint, queue)) [[likely]]
    return post_at(endpoint, queue, data, bytes, key);
  peer.backlog.add(request);
  return NP_OK;
}

bool is_done(np_request& request) {
  const auto* const queue = reinterpret_cast<const Queue*>(request.word[kQueue]);
  switch (request.word[kState]) {
    case kDone: return true;
    case kSent: return queue->completed >= request.word[kNumber];
    case kArrived: return queue->arrived >= request.word[kNumber];
    default: return false;
  }
}

void release(np_request& request) {
  if (request.word[kState] == kArrived) bring(request);
  if (request.word[kMemory] != 0) HeldMr(reinterpret_cast<ibv_mr*>(request.word[kMemory])).reset();
  request.word[kMemory] = 0;
  request.word[kState] = kDone;
}

np_status finish(np_endpoint& endpoint, np_request& request) {
  if (endpoint.set.op != kSend && request.word[kState] == kPending && request.word[kQueue] != 0) {
    Peer& peer = peer_of(endpoint, reinterpret_cast<const Queue*>(request.word[kQueue])->peer);
    const np_status status = await(endpoint, [&] {
      return look_for_written(endpoint, peer) != NP_OK || request.word[kState] == kDone || endpoint.status != NP_OK;
    });
    return endpoint.status != NP_OK ? endpoint.status : status;
  }
  const np_status status = await(endpoint, [&request] { return is_done(request); });
  if (status == NP_OK) release(request);
  return status;
}

np_status recv(np_endpoint* endpoint, int rank, void* data, size_t bytes) {
  if (endpoint->set.type != kRc) return recv_datagram(*endpoint, rank, data, bytes);
  Peer& peer = peer_of(*endpoint, rank);
  if (!is_of_visit(*endpoint, data, bytes)) return control_recv(*endpoint, peer, data, bytes);
  if (endpoint->set.op != kSend) return recv_written(*endpoint, peer, data, bytes);
  np_request request;
  np_status status = receive_one(*endpoint, peer, data, bytes, &request);
  const bool ahead = endpoint->ahead_from == &peer && peer.backlog.first == nullptr;
  if (status == NP_OK && ahead) status = post_ahead(*endpoint, peer);
  if (status == NP_OK) status = finish(*endpoint, request);
  if (status != NP_OK && endpoint->status == NP_OK) endpoint->status = status;  // the request ends here
  return status;
}

np_status irecv(np_endpoint* endpoint, int rank, void* data, size_t stride, size_t bytes, np_request* requests,
                size_t count) {
  char* into = static_cast<char*>(data);
  Peer& peer = peer_of(*endpoint, rank);
  const bool of_visit = is_of_visit(*endpoint, data, bytes);
  const bool to_itself = rank == endpoint->context->rank;
  if (to_itself && (peer.queues.empty() || !of_visit)) [[unlikely]] {
    return fail(endpoint->context, NP_UNSUPPORTED,
                "verbs: a rank sends to itself only messages of the size of the visit, with qp=rc and op=send");
  }
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i, into += stride) {
    requests[i].word[kQueue] = requests[i].word[kMemory] = 0;
    if (endpoint->set.type != kRc) {
      status = irecv_datagram(*endpoint, rank, into, bytes, &requests[i]);
    } else if (!of_visit) {
      control_irecv(*endpoint, peer, into, bytes, &requests[i]);
    } else if (endpoint->set.op != kSend) {
      irecv_written(*endpoint, peer, into, bytes, &requests[i]);
    } else {
      status = receive_one(*endpoint, peer, into, bytes, &requests[i]);
    }
  }
  if (endpoint->ahead_from == &peer && status == NP_OK && of_visit) {
    return peer.backlog.first == nullptr ? post_ahead(*endpoint, peer) : NP_OK;
  }
  return status;
}

// Takes back the receives that nobody asked for.
np_status renew_ahead(np_endpoint& endpoint) {
  if (endpoint.ahead_from == nullptr) return NP_OK;
  // What completes has a number that means nothing to a queue pair that was reset.
  for (int found = 1; found != 0;) {
    found = drain(endpoint);
    if (found < 0) return endpoint.status;
  }
  for (Queue* const queue : endpoint.ahead_from->queues) {
    if (const np_status s = renew(endpoint, *queue); s != NP_OK) return s;
  }
  endpoint.ahead_from = nullptr;
  return NP_OK;
}

// The one with which this rank has messages in this visit; none: there are several.
Peer* only_peer(np_endpoint& endpoint, const np_visit& visit) {
  const np_context* context = endpoint.context;
  if (context->nranks > 2 && (visit.flags & NP_VISIT_IN_PAIRS) == 0) return nullptr;
  return &peer_of(endpoint, context->nranks - 1 - context->rank);
}

// op=write and write_imm.
np_status start_written(np_endpoint& endpoint, const np_visit& visit) {
  if (Peer* const peer = only_peer(endpoint, visit)) return announce(endpoint, *peer, visit);
  endpoint.visit_bytes = UINT64_MAX;  // all takes the control pairs
  if ((visit.flags & NP_VISIT_GREETING) != 0) return NP_OK;
  return fail(endpoint.context, NP_UNSUPPORTED,
              "verbs: op=%s writes messages to places that their receiver announced to one other rank, and in this "
              "pattern a rank has messages with several; choose op=send",
              endpoint.context->options[kOp].text);
}

// Between two barriers: nothing is on its way.
np_status start_anew(np_endpoint& endpoint, const np_visit& visit) {
  const bool messages = (visit.uses & NP_USES_MESSAGES) != 0;
  if (const np_status s = renew_ahead(endpoint); s != NP_OK) return s;
  for (Queue& queue : endpoint.queues) {
    if (peer_of(endpoint, queue.peer).control.queue == &queue) continue;
    queue.posted -= queue.arrived;
    queue.arrived = 0;
  }
  endpoint.visit_bytes = messages ? visit.bytes : UINT64_MAX;
  endpoint.landing = visit.incoming;
  endpoint.places = {span_of(visit.outgoing, visit.bytes), span_of(visit.incoming, visit.bytes)};
  for (Peer& peer : endpoint.peers) {
    peer.sent = peer.started = peer.ahead = 0;
    peer.backlog = Line{};
    for (HeldMr& mr : peer.ahead_memory) mr.reset();
  }
  if (const np_status s = register_visit(endpoint, visit); s != NP_OK) return s;
  if (!messages) return NP_OK;
  if (endpoint.set.op != kSend) return start_written(endpoint, visit);
  if (endpoint.set.ahead == 0 || visit.incoming.count == 0) return NP_OK;
  endpoint.ahead_from = only_peer(endpoint, visit);
  if (endpoint.ahead_from != nullptr) return post_ahead(endpoint, *endpoint.ahead_from);
  const char* const asked = endpoint.context->options[kAhead].text;  // other than the default: not in force here
  if ((visit.flags & NP_VISIT_GREETING) != 0 || std::strcmp(asked, kTable[kAhead].default_value) == 0) return NP_OK;
  return fail(endpoint.context, NP_UNSUPPORTED,
              "verbs: ahead=%s posts receives for the messages of one other rank, and in this pattern a rank has "
              "messages with several; choose ahead=0",
              asked);
}

}  // namespace

const np_messages kMessages = {
    .size = sizeof(np_messages), .to_itself = 1, .send = send, .recv = recv, .isend = isend, .irecv = irecv};

void post_backlog(np_endpoint& endpoint, Peer& peer) {
  while (np_request* const request = peer.backlog.first) {
    Queue& queue = *reinterpret_cast<Queue*>(request->word[kQueue]);
    if (!has_room(endpoint, queue)) return;
    void* const data = reinterpret_cast<void*>(request->word[kInto]);
    const size_t bytes = request->word[kBytes];
    const auto* mr = reinterpret_cast<const ibv_mr*>(request->word[kMemory]);
    const uint32_t key = mr != nullptr ? mr->lkey : key_of(endpoint, data, bytes);
    peer.backlog.take();
    if (post_at(endpoint, queue, data, bytes, key) != NP_OK) return;  // the status of the endpoint says why
  }
}

np_status wait(np_endpoint* endpoint, np_request* requests, size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) {
    status = endpoint->set.type != kRc ? wait_datagram(*endpoint, &requests[i]) : finish(*endpoint, requests[i]);
  }
  return status;
}

np_status test(np_endpoint* endpoint, np_request* request) {
  if (endpoint->set.type != kRc) return test_datagram(*endpoint, request);
  for (int look = 0; look < 2; ++look) {
    const bool written = request->word[kState] == kPending && request->word[kQueue] != 0;
    if (written) {
      const int peer = reinterpret_cast<const Queue*>(request->word[kQueue])->peer;
      if (const np_status s = look_for_written(*endpoint, peer_of(*endpoint, peer)); s != NP_OK) return s;
    }
    if (is_done(*request)) {
      release(*request);
      return NP_OK;
    }
    if (endpoint->status != NP_OK) return endpoint->status;
    if (*endpoint->context->abort != 0) return aborted(*endpoint);
    if (look == 0 && drain(*endpoint) < 0) return endpoint->status;
  }
  return NP_PENDING;
}

np_status prepare(np_endpoint* endpoint, const np_visit* visit) {
  if (endpoint->status != NP_OK) return endpoint->status;
  if (endpoint->set.type != kRc) return register_visit(*endpoint, *visit);
  np_status status = barrier(endpoint);
  if (status == NP_OK) status = start_anew(*endpoint, *visit);
  return status == NP_OK ? barrier(endpoint) : status;
}

}  // namespace netpipe::verbs
