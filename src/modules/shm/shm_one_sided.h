// SPDX-License-Identifier: Apache-2.0
// One-sided operations of shm: copies into and out of memory that the peer has mapped, or through the kernel, whole or
// in blocks that lie apart; processor instructions on a word of it; and a value behind a put.
//
// A put, a get and an atomic operation are done when they return, so a flush is a fence instruction.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kit/blocks.h"
#include "netpipe/module.h"
#include "shm_endpoint.h"

namespace netpipe::shm {

struct Key {  // np_region.key
  Place place;
  std::uint64_t bytes;
};
static_assert(sizeof(Key) <= NP_KEY_BYTES);
enum RegionWord { kRegionLocal, kRegionRemote };  // attached: where it is mapped here (or 0), and where it is there

// Messages with any rank; nullptr: they could not be begun, with a sentence. In shm.cpp.
Messages* link_to(np_endpoint* e, int peer);

inline np_status expose(np_endpoint* e, void* memory, size_t bytes, np_region* region) {
  const Key key{e->memory.place(memory, bytes), bytes};
  *region = {};
  region->base = memory;
  region->bytes = bytes;
  region->key_bytes = sizeof key;
  std::memcpy(region->key, &key, sizeof key);
  return NP_OK;
}

inline np_status attach(np_endpoint* e, int peer, np_region* region) {
  Messages* const messages = link_to(e, peer);
  if (messages == nullptr) return NP_NO_MEMORY;
  Key key;
  std::memcpy(&key, region->key, sizeof key);
  unsigned char* mapped = messages->memory.reach(key.place, key.bytes);
  if (mapped == nullptr && !e->settings.cma) {
    return e->peer.fail(NP_UNAVAILABLE,
                        "the memory of rank %d can neither be mapped nor reached through the kernel: %s", peer,
                        e->cma_reason.c_str());
  }
  region->base = reinterpret_cast<void*>(key.place.address);
  region->bytes = key.bytes;
  region->word[kRegionLocal] = reinterpret_cast<std::uintptr_t>(mapped);
  region->word[kRegionRemote] = key.place.address;
  return NP_OK;
}

inline void withdraw(np_endpoint*, np_region*) {}  // an allocation stays mapped until its owner frees it

[[gnu::cold]] inline np_status outside(const np_endpoint* e, int peer, const np_region* region, size_t offset,
                                       size_t bytes) {
  return e->peer.fail(NP_USAGE, "%zu bytes at offset %zu are not within the %llu bytes of the region of rank %d", bytes,
                      offset, static_cast<unsigned long long>(region->bytes), peer);
}

// ---------------------------------------------------------------------------------------------- bytes

inline np_status put(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset,
                     size_t bytes) {
  if (offset > target->bytes || bytes > target->bytes - offset) return outside(e, peer, target, offset, bytes);
  if (target->word[kRegionLocal] != 0) {
    std::memcpy(reinterpret_cast<unsigned char*>(target->word[kRegionLocal]) + offset, source, bytes);
    return NP_OK;
  }
  const int reason =
      copy_to_process(e->pids[static_cast<std::size_t>(peer)], target->word[kRegionRemote] + offset, source, bytes);
  return reason == 0 ? NP_OK : e->links[static_cast<std::size_t>(peer)]->kernel_refused(reason, "writing to");
}

inline np_status get(np_endpoint* e, int peer, void* target, const np_region* source, size_t offset, size_t bytes) {
  if (offset > source->bytes || bytes > source->bytes - offset) return outside(e, peer, source, offset, bytes);
  if (source->word[kRegionLocal] != 0) {
    std::memcpy(target, reinterpret_cast<const unsigned char*>(source->word[kRegionLocal]) + offset, bytes);
    return NP_OK;
  }
  const int reason =
      copy_from_process(e->pids[static_cast<std::size_t>(peer)], target, source->word[kRegionRemote] + offset, bytes);
  return reason == 0 ? NP_OK : e->links[static_cast<std::size_t>(peer)]->kernel_refused(reason, "reading from");
}

// Blocks that lie apart. Memory that only the kernel reaches takes a call for each of them.
inline np_status put_strided(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset,
                             const np_strided* shape) {
  const std::uint64_t bytes = kit::extent(*shape, shape->far_stride);
  if (offset > target->bytes || bytes > target->bytes - offset) return outside(e, peer, target, offset, bytes);
  if (target->word[kRegionLocal] != 0) {
    kit::copy_blocks(reinterpret_cast<unsigned char*>(target->word[kRegionLocal]) + offset, shape->far_stride, source,
                     shape->near_stride, *shape);
    return NP_OK;
  }
  np_status s = NP_OK;
  for (std::uint64_t i = 0; i < shape->blocks && s == NP_OK; ++i) {
    const auto* const block = static_cast<const unsigned char*>(source) + i * shape->near_stride;
    s = put(e, peer, block, target, offset + i * shape->far_stride, shape->block_bytes);
  }
  return s;
}

inline np_status get_strided(np_endpoint* e, int peer, void* target, const np_region* source, size_t offset,
                             const np_strided* shape) {
  const std::uint64_t bytes = kit::extent(*shape, shape->far_stride);
  if (offset > source->bytes || bytes > source->bytes - offset) return outside(e, peer, source, offset, bytes);
  if (source->word[kRegionLocal] != 0) {
    kit::copy_blocks(target, shape->near_stride,
                     reinterpret_cast<const unsigned char*>(source->word[kRegionLocal]) + offset, shape->far_stride,
                     *shape);
    return NP_OK;
  }
  np_status s = NP_OK;
  for (std::uint64_t i = 0; i < shape->blocks && s == NP_OK; ++i) {
    auto* const block = static_cast<unsigned char*>(target) + i * shape->near_stride;
    s = get(e, peer, block, source, offset + i * shape->far_stride, shape->block_bytes);
  }
  return s;
}

// The fence puts what this process has written before whatever it publishes next.
inline np_status flush(np_endpoint*, int) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return NP_OK;
}

// ---------------------------------------------------------------------------------------------- a value behind a put

inline np_status put_signal(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset,
                            size_t bytes, uint64_t value) {
  Messages* const messages = peer == e->opposite ? &e->messages : link_to(e, peer);
  if (messages == nullptr) return NP_NO_MEMORY;
  if (const np_status status = put(e, peer, source, target, offset, bytes); status != NP_OK) return status;
  if (!messages->signals.room()) [[unlikely]] {
    const np_status status = messages->work_until([messages] { return messages->signals.room(); });
    if (status != NP_OK) return status;
  }
  messages->signals.send(value);
  messages->waiter.ring();
  return NP_OK;
}

inline np_status await_signal(np_endpoint* e, int peer, uint64_t* value) {
  Messages* const messages = peer == e->opposite ? &e->messages : link_to(e, peer);
  if (messages == nullptr) return NP_NO_MEMORY;
  if (!messages->waiter.only_looks() || !messages->see([messages] { return messages->signals.there(); })) {
    const np_status status = messages->work_until([messages] { return messages->signals.there(); });
    if (status != NP_OK) return status;
  }
  if (messages->signals.take(value)) messages->waiter.ring();
  return NP_OK;
}

// ---------------------------------------------------------------------------------------------- atomic operations

[[gnu::cold]] inline np_status no_word(const np_endpoint* e, int peer, const np_region* target, size_t offset,
                                       size_t bytes) {
  if (offset > target->bytes || bytes > target->bytes - offset) return outside(e, peer, target, offset, bytes);
  if (offset % alignof(std::uint64_t) != 0) {
    return e->peer.fail(NP_USAGE, "an atomic operation at offset %zu, which is no multiple of 8", offset);
  }
  return e->peer.fail(NP_UNSUPPORTED, "atomic operations need memory that is mapped, and that of rank %d is not", peer);
}

// The first of so many words or numbers of 8 bytes; nullptr: no_word says why there are none.
template <typename Number>
Number* numbers_at(const np_region* target, size_t offset, size_t bytes) {
  static_assert(sizeof(Number) == sizeof(std::uint64_t));
  const bool good = target->word[kRegionLocal] != 0 && offset % sizeof(Number) == 0 && offset <= target->bytes &&
                    bytes <= target->bytes - offset;
  return good ? reinterpret_cast<Number*>(target->word[kRegionLocal] + offset) : nullptr;
}

template <np_atomic what>
np_status operate(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t operand, uint64_t compare,
                  uint64_t* fetched) {
  auto* const place = numbers_at<std::uint64_t>(target, offset, sizeof(std::uint64_t));
  if (place == nullptr) [[unlikely]]
    return no_word(e, peer, target, offset, sizeof(std::uint64_t));
  const std::atomic_ref word(*place);
  if constexpr (what == NP_ATOMIC_ADD) word.fetch_add(operand);
  if constexpr (what == NP_ATOMIC_FETCH_ADD) *fetched = word.fetch_add(operand);
  if constexpr (what == NP_ATOMIC_SWAP) *fetched = word.exchange(operand);
  if constexpr (what == NP_ATOMIC_COMPARE_SWAP) {
    word.compare_exchange_strong(compare, operand);
    *fetched = compare;
  }
  if constexpr (what == NP_ATOMIC_FETCH) *fetched = word.load();
  if constexpr (what == NP_ATOMIC_SET) word.store(operand, std::memory_order_release);  // a flush is the fence
  return NP_OK;
}

inline np_atomic_call atomic(np_endpoint*, np_atomic what) {
  switch (what) {
    case NP_ATOMIC_ADD: return operate<NP_ATOMIC_ADD>;
    case NP_ATOMIC_FETCH_ADD: return operate<NP_ATOMIC_FETCH_ADD>;
    case NP_ATOMIC_SWAP: return operate<NP_ATOMIC_SWAP>;
    case NP_ATOMIC_COMPARE_SWAP: return operate<NP_ATOMIC_COMPARE_SWAP>;
    case NP_ATOMIC_FETCH: return operate<NP_ATOMIC_FETCH>;
    case NP_ATOMIC_SET: return operate<NP_ATOMIC_SET>;
  }
  return nullptr;
}

// Each number by itself is atomic, as in MPI: two ranks may add to the same ones.
inline np_status accumulate(np_endpoint* e, int peer, const double* source, const np_region* target, size_t offset,
                            size_t count) {
  auto* const numbers = numbers_at<double>(target, offset, count * sizeof(double));
  if (numbers == nullptr) [[unlikely]]
    return no_word(e, peer, target, offset, count * sizeof(double));
  for (std::size_t i = 0; i < count; ++i) {
    std::atomic_ref(numbers[i]).fetch_add(source[i], std::memory_order_relaxed);
  }
  return NP_OK;
}
inline np_status fetch_accumulate(np_endpoint* e, int peer, const double* source, double* result,
                                  const np_region* target, size_t offset, size_t count) {
  auto* const numbers = numbers_at<double>(target, offset, count * sizeof(double));
  if (numbers == nullptr) [[unlikely]]
    return no_word(e, peer, target, offset, count * sizeof(double));
  for (std::size_t i = 0; i < count; ++i) {
    result[i] = std::atomic_ref(numbers[i]).fetch_add(source[i], std::memory_order_relaxed);
  }
  return NP_OK;
}

}  // namespace netpipe::shm
