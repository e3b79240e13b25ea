// SPDX-License-Identifier: Apache-2.0
#include "ucx_one_sided.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ucx_memory.h"
#include "ucx_messages.h"

namespace netpipe::ucx {
namespace {

// np_region.word: what is registered here, the peer's memory as UCX names it, and where that is.
enum RegionWord { kRegistered, kRemoteKey, kRemoteAddress };
constexpr int64_t kSettleNs = 50'000'000;

// ---------------------------------------------------------------------------------------------- regions

// Memory of UCX is known to it already: registered anew it would lose what shares it with the peer.
np_status expose(np_endpoint* e, void* memory, size_t bytes, np_region* region) {
  char* const base = static_cast<char*>(memory);
  const auto own = std::ranges::find_if(e->memory, [&](const Allocation& one) {
    return one.handle != nullptr && base >= one.base && base + bytes <= one.base + one.bytes;
  });
  ucp_mem_h handle = own != e->memory.end() ? own->handle : nullptr;
  const bool registers = handle == nullptr;
  if (registers) {
    if (const np_status s = map_memory(e, memory, bytes, 0, handle); s != NP_OK) return s;
  }
  void* key = nullptr;
  size_t key_bytes = 0;
  const ucs_status_t packed = ucp_rkey_pack(e->library, handle, &key, &key_bytes);
  if (packed != UCS_OK || key_bytes > NP_KEY_BYTES) {
    if (packed == UCS_OK) ucp_rkey_buffer_release(key);
    if (registers) ucp_mem_unmap(e->library, handle);
    if (packed != UCS_OK) return e->failed(packed, "ucp_rkey_pack", -1);
    return fail(e->context, NP_UNSUPPORTED, "ucx: the key of memory has %zu bytes, and netpipe has room for %d",
                key_bytes, NP_KEY_BYTES);
  }
  region->base = memory;
  region->bytes = bytes;
  region->word[kRegistered] = registers ? reinterpret_cast<uint64_t>(handle) : 0;
  region->word[kRemoteKey] = 0;
  std::memcpy(region->key, key, key_bytes);
  region->key_bytes = static_cast<uint32_t>(key_bytes);
  ucp_rkey_buffer_release(key);
  return NP_OK;
}

void withdraw(np_endpoint* e, np_region* region) {
  if (region->word[kRemoteKey] != 0) ucp_rkey_destroy(reinterpret_cast<ucp_rkey_h>(region->word[kRemoteKey]));
  if (region->word[kRegistered] != 0) {
    ucp_mem_unmap(e->library, reinterpret_cast<ucp_mem_h>(region->word[kRegistered]));
  }
  region->word[kRemoteKey] = region->word[kRegistered] = 0;
}

[[gnu::cold]] np_status outside(const np_endpoint* e, int peer, const np_region* region, size_t offset, size_t bytes) {
  return fail(e->context, NP_USAGE,
              "ucx: %zu bytes at offset %zu are not within the %llu bytes of the region of rank %d", bytes, offset,
              static_cast<unsigned long long>(region->bytes), peer);
}
bool inside(const np_region* region, size_t offset, size_t bytes) {
  return offset <= region->bytes && bytes <= region->bytes - offset;
}

// ---------------------------------------------------------------------------------------------- puts and gets

ucs_status_ptr_t start_put(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset,
                           size_t bytes) {
  return ucp_put_nbx(e->to[static_cast<size_t>(peer)], source, bytes, target->word[kRemoteAddress] + offset,
                     reinterpret_cast<ucp_rkey_h>(target->word[kRemoteKey]), &e->message);
}
ucs_status_ptr_t start_get(np_endpoint* e, int peer, void* target, const np_region* source, size_t offset,
                           size_t bytes) {
  return ucp_get_nbx(e->to[static_cast<size_t>(peer)], target, bytes, source->word[kRemoteAddress] + offset,
                     reinterpret_cast<ucp_rkey_h>(source->word[kRemoteKey]), &e->message);
}

np_status put(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset, size_t bytes) {
  if (!inside(target, offset, bytes)) return outside(e, peer, target, offset, bytes);
  return e->leave(start_put(e, peer, source, target, offset, bytes), "a put", peer);
}
np_status get(np_endpoint* e, int peer, void* target, const np_region* source, size_t offset, size_t bytes) {
  if (!inside(source, offset, bytes)) return outside(e, peer, source, offset, bytes);
  return e->leave(start_get(e, peer, target, source, offset, bytes), "a get", peer);
}

np_status iput(np_endpoint* e, int peer, const void* source, size_t near_stride, const np_region* target, size_t offset,
               size_t far_stride, size_t bytes, np_request* requests, size_t count) {
  const char* from = static_cast<const char*>(source);
  for (size_t i = 0; i < count; ++i, from += near_stride, offset += far_stride) {
    if (!inside(target, offset, bytes)) return outside(e, peer, target, offset, bytes);
    begin(requests[i], start_put(e, peer, from, target, offset, bytes));
  }
  return NP_OK;
}
np_status iget(np_endpoint* e, int peer, void* target, size_t near_stride, const np_region* source, size_t offset,
               size_t far_stride, size_t bytes, np_request* requests, size_t count) {
  char* into = static_cast<char*>(target);
  for (size_t i = 0; i < count; ++i, into += near_stride, offset += far_stride) {
    if (!inside(source, offset, bytes)) return outside(e, peer, source, offset, bytes);
    begin(requests[i], start_get(e, peer, into, source, offset, bytes));
  }
  return NP_OK;
}

np_status flush(np_endpoint* e, int peer) {
  return e->finish(ucp_ep_flush_nbx(e->to[static_cast<size_t>(peer)], &e->plain), "a flush", peer);
}

np_status put_each(np_endpoint* e, int peer, const void* source, size_t near_stride, const np_region* target,
                   size_t offset, size_t far_stride, size_t bytes, size_t count) {
  const char* from = static_cast<const char*>(source);
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i, from += near_stride, offset += far_stride) {
    status = put(e, peer, from, target, offset, bytes);
    if (status == NP_OK) status = flush(e, peer);
  }
  return status;
}
// A get has arrived when it is complete, so waiting for it is its flush.
np_status get_each(np_endpoint* e, int peer, void* target, size_t near_stride, const np_region* source, size_t offset,
                   size_t far_stride, size_t bytes, size_t count) {
  char* into = static_cast<char*>(target);
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i, into += near_stride, offset += far_stride) {
    if (!inside(source, offset, bytes)) return outside(e, peer, source, offset, bytes);
    status = e->finish(start_get(e, peer, into, source, offset, bytes), "a get", peer);
  }
  return status;
}

np_status fence(np_endpoint* e) {
  const np_status status = e->finish(ucp_worker_flush_nbx(e->worker, &e->plain), "a flush of all ranks", -1);
  return status == NP_OK ? barrier(e) : status;
}

// Ends what begun started. What UCX refuses at once is for the pattern that needs it to say.
np_status finish_if_begun(np_endpoint* e, ucs_status_ptr_t begun, const char* what, int peer) {
  return UCS_PTR_IS_ERR(begun) ? NP_OK : e->finish(begun, what, peer);
}

// The first byte of the region comes here and goes back: newer versions choose the protocols of an operation when it is
// first used, and describe() tells of them. Over some transports a rank helps its peer only while it waits, so all of
// them meet then.
np_status greet(np_endpoint* e, int peer, const np_region* region, char* byte) {
  np_status status = finish_if_begun(e, start_get(e, peer, byte, region, 0, 1), "the first get", peer);
  if (status == NP_OK) status = finish_if_begun(e, start_put(e, peer, byte, region, 0, 1), "the first put", peer);
  return status == NP_OK ? fence(e) : status;
}

// The first time all ranks call it, when they open. Later some may do so alone (pattern atomic).
np_status attach(np_endpoint* e, int peer, np_region* region) {
  ucp_rkey_h key = nullptr;
  const ucs_status_t unpacked = ucp_ep_rkey_unpack(e->to[static_cast<size_t>(peer)], region->key, &key);
  if (unpacked != UCS_OK) return e->failed(unpacked, "ucp_ep_rkey_unpack", peer);
  region->word[kRegistered] = 0;
  region->word[kRemoteKey] = reinterpret_cast<uint64_t>(key);
  region->word[kRemoteAddress] = reinterpret_cast<uint64_t>(region->base);
  if (std::exchange(e->greeted_memory, true)) return NP_OK;
  const np_status status = with_scratch(e, [&](char* byte) { return greet(e, peer, region, byte); });
  if (status != NP_OK) withdraw(e, region);
  return status;
}

// UCX orders a message behind a put only by a flush between the two.
np_status put_signal(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset, size_t bytes,
                     uint64_t value) {
  np_status status = put(e, peer, source, target, offset, bytes);
  if (status == NP_OK) status = flush(e, peer);
  if (status != NP_OK) return status;
  return e->finish(ucp_am_send_nbx(e->to[static_cast<size_t>(peer)], signal_number(e, e->context->rank), nullptr, 0,
                                   &value, sizeof value, &e->plain),
                   "a signal", peer);
}

// ---------------------------------------------------------------------------------------------- atomics

template <ucp_atomic_op_t What>
np_status fetching(np_endpoint* e, int peer, const np_region* target, size_t offset, const uint64_t* operand,
                   uint64_t* reply) {
  if (!inside(target, offset, sizeof *reply)) return outside(e, peer, target, offset, sizeof *reply);
  e->atomic.reply_buffer = reply;
  return e->finish(
      ucp_atomic_op_nbx(e->to[static_cast<size_t>(peer)], What, operand, 1, target->word[kRemoteAddress] + offset,
                        reinterpret_cast<ucp_rkey_h>(target->word[kRemoteKey]), &e->atomic),
      "an atomic", peer);
}

np_status fetch_add(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t operand, uint64_t,
                    uint64_t* fetched) {
  return fetching<UCP_ATOMIC_OP_ADD>(e, peer, target, offset, &operand, fetched);
}
np_status swap(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t operand, uint64_t,
               uint64_t* fetched) {
  return fetching<UCP_ATOMIC_OP_SWAP>(e, peer, target, offset, &operand, fetched);
}
// UCX takes what is to be stored from where the answer goes.
np_status compare_swap(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t operand,
                       uint64_t compare, uint64_t* fetched) {
  *fetched = operand;
  return fetching<UCP_ATOMIC_OP_CSWAP>(e, peer, target, offset, &compare, fetched);
}
np_status fetch(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t, uint64_t,
                uint64_t* fetched) {
  const uint64_t nothing = 0;
  return fetching<UCP_ATOMIC_OP_ADD>(e, peer, target, offset, &nothing, fetched);
}

np_status add(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t operand, uint64_t, uint64_t*) {
  if (!inside(target, offset, sizeof operand)) return outside(e, peer, target, offset, sizeof operand);
  return e->leave(ucp_atomic_op_nbx(e->to[static_cast<size_t>(peer)], UCP_ATOMIC_OP_ADD, &operand, 1,
                                    target->word[kRemoteAddress] + offset,
                                    reinterpret_cast<ucp_rkey_h>(target->word[kRemoteKey]), &e->atomic_post),
                  "an atomic", peer);
}
// A swap whose answer nobody reads: UCX has no other atomic that stores.
np_status set(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t operand, uint64_t, uint64_t*) {
  if (!inside(target, offset, sizeof operand)) return outside(e, peer, target, offset, sizeof operand);
  e->atomic.reply_buffer = &e->dropped;
  return e->leave(ucp_atomic_op_nbx(e->to[static_cast<size_t>(peer)], UCP_ATOMIC_OP_SWAP, &operand, 1,
                                    target->word[kRemoteAddress] + offset,
                                    reinterpret_cast<ucp_rkey_h>(target->word[kRemoteKey]), &e->atomic),
                  "an atomic", peer);
}

np_atomic_call atomic(np_endpoint* e, np_atomic what) {
  if (e->on_device) {  // where no hardware does it, the processor of the target would follow the address
    fail(e->context, NP_UNSUPPORTED, "ucx: memory=cuda has no atomics: they are on words in memory of the host");
    return nullptr;
  }
  switch (what) {
    case NP_ATOMIC_FETCH_ADD: return fetch_add;
    case NP_ATOMIC_ADD: return add;
    case NP_ATOMIC_SWAP: return swap;
    case NP_ATOMIC_COMPARE_SWAP: return compare_swap;
    case NP_ATOMIC_FETCH: return fetch;
    case NP_ATOMIC_SET: return set;
    default: return nullptr;
  }
}

}  // namespace

void settle(np_endpoint* e) {
  if (e->broken) return;
  ucs_status_ptr_t begun = ucp_worker_flush_nbx(e->worker, &e->plain);
  if (begun == nullptr || UCS_PTR_IS_ERR(begun)) return;
  const int64_t end_ns = now_ns() + kSettleNs;
  while (ucp_request_check_status(begun) == UCS_INPROGRESS && *e->context->abort == 0 && now_ns() < end_ns) {
    if (ucp_worker_progress(e->worker) == 0) sched_yield();
  }
  ucp_request_free(begun);
}

const np_one_sided kOneSided = {
    .size = sizeof(np_one_sided),
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
    .atomic = atomic,
    .put_each = put_each,
    .get_each = get_each,
};

}  // namespace netpipe::ucx
