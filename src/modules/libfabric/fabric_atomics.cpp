// SPDX-License-Identifier: Apache-2.0
// Atomics are operations of the provider on one 64-bit integer, or on doubles. One that fetches is waited for; one that
// does not is on its way when the call returns, and complete when it was delivered, for flush to wait for.
//
// The provider shm of libfabric 1.17 frees a buffer twice after an atomic that is to be complete when delivered: sums
// are wrong with two in flight, and so are messages later on. There, such an atomic is complete when it is on its way,
// and flush sends one that fetches behind it, which is carried out after it (FI_ORDER_ATOMIC_RAW).
#include "fabric_atomics.h"

#include <rdma/fi_atomic.h>

#include <algorithm>
#include <cstring>

#include "fabric_memory.h"
#include "fabric_progress.h"
#include "fabric_reach.h"

namespace netpipe::fabric {
namespace {

Peer& peer_of(np_endpoint& endpoint, int rank) { return endpoint.peers[static_cast<size_t>(rank)]; }

// The flags of an atomic that does not fetch.
uint64_t leave(const np_endpoint& endpoint, Peer& peer, const fi_rma_ioc& there) {
  if (!endpoint.confirms) return FI_COMPLETION | FI_DELIVERY_COMPLETE;
  peer.unconfirmed = true;
  peer.unconfirmed_base = there.addr;
  peer.unconfirmed_key = there.key;
  return FI_COMPLETION;
}

constexpr bool kFetches[] = {false, true, true, true, true, false};
constexpr fi_op kOps[] = {FI_SUM, FI_SUM, FI_ATOMIC_WRITE, FI_CSWAP, FI_ATOMIC_READ, FI_ATOMIC_WRITE};

template <np_atomic what>
np_status atomic_call(np_endpoint* endpoint, int rank, const np_region* target, size_t offset, uint64_t operand,
                      uint64_t compare, uint64_t* fetched) {
  if (const np_status s = within(*endpoint, *target, offset, sizeof operand); s != NP_OK) return s;
  Peer& peer = peer_of(*endpoint, rank);
  Slot* slot = nullptr;
  if (const np_status s = new_slot(*endpoint, rank, slot); s != NP_OK) return s;
  slot->operand = operand;
  slot->compare = compare;
  fi_ioc near = {&slot->operand, 1}, other = {&slot->compare, 1};
  fi_ioc back = {&slot->compare, 1};  // of CSWAP: fetched into memory of its own
  uint64_t before = 0;
  if constexpr (what == NP_ATOMIC_COMPARE_SWAP) back.addr = &slot->header;
  fi_rma_ioc there = {target->word[kBase] + offset, 1, target->word[kKey]};
  void* own = descriptor_of(*endpoint, slot, sizeof *slot);
  const fi_msg_atomic message = {&near, &own, 1, peer.at, &there, 1, FI_UINT64, kOps[what], &slot->request, 0};
  const uint64_t flags = kFetches[what] ? FI_COMPLETION : leave(*endpoint, peer, there);
  ++endpoint->transfers.issued;
  const np_status status = post(*endpoint, "an atomic operation", [&]() -> ssize_t {
    if constexpr (what == NP_ATOMIC_COMPARE_SWAP) {
      return fi_compare_atomicmsg(peer.ep, &message, &other, &own, 1, &back, &own, 1, flags);
    } else if constexpr (kFetches[what]) {
      return fi_fetch_atomicmsg(peer.ep, &message, &back, &own, 1, flags);
    } else {
      return fi_atomicmsg(peer.ep, &message, flags);
    }
  });
  if (status != NP_OK || !kFetches[what]) return status;
  const np_status ended = await(*endpoint, [slot] { return slot->request.word[kState] == kDone; });
  if (ended != NP_OK) return ended;
  std::memcpy(&before, back.addr, sizeof before);  // nobody has taken the slot yet
  *fetched = before;
  return NP_OK;
}

// Whether the provider has it for one 64-bit integer.
bool has(const np_endpoint& endpoint, np_atomic what) {
  fid_ep* const ep = endpoint.peers[endpoint.context->rank == 0 ? 1 : 0].ep;
  if (!endpoint.atomics || !endpoint.delivers || ep == nullptr || endpoint.counting) return false;
  size_t count = 0;
  const fi_op op = kOps[what];
  const int code = what == NP_ATOMIC_COMPARE_SWAP ? fi_compare_atomicvalid(ep, FI_UINT64, op, &count)
                   : kFetches[what]               ? fi_fetch_atomicvalid(ep, FI_UINT64, op, &count)
                                                  : fi_atomicvalid(ep, FI_UINT64, op, &count);
  return code == 0 && count >= 1;
}

// How many doubles the provider takes in one operation; 0: it has none.
template <bool fetches>
size_t most_doubles(const np_endpoint& endpoint, const Peer& peer) {
  if (!endpoint.atomics || endpoint.counting) return 0;
  size_t most = 0;
  const int code = fetches ? fi_fetch_atomicvalid(peer.ep, FI_DOUBLE, FI_SUM, &most)
                           : fi_atomicvalid(peer.ep, FI_DOUBLE, FI_SUM, &most);
  return code == 0 ? most : 0;
}

// In as many operations as the provider needs for it. One that fetches is complete when its result is here.
template <bool fetches>
np_status add_doubles(np_endpoint& endpoint, int rank, const double* source, double* result, const np_region& target,
                      size_t offset, size_t count) {
  Peer& peer = peer_of(endpoint, rank);
  const size_t most = most_doubles<fetches>(endpoint, peer), bytes = count * sizeof(double);
  if (most == 0) {
    return fail(endpoint.context, NP_UNSUPPORTED, "libfabric: provider %s with these settings %s",
                endpoint.name.c_str(), fetches ? "does not fetch the doubles that it adds to" : "adds no doubles");
  }
  if (const np_status s = within(endpoint, target, offset, bytes); s != NP_OK) return s;
  void* own = descriptor_of(endpoint, source, bytes);
  void* fetched = fetches ? descriptor_of(endpoint, result, bytes) : nullptr;
  for (size_t done = 0; done < count;) {
    const size_t part = std::min(most, count - done);
    Slot* slot = nullptr;
    if (const np_status s = new_slot(endpoint, rank, slot); s != NP_OK) return s;
    const fi_ioc near = {const_cast<double*>(source + done), part};
    const fi_rma_ioc there = {target.word[kBase] + offset + done * sizeof(double), part, target.word[kKey]};
    const fi_msg_atomic message = {&near, &own, 1, peer.at, &there, 1, FI_DOUBLE, FI_SUM, &slot->request, 0};
    np_status s = NP_OK;
    if constexpr (fetches) {
      fi_ioc back = {result + done, part};
      s = post(endpoint, "fi_fetch_atomicmsg",
               [&] { return fi_fetch_atomicmsg(peer.ep, &message, &back, &fetched, 1, FI_COMPLETION); });
    } else {
      const uint64_t flags = leave(endpoint, peer, there);
      s = post(endpoint, "fi_atomicmsg", [&] { return fi_atomicmsg(peer.ep, &message, flags); });
    }
    if (s != NP_OK) return s;
    done += part;
  }
  return NP_OK;
}

}  // namespace

np_atomic_call atomic(np_endpoint* endpoint, np_atomic what) {
  if (!has(*endpoint, what)) return nullptr;
  switch (what) {
    case NP_ATOMIC_ADD: return atomic_call<NP_ATOMIC_ADD>;
    case NP_ATOMIC_FETCH_ADD: return atomic_call<NP_ATOMIC_FETCH_ADD>;
    case NP_ATOMIC_SWAP: return atomic_call<NP_ATOMIC_SWAP>;
    case NP_ATOMIC_COMPARE_SWAP: return atomic_call<NP_ATOMIC_COMPARE_SWAP>;
    case NP_ATOMIC_FETCH: return atomic_call<NP_ATOMIC_FETCH>;
    case NP_ATOMIC_SET: return atomic_call<NP_ATOMIC_SET>;
  }
  return nullptr;
}

np_status accumulate(np_endpoint* endpoint, int rank, const double* source, const np_region* target, size_t offset,
                     size_t count) {
  return add_doubles<false>(*endpoint, rank, source, nullptr, *target, offset, count);
}

np_status fetch_accumulate(np_endpoint* endpoint, int rank, const double* source, double* result,
                           const np_region* target, size_t offset, size_t count) {
  return add_doubles<true>(*endpoint, rank, source, result, *target, offset, count);
}

np_status confirm_atomics(np_endpoint& endpoint, int rank) {
  Peer& peer = peer_of(endpoint, rank);
  Slot* slot = nullptr;
  if (const np_status s = new_slot(endpoint, rank, slot); s != NP_OK) return s;
  fi_ioc near = {&slot->operand, 1}, back = {&slot->compare, 1};
  const fi_rma_ioc there = {peer.unconfirmed_base, 1, peer.unconfirmed_key};
  void* own = descriptor_of(endpoint, slot, sizeof *slot);
  const fi_msg_atomic message = {&near, &own, 1, peer.at, &there, 1, FI_UINT64, FI_ATOMIC_READ, &slot->request, 0};
  const np_status status = post(endpoint, "fi_fetch_atomicmsg",
                                [&] { return fi_fetch_atomicmsg(peer.ep, &message, &back, &own, 1, FI_COMPLETION); });
  if (status != NP_OK) return status;
  peer.unconfirmed = false;
  return await(endpoint, [&peer] { return peer.transfers == 0; });
}

}  // namespace netpipe::fabric
