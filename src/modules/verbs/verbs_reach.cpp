// SPDX-License-Identifier: Apache-2.0
// A put is an RDMA write, a get an RDMA read, on the queue pairs of a peer in turn. The completion of a write says that
// the peer's device has it (its acknowledgement comes behind the bytes); flush waits for the last of each queue pair,
// and asks for a completion where none was asked for (option signal). A signal is the immediate data of a write over
// the control pair, which finds a receive there.
#include "verbs_reach.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "verbs_control.h"
#include "verbs_memory.h"
#include "verbs_progress.h"

namespace netpipe::verbs {
namespace {

struct Key {
  uint64_t base = 0, key = 0;
};
enum RegionWord { kBase, kKey, kHere };

// ---------------------------------------------------------------------------------------------- making known

np_status expose(np_endpoint* endpoint, void* memory, size_t bytes, np_region* region) {
  const np_context* context = endpoint->context;
  if (endpoint->set.type != kRc) {
    return fail(context, NP_UNSUPPORTED,
                "verbs: puts and gets are measured with qp=rc: qp=%s does not say what has arrived",
                context->options[kQp].text);
  }
  Registered one{reinterpret_cast<uintptr_t>(memory), bytes, 0, 0, {}};
  const np_status s = register_memory(*endpoint, memory, bytes, kRemote | IBV_ACCESS_REMOTE_ATOMIC, one.mr);
  if (s != NP_OK) return s;
  one.lkey = one.mr->lkey;
  one.rkey = one.mr->rkey;
  const Key key{one.base, one.rkey};
  *region = np_region{.base = memory, .bytes = bytes, .key_bytes = sizeof key};
  region->word[kHere] = 1;
  std::memcpy(region->key, &key, sizeof key);
  endpoint->exposed.push_back(std::move(one));
  return NP_OK;
}

np_status attach(np_endpoint* endpoint, int peer, np_region* region) {
  Key key;
  if (region->key_bytes != sizeof key) {
    return fail(endpoint->context, NP_FAILED, "verbs: the key of rank %d is malformed", peer);
  }
  std::memcpy(&key, region->key, sizeof key);
  region->word[kBase] = key.base;
  region->word[kKey] = key.key;
  region->word[kHere] = 0;
  return NP_OK;
}

void withdraw(np_endpoint* endpoint, np_region* region) {
  if (region->word[kHere] == 0) return;
  const auto base = reinterpret_cast<uintptr_t>(region->base);
  const auto at = std::find_if(endpoint->exposed.begin(), endpoint->exposed.end(),
                               [&](const Registered& one) { return one.base == base && one.bytes == region->bytes; });
  if (at != endpoint->exposed.end()) endpoint->exposed.erase(at);
  region->word[kHere] = 0;
}

np_status within(const np_endpoint& endpoint, const np_region& region, size_t offset, size_t bytes) {
  if (offset <= region.bytes && bytes <= region.bytes - offset) [[likely]]
    return NP_OK;
  return fail(endpoint.context, NP_USAGE, "verbs: %zu bytes at offset %zu are not within the %llu bytes of the region",
              bytes, offset, static_cast<unsigned long long>(region.bytes));
}

// ---------------------------------------------------------------------------------------------- timed

// What a transfer is made of.
struct Transfer {
  ibv_sge near{};
  ibv_send_wr request{};
};

np_status make(np_endpoint& endpoint, ibv_wr_opcode what, const void* near, const np_region& far, size_t offset,
               size_t bytes, Transfer& t) {
  if (const np_status s = within(endpoint, far, offset, bytes); s != NP_OK) return s;
  t.near = {reinterpret_cast<uint64_t>(near), static_cast<uint32_t>(bytes), 0};
  t.request = ibv_send_wr{};
  t.request.send_flags = what == IBV_WR_RDMA_READ ? 0U : inlined(endpoint, bytes);
  if (t.request.send_flags == 0) t.near.lkey = key_of(endpoint, near, bytes);
  t.request.sg_list = &t.near;
  t.request.num_sge = bytes > 0 ? 1 : 0;
  t.request.opcode = what;
  t.request.wr.rdma.remote_addr = far.word[kBase] + offset;
  t.request.wr.rdma.rkey = static_cast<uint32_t>(far.word[kKey]);
  return endpoint.status;
}

Queue& next_queue(Peer& peer) { return *peer.queues[peer.transfers++ % peer.queues.size()]; }

np_status transfer(np_endpoint& endpoint, int rank, ibv_wr_opcode what, const void* near, const np_region& far,
                   size_t offset, size_t bytes) {
  Transfer t;
  if (const np_status s = make(endpoint, what, near, far, offset, bytes, t); s != NP_OK) return s;
  return start(endpoint, next_queue(peer_of(endpoint, rank)), t.request, false);
}

np_status put(np_endpoint* endpoint, int rank, const void* source, const np_region* target, size_t offset,
              size_t bytes) {
  return transfer(*endpoint, rank, IBV_WR_RDMA_WRITE, source, *target, offset, bytes);
}

np_status get(np_endpoint* endpoint, int rank, void* target, const np_region* source, size_t offset, size_t bytes) {
  return transfer(*endpoint, rank, IBV_WR_RDMA_READ, target, *source, offset, bytes);
}

// Everything that was started on it. A write of no bytes says so where the last operation asked for no completion.
np_status flush_queue(np_endpoint& endpoint, Queue& queue) {
  if (queue.unsignalled > 0) {
    ibv_send_wr request{};
    request.opcode = IBV_WR_RDMA_WRITE;
    if (const np_status s = start(endpoint, queue, request, true); s != NP_OK) return s;
  }
  return await_sent(endpoint, queue, queue.sent);
}

np_status flush(np_endpoint* endpoint, int rank) {
  Peer& peer = peer_of(*endpoint, rank);
  for (Queue* queue : peer.queues) {
    if (const np_status s = flush_queue(*endpoint, *queue); s != NP_OK) return s;
  }
  return flush_queue(*endpoint, *peer.control.queue);
}

// Own puts are visible after a flush, and those of all ranks when all have said so.
np_status fence(np_endpoint* endpoint) {
  for (int rank = 0; rank < endpoint->context->nranks; ++rank) {
    if (rank == endpoint->context->rank) continue;
    if (const np_status s = flush(endpoint, rank); s != NP_OK) return s;
  }
  return barrier(endpoint);
}

// So many on one queue pair in one call; they are `step` apart among all.
struct Many {
  ibv_wr_opcode what;
  char* near;
  size_t near_stride;
  const np_region* far;
  size_t offset, far_stride, bytes;
  np_request* requests;
};

np_status post_part(np_endpoint& endpoint, Queue& queue, const Many& m, size_t first, size_t step, size_t count,
                    bool last) {
  Transfer list[kMostList];
  if (const np_status s = room_for(endpoint, queue, count); s != NP_OK) return s;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = first + i * step;
    const np_status s =
        make(endpoint, m.what, m.near + at * m.near_stride, *m.far, m.offset + at * m.far_stride, m.bytes, list[i]);
    if (s != NP_OK) return s;
    if (i > 0) list[i - 1].request.next = &list[i].request;
    number(endpoint, queue, list[i].request, last && i + 1 == count);
    m.requests[at] = np_request{};
    m.requests[at].word[kState] = kSent;
    m.requests[at].word[kQueue] = reinterpret_cast<uint64_t>(&queue);
    m.requests[at].word[kNumber] = queue.sent;
  }
  return post(endpoint, queue, list[0].request);
}

np_status start_all(np_endpoint& endpoint, int rank, const Many& m, size_t count) {
  Peer& peer = peer_of(endpoint, rank);
  const size_t step = peer.queues.size();
  for (size_t first = 0; first < std::min(step, count); ++first) {
    Queue& queue = next_queue(peer);
    const size_t all = (count - first + step - 1) / step;
    for (size_t done = 0; done < all;) {
      const size_t part = std::min<size_t>(all - done, endpoint.set.list);
      const np_status s = post_part(endpoint, queue, m, first + done * step, step, part, done + part == all);
      if (s != NP_OK) return s;
      done += part;
    }
  }
  return NP_OK;
}

np_status iput(np_endpoint* endpoint, int rank, const void* source, size_t near_stride, const np_region* target,
               size_t offset, size_t far_stride, size_t bytes, np_request* requests, size_t count) {
  char* near = static_cast<char*>(const_cast<void*>(source));  // NOLINT(*-const-cast): only read
  return start_all(*endpoint, rank, {IBV_WR_RDMA_WRITE, near, near_stride, target, offset, far_stride, bytes, requests},
                   count);
}

np_status iget(np_endpoint* endpoint, int rank, void* target, size_t near_stride, const np_region* source,
               size_t offset, size_t far_stride, size_t bytes, np_request* requests, size_t count) {
  char* near = static_cast<char*>(target);
  return start_all(*endpoint, rank, {IBV_WR_RDMA_READ, near, near_stride, source, offset, far_stride, bytes, requests},
                   count);
}

np_status put_signal(np_endpoint* endpoint, int rank, const void* source, const np_region* target, size_t offset,
                     size_t bytes, uint64_t value) {
  Transfer t;
  const np_status s = make(*endpoint, IBV_WR_RDMA_WRITE_WITH_IMM, source, *target, offset, bytes, t);
  if (s != NP_OK) return s;
  t.request.imm_data = htonl(static_cast<uint32_t>(value));
  return start(*endpoint, *peer_of(*endpoint, rank).control.queue, t.request, false);
}

np_status await_signal(np_endpoint* endpoint, int rank, uint64_t* value) {
  Control& control = peer_of(*endpoint, rank).control;
  const np_status status = await(*endpoint, [&] { return control.signals_in != control.signals_out; });
  if (status == NP_OK) *value = control.signals[control.signals_out++ % kSignals];
  return status;
}

// ---------------------------------------------------------------------------------------------- atomics

// The device has fetch-and-add and compare-and-swap. Adding without a wish to know what was there fetches into a word
// that nobody reads; fetching adds nothing.
template <np_atomic what>
np_status atomic_call(np_endpoint* endpoint, int rank, const np_region* target, size_t offset, uint64_t operand,
                      uint64_t compare, uint64_t* fetched) {
  if (const np_status s = within(*endpoint, *target, offset, sizeof operand); s != NP_OK) return s;
  constexpr bool waits = what != NP_ATOMIC_ADD;
  uint64_t* const into = endpoint->fetched + (waits ? 0 : 1);
  ibv_sge near{reinterpret_cast<uint64_t>(into), sizeof *into, endpoint->room_memory->lkey};
  ibv_send_wr request{};
  request.sg_list = &near;
  request.num_sge = 1;
  request.opcode = what == NP_ATOMIC_COMPARE_SWAP ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic.remote_addr = target->word[kBase] + offset;
  request.wr.atomic.rkey = static_cast<uint32_t>(target->word[kKey]);
  request.wr.atomic.compare_add = what == NP_ATOMIC_COMPARE_SWAP ? compare : what == NP_ATOMIC_FETCH ? 0 : operand;
  request.wr.atomic.swap = operand;
  Queue& queue = next_queue(peer_of(*endpoint, rank));
  if (const np_status s = start(*endpoint, queue, request, waits); s != NP_OK || !waits) return s;
  if (const np_status s = await_sent(*endpoint, queue, queue.sent); s != NP_OK) return s;
  *fetched = *static_cast<volatile uint64_t*>(into);
  return NP_OK;
}

np_atomic_call atomic(np_endpoint* endpoint, np_atomic what) {
  if (endpoint->attributes.atomic_cap == IBV_ATOMIC_NONE || endpoint->set.type != kRc) return nullptr;
  switch (what) {
    case NP_ATOMIC_ADD: return atomic_call<NP_ATOMIC_ADD>;
    case NP_ATOMIC_FETCH_ADD: return atomic_call<NP_ATOMIC_FETCH_ADD>;
    case NP_ATOMIC_COMPARE_SWAP: return atomic_call<NP_ATOMIC_COMPARE_SWAP>;
    case NP_ATOMIC_FETCH: return atomic_call<NP_ATOMIC_FETCH>;
    case NP_ATOMIC_SWAP:
    case NP_ATOMIC_SET: return nullptr;
  }
  return nullptr;
}

}  // namespace

const np_one_sided kOneSided = {.size = sizeof(np_one_sided),
                                .expose = expose,
                                .attach = attach,
                                .withdraw = withdraw,
                                .put = put,
                                .get = get,
                                .fence = fence,
                                .flush = flush,
                                .iput = iput,
                                .iget = iget,
                                .put_signal = put_signal,
                                .await_signal = await_signal,
                                .atomic = atomic};

}  // namespace netpipe::verbs
