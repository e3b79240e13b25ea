// SPDX-License-Identifier: Apache-2.0
// op=write_imm: one RDMA write with immediate data, which completes an empty receive of the receiver.
//
// op=write: the receiver learns of a message from its own memory. A ring of cells lies there; the last word of a cell
// is the number of the message that came last through it. A small message travels in front of its number, in one write,
// and is copied to its place; a larger one is written to its place, and its number behind it. Writes of a queue pair
// arrive in order, and the last bytes of one last, as every such program relies on. The receiver returns the number of
// messages that it took by a write of its own, every quarter of the ring.
#include "verbs_written.h"

#include <algorithm>
#include <cstring>

#include "verbs_control.h"
#include "verbs_memory.h"
#include "verbs_progress.h"

namespace netpipe::verbs {
namespace {

constexpr uint64_t kLookForErrors = 64;
constexpr uint32_t kEmptyReceives = 64;

struct Announced {
  uint64_t base = 0, stride = 0, count = 0, next = 0, key = 0;
};

bool has_flags(const np_endpoint& endpoint) { return endpoint.set.op == kWrite; }
bool is_small(const np_endpoint& endpoint, size_t bytes) { return bytes <= endpoint.set.eager; }

// Where the word of this message is, in the cells of a sender; what it carries lies in front of it.
uint64_t word_offset(const np_endpoint& endpoint, uint64_t message) {
  return (message % kFlagCells + 1) * endpoint.flag_bytes - sizeof(uint64_t);
}
char* word_here(const np_endpoint& endpoint, const Queue& queue, uint64_t message) {
  const size_t ring = static_cast<size_t>(queue.peer) * kFlagCells * endpoint.flag_bytes;
  return endpoint.flags + ring + word_offset(endpoint, message);
}
volatile uint64_t& credit_of(const np_endpoint& endpoint, const Queue& queue) {
  return endpoint.credit[static_cast<size_t>(queue.peer) * 64 / sizeof(uint64_t)];
}

uint64_t next_place(Written& way) {
  const uint64_t place = way.far_base + way.far_stride * way.far_next;
  if (++way.far_next >= way.far_count) way.far_next = 0;
  return place;
}

// Up to two writes that carry a message, and what they are made of.
struct Writes {
  ibv_sge data{}, word{}, both[2]{};
  ibv_send_wr first{}, second{};
  bool two = false;
};

void write_to(ibv_send_wr& request, ibv_sge* from, int parts, uint64_t far, uint32_t key) {
  request.sg_list = from;
  request.num_sge = parts;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = far;
  request.wr.rdma.rkey = key;
}

void make_writes(np_endpoint& endpoint, Queue& queue, Written& way, const void* data, size_t bytes, Writes& w) {
  const uint64_t message = way.sent++;
  w.data = {reinterpret_cast<uint64_t>(data), static_cast<uint32_t>(bytes), 0};
  const bool small = has_flags(endpoint) && is_small(endpoint, bytes);
  const size_t inside = bytes + (small ? sizeof(uint64_t) : 0);
  w.first.send_flags = inlined(endpoint, inside);
  if (w.first.send_flags == 0) w.data.lkey = key_of(endpoint, data, bytes);
  if (!has_flags(endpoint)) {
    write_to(w.first, &w.data, bytes > 0 ? 1 : 0, next_place(way), way.far_key);
    w.first.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    return;
  }
  uint64_t& number = endpoint.flag_words[static_cast<size_t>(queue.peer) * kFlagCells + message % kFlagCells];
  number = message + 1;
  w.word = {reinterpret_cast<uint64_t>(&number), sizeof number, endpoint.room_memory->lkey};
  const uint64_t word_at = way.far_flags + word_offset(endpoint, message);
  if (small) {
    w.both[0] = w.data;
    w.both[1] = w.word;
    ibv_sge* const from = bytes > 0 ? w.both : w.both + 1;
    write_to(w.first, from, bytes > 0 ? 2 : 1, word_at - bytes, way.far_flags_key);
    return;
  }
  write_to(w.first, &w.data, 1, next_place(way), way.far_key);
  write_to(w.second, &w.word, 1, word_at, way.far_flags_key);
  w.second.send_flags = inlined(endpoint, sizeof number);
  w.first.next = &w.second;
  w.two = true;
}

// Until the receiver has emptied cells for so many.
np_status room_there(np_endpoint& endpoint, const Queue& queue, const Written& way, size_t count) {
  if (!has_flags(endpoint)) return NP_OK;
  const volatile uint64_t& taken = credit_of(endpoint, queue);
  if (way.sent + count - taken <= kFlagCells) [[likely]]
    return NP_OK;
  return await(endpoint, [&] { return way.sent + count - taken <= kFlagCells; });
}

// Posts this many messages in one call. reads: they are still read from the caller's memory when this returns, and the
// last one asks for a completion if `must`.
template <size_t kMost>
np_status write_list(np_endpoint& endpoint, Peer& peer, const char* data, size_t stride, size_t bytes, size_t count,
                     bool must, bool& reads) {
  Queue& queue = *peer.queues.front();
  np_status status = room_there(endpoint, queue, peer.written, count);
  if (status == NP_OK) status = room_for(endpoint, queue, 2 * count);
  if (status != NP_OK) return status;
  Writes list[kMost];
  ibv_send_wr* before = nullptr;
  for (size_t i = 0; i < count; ++i) {
    Writes& w = list[i];
    make_writes(endpoint, queue, peer.written, data + i * stride, bytes, w);
    if (endpoint.status != NP_OK) return endpoint.status;
    reads = (w.first.send_flags & IBV_SEND_INLINE) == 0;
    const bool last = reads && must && i + 1 == count;
    number(endpoint, queue, w.first, last && !w.two);
    if (w.two) number(endpoint, queue, w.second, last);
    if (before != nullptr) before->next = &w.first;
    before = w.two ? &w.second : &w.first;
  }
  return post(endpoint, queue, list[0].first);
}

// The receiver's side of op=write: whether this message is here.
bool is_here(const np_endpoint& endpoint, const Queue& queue, uint64_t message) {
  const auto* const word = reinterpret_cast<const uint64_t*>(word_here(endpoint, queue, message));
  return __atomic_load_n(word, __ATOMIC_ACQUIRE) == message + 1;
}

np_status tell_taken(np_endpoint& endpoint, Queue& queue, Written& way) {
  way.told = way.taken;
  uint64_t* const word = &endpoint.flag_words[static_cast<size_t>(endpoint.context->rank) * kFlagCells];
  *word = way.taken;
  ibv_sge from{reinterpret_cast<uint64_t>(word), sizeof *word, endpoint.room_memory->lkey};
  ibv_send_wr request{};
  write_to(request, &from, 1, way.far_credit, way.far_flags_key);
  request.send_flags = inlined(endpoint, sizeof *word);
  return start(endpoint, queue, request, false);
}

// The next message has arrived: brings it to where its receiver wants it.
np_status take_written(np_endpoint& endpoint, Peer& peer, void* data, size_t bytes) {
  Queue& queue = *peer.queues.front();
  Written& way = peer.written;
  const uint64_t message = way.taken++;
  if (has_flags(endpoint) && is_small(endpoint, bytes)) {
    std::memcpy(data, word_here(endpoint, queue, message) - bytes, bytes);
  } else {
    np_places& here = endpoint.landing;
    const char* const place = here.base + here.stride * here.next;
    if (++here.next >= here.count) here.next = 0;
    // A pattern may want it elsewhere.
    if (place != data && bytes > 0) std::memcpy(data, place, bytes);
  }
  if (has_flags(endpoint)) return way.taken - way.told < kFlagCells / 4 ? NP_OK : tell_taken(endpoint, queue, way);
  return queue.posted - queue.arrived < kEmptyReceives / 2 ? post_empty_receives(endpoint, queue) : NP_OK;
}

bool has_arrived(const np_endpoint& endpoint, const Queue& queue, const Written& way) {
  return has_flags(endpoint) ? is_here(endpoint, queue, way.taken) : queue.arrived > way.taken;
}

// Polls the word in memory, and looks for errors now and then.
np_status poll_for(np_endpoint& endpoint, const Queue& queue, const Written& way) {
  for (uint64_t looks = 1; !is_here(endpoint, queue, way.taken); ++looks) {
    if (endpoint.status != NP_OK) return endpoint.status;
    if (*endpoint.context->abort != 0) return aborted(endpoint);
    if (endpoint.context->oversubscribed != 0) sched_yield();
    ++endpoint.counts.empty_polls;
    if (looks % kLookForErrors == 0 && drain(endpoint) < 0) return endpoint.status;
  }
  return NP_OK;
}

}  // namespace

np_status post_empty_receives(np_endpoint& endpoint, Queue& queue) {
  while (queue.posted - queue.arrived < kEmptyReceives) {
    ibv_recv_wr wanted{};
    wanted.wr_id = id_of(kToReceive, queue.index, 0);
    if (const np_status s = post_receive(endpoint, queue, wanted); s != NP_OK) return s;
    ++queue.posted;
  }
  return NP_OK;
}

np_status announce(np_endpoint& endpoint, Peer& peer, const np_visit& visit) {
  Queue& queue = *peer.queues.front();
  const np_places& own = visit.incoming;
  const Announced here{reinterpret_cast<uint64_t>(own.base), own.stride, own.count, own.next,
                       endpoint.visit_memory[1].rkey};
  Announced there;
  np_status status = control_send(endpoint, peer, &here, sizeof here);
  if (status == NP_OK) status = control_recv(endpoint, peer, &there, sizeof there);
  if (status != NP_OK) return status;
  Written& way = peer.written;
  way.far_base = there.base;
  way.far_stride = there.stride;
  way.far_count = there.count;
  way.far_next = there.next;
  way.far_key = static_cast<uint32_t>(there.key);
  way.sent = way.started = way.taken = way.told = 0;
  way.receives = Line{};
  credit_of(endpoint, queue) = 0;
  const size_t ring = kFlagCells * endpoint.flag_bytes;
  std::memset(endpoint.flags + static_cast<size_t>(queue.peer) * ring, 0, ring);
  return has_flags(endpoint) ? NP_OK : post_empty_receives(endpoint, queue);
}

np_status send_written(np_endpoint& endpoint, Peer& peer, const void* data, size_t bytes) {
  bool reads = false;
  const np_status status = write_list<1>(endpoint, peer, static_cast<const char*>(data), 0, bytes, 1, true, reads);
  if (status != NP_OK || !reads) return status;
  const Queue& queue = *peer.queues.front();
  return await_sent(endpoint, queue, queue.sent);
}

np_status isend_written(np_endpoint& endpoint, Peer& peer, const char* data, size_t stride, size_t bytes,
                        np_request* requests, size_t count) {
  Queue& queue = *peer.queues.front();
  for (size_t done = 0; done < count;) {
    const size_t part = std::min<size_t>(count - done, endpoint.set.list);
    bool reads = false;
    const np_status status =
        write_list<kMostList>(endpoint, peer, data + done * stride, stride, bytes, part, done + part == count, reads);
    if (status != NP_OK) return status;
    for (size_t i = done; i < done + part; ++i) {
      requests[i] = np_request{};
      requests[i].word[kState] = reads ? kSent : kDone;
      requests[i].word[kQueue] = reinterpret_cast<uint64_t>(&queue);
      requests[i].word[kNumber] = queue.sent;
    }
    done += part;
  }
  return NP_OK;
}

np_status look_for_written(np_endpoint& endpoint, Peer& peer) {
  Written& way = peer.written;
  const Queue& queue = *peer.queues.front();
  while (way.receives.first != nullptr && has_arrived(endpoint, queue, way)) {
    np_request* const request = way.receives.take();
    const np_status s =
        take_written(endpoint, peer, reinterpret_cast<void*>(request->word[kInto]), request->word[kBytes]);
    if (s != NP_OK) return s;
    request->word[kState] = kDone;
  }
  return NP_OK;
}

np_status recv_written(np_endpoint& endpoint, Peer& peer, void* data, size_t bytes) {
  Written& way = peer.written;
  const Queue& queue = *peer.queues.front();
  np_status status = NP_OK;
  while (way.receives.first != nullptr && status == NP_OK) [[unlikely]] {  // those that were started before it
    status = await(endpoint, [&] { return has_arrived(endpoint, queue, way); });
    if (status == NP_OK) status = look_for_written(endpoint, peer);
  }
  if (status != NP_OK) return status;
  status = has_flags(endpoint) ? poll_for(endpoint, queue, way)
                               : await(endpoint, [&] { return has_arrived(endpoint, queue, way); });
  return status == NP_OK ? take_written(endpoint, peer, data, bytes) : status;
}

void irecv_written(np_endpoint& endpoint, Peer& peer, void* data, size_t bytes, np_request* request) {
  *request = np_request{};
  request->word[kState] = kPending;
  request->word[kQueue] = reinterpret_cast<uint64_t>(peer.queues.front());
  request->word[kInto] = reinterpret_cast<uint64_t>(data);
  request->word[kBytes] = bytes;
  peer.written.receives.add(request);
  look_for_written(endpoint, peer);
}

}  // namespace netpipe::verbs
