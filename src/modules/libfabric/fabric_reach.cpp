// SPDX-License-Identifier: Apache-2.0
// A put is fi_writemsg with FI_DELIVERY_COMPLETE, so its completion says that the bytes are in the memory of the peer;
// a get is fi_read. flush waits until all of them to this peer have completed. The keys of exposed memory begin at a
// random number, where the provider leaves their choice to us.
#include "fabric_reach.h"

#include <cstring>

#include "fabric_atomics.h"
#include "fabric_memory.h"
#include "fabric_messages.h"
#include "fabric_progress.h"
#include "fabric_strided.h"
#include "fabric_transfer.h"

namespace netpipe::fabric {
namespace {

struct Key {
  uint64_t base = 0, key = 0;
};

Peer& peer_of(np_endpoint* endpoint, int rank) { return endpoint->peers[static_cast<size_t>(rank)]; }

// ---------------------------------------------------------------------------------------------- making known

np_status expose(np_endpoint* endpoint, void* memory, size_t bytes, np_region* region) {
  const np_context* context = endpoint->context;
  if (!endpoint->reaches || !endpoint->delivers) {
    return fail(context, NP_UNSUPPORTED, "libfabric: provider %s with ep=%s has no %s", endpoint->name.c_str(),
                context->options[kEp].text,
                endpoint->reaches ? "writes that complete when they were delivered (FI_DELIVERY_COMPLETE)"
                                  : "remote memory access (FI_RMA)");
  }
  Held<fid_mr> mr;
  const uint64_t access =
      FI_REMOTE_READ | FI_REMOTE_WRITE | (endpoint->registers ? FI_READ | FI_WRITE | FI_SEND | FI_RECV : 0);
  if (const np_status s = register_memory(*endpoint, memory, bytes, access, mr); s != NP_OK) return s;
  const bool by_address = (endpoint->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  const Key key = {by_address ? reinterpret_cast<uint64_t>(memory) : 0, fi_mr_key(mr.get())};
  if (key.key == FI_KEY_NOTAVAIL) {
    return fail(context, NP_UNSUPPORTED, "libfabric: provider %s has keys of more than 64 bits (FI_MR_RAW)",
                endpoint->name.c_str());
  }
  *region = np_region{.base = memory, .bytes = bytes, .key_bytes = sizeof key};
  region->word[kMemory] = reinterpret_cast<uint64_t>(mr.release());
  std::memcpy(region->key, &key, sizeof key);
  return NP_OK;
}

np_status attach(np_endpoint* endpoint, int peer, np_region* region) {
  Key key;
  if (region->key_bytes != sizeof key) {
    return fail(endpoint->context, NP_FAILED, "libfabric: the key of rank %d is malformed", peer);
  }
  std::memcpy(&key, region->key, sizeof key);
  region->word[kBase] = key.base;
  region->word[kKey] = key.key;
  region->word[kMemory] = 0;
  return NP_OK;
}

void withdraw(np_endpoint*, np_region* region) {
  if (region->word[kMemory] != 0) fi_close(&reinterpret_cast<fid_mr*>(region->word[kMemory])->fid);
  region->word[kMemory] = 0;
}

// ---------------------------------------------------------------------------------------------- timed

// One contiguous range, whose completion comes to this context.
template <Way way>
np_status move(np_endpoint& endpoint, const Peer& peer, void* near, const np_region& far, size_t offset, size_t bytes,
               void* context, uint64_t flags = 0, uint64_t data = 0) {
  const iovec part = {near, bytes};
  const fi_rma_iov there = {far.word[kBase] + offset, bytes, far.word[kKey]};
  void* descriptor = descriptor_of(endpoint, near, bytes);
  return transfer<way>(endpoint, peer, {&part, &descriptor, 1, peer.at, &there, 1, context, data}, flags);
}

template <Way way>
np_status start(np_endpoint& endpoint, int rank, void* near, const np_region& far, size_t offset, size_t bytes,
                uint64_t flags = 0, uint64_t data = 0) {
  if (const np_status s = within(endpoint, far, offset, bytes); s != NP_OK) return s;
  Slot* slot = nullptr;
  if (const np_status s = place_for(endpoint, rank, slot); s != NP_OK) return s;
  return move<way>(endpoint, peer_of(&endpoint, rank), near, far, offset, bytes,
                   slot != nullptr ? &slot->request : nullptr, flags, data);
}

np_status put(np_endpoint* endpoint, int rank, const void* source, const np_region* target, size_t offset,
              size_t bytes) {
  return start<Way::put>(*endpoint, rank, const_cast<void*>(source), *target, offset, bytes);
}

np_status get(np_endpoint* endpoint, int rank, void* target, const np_region* source, size_t offset, size_t bytes) {
  return start<Way::get>(*endpoint, rank, target, *source, offset, bytes);
}

np_status flush(np_endpoint* endpoint, int rank) {
  if (endpoint->counting) return await_count(*endpoint, endpoint->transfers, endpoint->transfers.issued);
  const Peer& peer = peer_of(endpoint, rank);
  const np_status status = await(*endpoint, [&peer] { return peer.transfers == 0; });
  if (status != NP_OK || !peer.unconfirmed) [[likely]]
    return status;
  return confirm_atomics(*endpoint, rank);
}

// Own puts are visible after a flush, and those of all ranks when all have said so.
np_status fence(np_endpoint* endpoint) {
  for (int rank = 0; rank < endpoint->context->nranks; ++rank) {
    if (rank == endpoint->context->rank) continue;
    if (const np_status s = flush(endpoint, rank); s != NP_OK) return s;
  }
  return barrier(endpoint);
}

template <Way way>
np_status start_all(np_endpoint& endpoint, int rank, char* near, size_t near_stride, const np_region& far,
                    size_t offset, size_t far_stride, size_t bytes, np_request* requests, size_t count) {
  const Peer& peer = peer_of(&endpoint, rank);
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i, near += near_stride, offset += far_stride) {
    status = within(endpoint, far, offset, bytes);
    requests[i].word[kState] = kPending;
    requests[i].word[kKind] = kOwned;
    if (status == NP_OK) status = move<way>(endpoint, peer, near, far, offset, bytes, &requests[i]);
    requests[i].word[kPlace] = reinterpret_cast<uint64_t>(&endpoint.transfers);
    requests[i].word[kNumber] = endpoint.transfers.issued;
  }
  return status;
}

np_status iput(np_endpoint* endpoint, int rank, const void* source, size_t near_stride, const np_region* target,
               size_t offset, size_t far_stride, size_t bytes, np_request* requests, size_t count) {
  char* near = static_cast<char*>(const_cast<void*>(source));
  return start_all<Way::put>(*endpoint, rank, near, near_stride, *target, offset, far_stride, bytes, requests, count);
}

np_status iget(np_endpoint* endpoint, int rank, void* target, size_t near_stride, const np_region* source,
               size_t offset, size_t far_stride, size_t bytes, np_request* requests, size_t count) {
  return start_all<Way::get>(*endpoint, rank, static_cast<char*>(target), near_stride, *source, offset, far_stride,
                             bytes, requests, count);
}

// The value travels as remote completion data, with the rank in its upper half.
np_status put_signal(np_endpoint* endpoint, int rank, const void* source, const np_region* target, size_t offset,
                     size_t bytes, uint64_t value) {
  if (!has_signals(*endpoint) || endpoint->counting) {
    return fail(endpoint->context, NP_UNSUPPORTED, "libfabric: %s",
                endpoint->counting ? "completion=counter has no entries that could carry a signal"
                                   : "this provider has no remote completion data of 8 bytes");
  }
  const uint64_t data = uint64_t{static_cast<uint32_t>(endpoint->context->rank)} << 32 | (value & UINT32_MAX);
  return start<Way::put>(*endpoint, rank, const_cast<void*>(source), *target, offset, bytes, FI_REMOTE_CQ_DATA, data);
}

np_status await_signal(np_endpoint* endpoint, int rank, uint64_t* value) {
  Peer& peer = peer_of(endpoint, rank);
  const np_status status = await(*endpoint, [&peer] { return peer.signals_in != peer.signals_out; });
  if (status == NP_OK) *value = peer.signals[peer.signals_out++ % kSignals];
  return status;
}

}  // namespace

np_status within(const np_endpoint& endpoint, const np_region& region, size_t offset, size_t bytes) {
  if (offset <= region.bytes && bytes <= region.bytes - offset) [[likely]]
    return NP_OK;
  return fail(endpoint.context, NP_USAGE,
              "libfabric: %zu bytes at offset %zu are not within the %llu bytes of the region", bytes, offset,
              static_cast<unsigned long long>(region.bytes));
}

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
                                .put_strided = put_strided,
                                .get_strided = get_strided,
                                .atomic = atomic,
                                .accumulate = accumulate,
                                .fetch_accumulate = fetch_accumulate};

np_status open_reach(np_endpoint& endpoint) {
  for (Peer& peer : endpoint.peers) peer.signals.assign(kSignals, 0);
  if (endpoint.type != kMsg || !has_signals(endpoint)) return NP_OK;
  return register_memory(endpoint, endpoint.barrier_word, sizeof endpoint.barrier_word, FI_WRITE | FI_REMOTE_WRITE,
                         endpoint.barrier_memory);
}

// The signals of sockets never came (1.17).
bool has_signals(const np_endpoint& endpoint) {
  return endpoint.reaches && endpoint.name != "sockets" && endpoint.info->domain_attr->cq_data_size >= sizeof(uint64_t);
}

np_status signal_barrier(np_endpoint& endpoint, int rank) {
  const Peer& peer = peer_of(&endpoint, rank);
  Slot* slot = nullptr;
  if (const np_status s = place_for(endpoint, rank, slot); s != NP_OK) return s;
  const iovec part = {endpoint.barrier_word, 1};
  const fi_rma_iov there = {peer.barrier_base, 1, peer.barrier_key};
  void* descriptor = fi_mr_desc(endpoint.barrier_memory.get());
  const uint64_t data = kBarrierSignal | uint64_t{static_cast<uint32_t>(endpoint.context->rank)} << 32;
  void* const context = slot != nullptr ? &slot->request : nullptr;
  const fi_msg_rma message = {&part, &descriptor, 1, peer.at, &there, 1, context, data};
  const uint64_t flags = FI_REMOTE_CQ_DATA | (endpoint.counting ? 0 : FI_COMPLETION);
  ++endpoint.transfers.issued;
  return post(endpoint, "fi_writemsg", [&] { return fi_writemsg(peer.ep, &message, flags); });
}

np_status await_barrier(np_endpoint& endpoint, int rank) {
  Peer& peer = peer_of(&endpoint, rank);
  const np_status status = await(endpoint, [&peer] { return peer.barriers_in != peer.barriers_out; });
  if (status == NP_OK) ++peer.barriers_out;
  return status;
}

}  // namespace netpipe::fabric
