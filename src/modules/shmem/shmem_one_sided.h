/* SPDX-License-Identifier: Apache-2.0
 *
 * Patterns that put and get: shmem_putmem and shmem_getmem into symmetric memory, which has one address on all ranks.
 * A flush is shmem_quiet, a fence is shmem_barrier_all.
 */
#ifndef NETPIPE_SHMEM_ONE_SIDED_H
#define NETPIPE_SHMEM_ONE_SIDED_H

#include "shmem_endpoint.h"

/* All ranks expose the same memory in the same order, so the same piece of the heap has the same number. */
static np_status shmem_expose_memory(np_endpoint* e, void* memory, size_t bytes, np_region* region) {
  const struct piece* const piece = piece_of(e, memory, bytes);
  if (piece == NULL) {
    return fail(e->context, NP_UNSUPPORTED, "peers can reach only symmetric memory, and these messages lie elsewhere");
  }
  const uint64_t key[2] = {(uint64_t)(piece - e->pieces), (uint64_t)((char*)memory - piece->base)};
  *region = (np_region){.base = memory, .bytes = bytes, .key_bytes = sizeof key};
  memcpy(region->key, key, sizeof key);
  return NP_OK;
}

static np_status shmem_attach_memory(np_endpoint* e, int peer, np_region* region) {
  uint64_t key[2] = {PIECES, 0};
  if (region->key_bytes == sizeof key) memcpy(key, region->key, sizeof key);
  const struct piece* const piece = key[0] < PIECES ? &e->pieces[key[0]] : NULL;
  if (piece == NULL || piece->base == NULL || key[1] > piece->bytes || region->bytes > piece->bytes - key[1]) {
    return fail(e->context, NP_FAILED, "rank %d names symmetric memory that rank %d does not have", peer, e->rank);
  }
  region->word[0] = (uint64_t)(uintptr_t)(piece->base + key[1]);
  return NP_OK;
}

static void shmem_withdraw_memory(np_endpoint* e, np_region* region) { (void)e, (void)region; }

static inline char* far_of(const np_region* region, size_t offset) {
  return (char*)(uintptr_t)region->word[0] + offset;
}

static np_status shmem_put_bytes(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset,
                                 size_t bytes) {
  if (UNLIKELY(e->nbi)) {
    shmem_putmem_nbi(far_of(target, offset), source, bytes, peer);
  } else {
    shmem_putmem(far_of(target, offset), source, bytes, peer);
  }
  return NP_OK;
}

static np_status shmem_get_bytes(np_endpoint* e, int peer, void* target, const np_region* source, size_t offset,
                                 size_t bytes) {
  if (UNLIKELY(e->nbi)) {
    shmem_getmem_nbi(target, far_of(source, offset), bytes, peer);
  } else {
    shmem_getmem(target, far_of(source, offset), bytes, peer);
  }
  return NP_OK;
}

static np_status shmem_fence_all(np_endpoint* e) {
  (void)e;
  shmem_barrier_all();
  return NP_OK;
}

static np_status shmem_flush(np_endpoint* e, int peer) {
  (void)e, (void)peer;
  shmem_quiet();
  return NP_OK;
}

/* As a program writes them, one after the other: through shared memory a put and its quiet together take 30 ns. */
#define EACH(call, far_first, near_first, region)                              \
  char* far = far_of(region, offset);                                          \
  for (size_t i = 0; i < count; ++i, near += near_stride, far += far_stride) { \
    call(far_first, near_first, bytes, peer);                                  \
    shmem_quiet();                                                             \
  }                                                                            \
  return NP_OK

static np_status shmem_put_each(np_endpoint* e, int peer, const void* source, size_t near_stride,
                                const np_region* target, size_t offset, size_t far_stride, size_t bytes, size_t count) {
  const char* near = source;
  if (e->nbi) {
    EACH(shmem_putmem_nbi, far, near, target);
  }
  EACH(shmem_putmem, far, near, target);
}

static np_status shmem_get_each(np_endpoint* e, int peer, void* target, size_t near_stride, const np_region* source,
                                size_t offset, size_t far_stride, size_t bytes, size_t count) {
  char* near = target;
  if (e->nbi) {
    EACH(shmem_getmem_nbi, near, far, source);
  }
  EACH(shmem_getmem, near, far, source);
}

/* ---------------------------------------------------------------------------------------------- signals */

static np_status shmem_put_and_signal(np_endpoint* e, int peer, const void* source, const np_region* target,
                                      size_t offset, size_t bytes, uint64_t value) {
  struct pm_ends* const m = &e->messages;
  PM_TRY(pm_signal_room(e, m, peer));
  const uint64_t number = m->peers[peer].signals_out++;
  uint64_t* const far = (uint64_t*)pm_far(e, m, peer, pm_signal_at(m, m->rank, number));
  const uint64_t word = pm_signal_word(number, value);
#if HAVE_PUT_SIGNAL
  shmem_putmem_signal(far_of(target, offset), source, bytes, far, word, SHMEM_SIGNAL_SET, peer);
  return NP_OK;
#else
  if (bytes > 0) shmem_putmem(far_of(target, offset), source, bytes, peer);
  PM_TRY(pm_order(e, peer));
  return pm_word(e, peer, far, word);
#endif
}

static np_status shmem_await_signal(np_endpoint* e, int peer, uint64_t* value) {
  return pm_await_signal(e, &e->messages, peer, value);
}

/* ---------------------------------------------------------------------------------------------- strided */

/* Blocks of 1, 2, 4, 8 or 16 bytes at multiples of that are one call; others are a put each. */
#define STRIDED(WAY, first, second, first_stride, second_stride)                                                 \
  const size_t unit = shape->block_bytes;                                                                        \
  const int even = shape->near_stride % unit == 0 && shape->far_stride % unit == 0;                              \
  const ptrdiff_t tst = (ptrdiff_t)(shape->first_stride / unit), sst = (ptrdiff_t)(shape->second_stride / unit); \
  switch (even ? unit : 0) {                                                                                     \
    case 1: shmem_i##WAY##8(first, second, tst, sst, shape->blocks, peer); return NP_OK;                         \
    case 2: shmem_i##WAY##16(first, second, tst, sst, shape->blocks, peer); return NP_OK;                        \
    case 4: shmem_i##WAY##32(first, second, tst, sst, shape->blocks, peer); return NP_OK;                        \
    case 8: shmem_i##WAY##64(first, second, tst, sst, shape->blocks, peer); return NP_OK;                        \
    case 16: shmem_i##WAY##128(first, second, tst, sst, shape->blocks, peer); return NP_OK;                      \
    default: break;                                                                                              \
  }                                                                                                              \
  for (size_t i = 0; i < shape->blocks; ++i) {                                                                   \
    shmem_##WAY##mem_nbi((char*)(uintptr_t)(first) + i * shape->first_stride,                                    \
                         (const char*)(second) + i * shape->second_stride, unit, peer);                          \
  }                                                                                                              \
  return NP_OK

static np_status shmem_put_strided(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset,
                                   const np_strided* shape) {
  (void)e;
  void* const far = far_of(target, offset);
  STRIDED(put, far, source, far_stride, near_stride);
}

static np_status shmem_get_strided(np_endpoint* e, int peer, void* target, const np_region* source, size_t offset,
                                   const np_strided* shape) {
  (void)e;
  const void* const far = far_of(source, offset);
  STRIDED(get, target, far, near_stride, far_stride);
}

/* ---------------------------------------------------------------------------------------------- atomics */

/* unsigned long has 64 bits; Open MPI has all operations for it, and not for uint64_t. */
_Static_assert(sizeof(unsigned long) == sizeof(uint64_t), "unsigned long has 64 bits");
#define ATOMIC(name, carried_out)                                                                                    \
  static np_status atomic_##name(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t operand, \
                                 uint64_t compare, uint64_t* fetched) {                                              \
    unsigned long* const far = (unsigned long*)(void*)far_of(target, offset);                                        \
    (void)e, (void)operand, (void)compare, (void)fetched;                                                            \
    carried_out;                                                                                                     \
    return NP_OK;                                                                                                    \
  }
ATOMIC(add, shmem_ulong_atomic_add(far, operand, peer))
ATOMIC(fetch_add, *fetched = shmem_ulong_atomic_fetch_add(far, operand, peer))
ATOMIC(swap, *fetched = shmem_ulong_atomic_swap(far, operand, peer))
ATOMIC(compare_swap, *fetched = shmem_ulong_atomic_compare_swap(far, compare, operand, peer))
ATOMIC(fetch, *fetched = shmem_ulong_atomic_fetch(far, peer))
ATOMIC(set, shmem_ulong_atomic_set(far, operand, peer))

static np_atomic_call shmem_atomic(np_endpoint* e, np_atomic what) {
  static const np_atomic_call calls[] = {atomic_add,          atomic_fetch_add, atomic_swap,
                                         atomic_compare_swap, atomic_fetch,     atomic_set};
  (void)e;
  return (unsigned)what < sizeof calls / sizeof *calls ? calls[what] : NULL;
}

#endif
