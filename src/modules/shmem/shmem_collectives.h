/* SPDX-License-Identifier: Apache-2.0
 *
 * Collective operations over all ranks: the active sets of OpenSHMEM 1.4. Elements have 4 or 8 bytes; blocks of another
 * size are copied into longer ones and back, as a program would have to. Every rank has the result of a reduction, and
 * none is non-blocking.
 *
 * The places for synchronisation must not be used again before all ranks have left the operation that used them. An
 * operation in which every rank waits for every other proves that for the one before; a broadcast does not, so there
 * are many places, and a barrier before the first is used again.
 */
#ifndef NETPIPE_SHMEM_COLLECTIVES_H
#define NETPIPE_SHMEM_COLLECTIVES_H

#include <limits.h>

#include "shmem_endpoint.h"

struct planned {
  size_t count; /* elements of 4 or 8 bytes */
  int root;
  int in_place;
  ptrdiff_t stride; /* of alltoalls, in elements */
  void* work;       /* of reductions, and for blocks that are made longer; in symmetric memory */
  /* of the latter: */
  np_collective_call inner;
  size_t bytes, padded; /* of a block */
  int blocks_in, blocks_out;
};

/* The longest that any collective of the standard asks for. */
#define SYNC_LONGS SHMEM_SYNC_SIZE

static inline long* next_sync(np_endpoint* e) {
  if (UNLIKELY(++e->sync_turn % SYNCS == 0)) shmem_barrier_all();
  return e->syncs + (size_t)(e->sync_turn % SYNCS) * SYNC_LONGS;
}

static COLD np_status not_symmetric(const np_endpoint* e) {
  return fail(e->context, NP_UNSUPPORTED, "collectives need symmetric memory, and these messages lie elsewhere");
}

static inline int is_symmetric(const np_endpoint* e, const void* memory) {
  const char* const at = memory;
  return piece_of(e, memory, 1) != NULL ||
         (e->work.base != NULL && at >= e->work.base && at < e->work.base + e->work.bytes);
}

#define COLLECTIVE(name, carried_out)                                                                                \
  static np_status coll_##name(np_endpoint* e, void* state, const void* source, void* target, np_request* request) { \
    const struct planned* const p = state;                                                                           \
    (void)request;                                                                                                   \
    if (p->in_place) source = target;                                                                                \
    if (UNLIKELY(!is_symmetric(e, target) || (source != NULL && !is_symmetric(e, source)))) {                        \
      return not_symmetric(e);                                                                                       \
    }                                                                                                                \
    carried_out;                                                                                                     \
    return NP_OK;                                                                                                    \
  }
#define ALL 0, 0, e->nranks
COLLECTIVE(bcast32, shmem_broadcast32(target, source, p->count, p->root, ALL, next_sync(e)))
COLLECTIVE(bcast64, shmem_broadcast64(target, source, p->count, p->root, ALL, next_sync(e)))
COLLECTIVE(allgather32, shmem_fcollect32(target, source, p->count, ALL, next_sync(e)))
COLLECTIVE(allgather64, shmem_fcollect64(target, source, p->count, ALL, next_sync(e)))
COLLECTIVE(allgatherv32, shmem_collect32(target, source, p->count, ALL, next_sync(e)))
COLLECTIVE(allgatherv64, shmem_collect64(target, source, p->count, ALL, next_sync(e)))
COLLECTIVE(alltoall32, shmem_alltoall32(target, source, p->count, ALL, next_sync(e)))
COLLECTIVE(alltoall64, shmem_alltoall64(target, source, p->count, ALL, next_sync(e)))
COLLECTIVE(alltoalls32, shmem_alltoalls32(target, source, p->stride, p->stride, p->count, ALL, next_sync(e)))
COLLECTIVE(alltoalls64, shmem_alltoalls64(target, source, p->stride, p->stride, p->count, ALL, next_sync(e)))

static np_status coll_barrier(np_endpoint* e, void* state, const void* source, void* target, np_request* request) {
  (void)e, (void)state, (void)source, (void)target, (void)request;
  shmem_barrier_all();
  return NP_OK;
}

/* Each reduction of each type: shmem_double_sum_to_all and so on. */
#define REDUCTION(kind, what)                                                                                      \
  COLLECTIVE(kind##_##what,                                                                                        \
             shmem_##kind##_##what##_to_all((kind##_element*)target, (const kind##_element*)source, (int)p->count, \
                                            ALL, (kind##_element*)p->work, next_sync(e)))
#define REDUCTIONS(kind) REDUCTION(kind, sum) REDUCTION(kind, min) REDUCTION(kind, max) REDUCTION(kind, prod)
#define BITWISE(kind) REDUCTION(kind, and) REDUCTION(kind, or) REDUCTION(kind, xor)
typedef int int_element;
typedef long long longlong_element;
typedef float float_element;
typedef double double_element;
REDUCTIONS(int)
REDUCTIONS(longlong)
REDUCTIONS(float)
REDUCTIONS(double)
BITWISE(int)
BITWISE(longlong)

/* By datatype and reduction; NULL: the standard has none. */
#define ROW(kind) coll_##kind##_sum, coll_##kind##_min, coll_##kind##_max, coll_##kind##_prod
#define WHOLE_ROW(kind) {ROW(kind), coll_##kind##_and, coll_##kind##_or, coll_##kind##_xor}
static const np_collective_call reductions[][NP_XOR + 1] = {[NP_INT32] = WHOLE_ROW(int),
                                                            [NP_INT64] = WHOLE_ROW(longlong),
                                                            [NP_FLOAT] = {ROW(float)},
                                                            [NP_DOUBLE] = {ROW(double)}};

static size_t element_bytes(uint32_t datatype) {
  static const size_t bytes[] = {[NP_BYTE] = 1, [NP_INT32] = 4, [NP_INT64] = 8, [NP_FLOAT] = 4, [NP_DOUBLE] = 8};
  return datatype < sizeof bytes / sizeof *bytes ? bytes[datatype] : 0;
}

/* What moves bytes: for elements of 4, and of 8. */
static const np_collective_call* movers(uint32_t what) {
  static const np_collective_call bcast[] = {coll_bcast32, coll_bcast64};
  static const np_collective_call allgather[] = {coll_allgather32, coll_allgather64};
  static const np_collective_call allgatherv[] = {coll_allgatherv32, coll_allgatherv64};
  static const np_collective_call alltoall[] = {coll_alltoall32, coll_alltoall64};
  switch (what) {
    case NP_BCAST: return bcast;
    case NP_ALLGATHER: return allgather;
    case NP_ALLGATHERV: return allgatherv;
    case NP_ALLTOALL: return alltoall;
    default: return NULL;
  }
}

static COLD np_status no_room(const np_endpoint* e, size_t bytes) {
  return fail(e->context, NP_NO_MEMORY, "the symmetric heap has no room for %zu bytes of a collective: give heap=SIZE",
              bytes);
}

static np_status coll_padded(np_endpoint* e, void* state, const void* source, void* target, np_request* request) {
  struct planned* const p = state;
  char *const near = p->work, *const far = near + (size_t)p->blocks_in * p->padded;
  e->work = (struct piece){near, (size_t)(p->blocks_in + p->blocks_out) * p->padded};
  const int sends = p->blocks_out > 1 || e->rank == p->root; /* of a broadcast only the root does */
  for (int i = 0; i < p->blocks_in && sends; ++i) {
    memcpy(near + (size_t)i * p->padded, (const char*)source + (size_t)i * p->bytes, p->bytes);
  }
  PM_TRY(p->inner(e, state, near, far, request));
  for (int i = 0; i < p->blocks_out && (p->blocks_out > 1 || !sends); ++i) {
    memcpy((char*)target + (size_t)i * p->bytes, far + (size_t)i * p->padded, p->bytes);
  }
  return NP_OK;
}

static np_status plan_padded(np_endpoint* e, uint32_t what, size_t bytes, struct planned* p, np_collective_call* call) {
  p->bytes = bytes;
  p->padded = (bytes + 7) / 8 * 8;
  p->count = p->padded / 8;
  p->blocks_in = what == NP_ALLTOALL ? e->nranks : 1;
  p->blocks_out = what == NP_BCAST ? 1 : e->nranks;
  const size_t room = (size_t)(p->blocks_in + p->blocks_out) * p->padded;
  p->work = shmem_malloc(room);
  if (p->work == NULL) return no_room(e, room);
  memset(p->work, 0, room);
  p->inner = *call;
  *call = coll_padded;
  return NP_OK;
}

static np_status plan_mover(np_endpoint* e, const np_collective_plan* plan, struct planned* p,
                            np_collective_call* call) {
  const np_collective_call* const by_width = movers(plan->what);
  if (by_width == NULL || plan->in_place) return NP_UNSUPPORTED;
  const size_t element = element_bytes(plan->datatype), bytes = plan->count * element;
  /* All ranks choose the same width. */
  uint64_t all = bytes;
  for (int i = 0; plan->counts != NULL && i < e->nranks; ++i) all |= plan->counts[i] * element;
  const int wide = all % 8 == 0;
  *call = by_width[wide];
  if (all % 4 == 0) {
    p->count = (plan->counts != NULL ? plan->counts[e->rank] * element : bytes) / (wide ? 8 : 4);
    return NP_OK;
  }
  if (plan->counts != NULL) {
    return fail(e->context, NP_UNSUPPORTED,
                "collectives of OpenSHMEM 1.4 move elements of 4 or 8 bytes, and a count of "
                "another rank is not whole ones");
  }
  *call = by_width[1];
  return plan_padded(e, plan->what, bytes, p, call);
}

/* Elements of 4 or 8 bytes, as they are: nothing is made longer. */
static np_status plan_apart(const np_collective_plan* plan, struct planned* p, np_collective_call* call) {
  const size_t element = element_bytes(plan->datatype);
  if ((element != 4 && element != 8) || plan->in_place || plan->counts != NULL) return NP_UNSUPPORTED;
  p->count = plan->count;
  p->stride = (ptrdiff_t)plan->stride;
  *call = element == 8 ? coll_alltoalls64 : coll_alltoalls32;
  return NP_OK;
}

static np_status plan_reduction(np_endpoint* e, const np_collective_plan* plan, struct planned* p,
                                np_collective_call* call) {
  if (plan->datatype == NP_BYTE || plan->datatype > NP_DOUBLE || plan->reduction > NP_XOR || plan->count > INT_MAX) {
    return NP_UNSUPPORTED;
  }
  *call = reductions[plan->datatype][plan->reduction];
  if (*call == NULL) return NP_UNSUPPORTED;
  const size_t least = SHMEM_REDUCE_MIN_WRKDATA_SIZE, half = plan->count / 2 + 1;
  p->count = plan->count;
  p->work = shmem_malloc((half > least ? half : least) * element_bytes(plan->datatype));
  if (p->work == NULL) return no_room(e, half * element_bytes(plan->datatype));
  return NP_OK;
}

static np_status shmem_prepare_collective(np_endpoint* e, const np_collective_plan* plan, np_prepared* prepared) {
  if (plan->requests) return fail(e->context, NP_UNSUPPORTED, "OpenSHMEM has no non-blocking collectives");
  struct planned* const p = calloc(1, sizeof *p);
  if (p == NULL) return fail(e->context, NP_NO_MEMORY, "no memory for a collective operation");
  p->root = plan->root;
  p->in_place = plan->in_place != 0;
  np_collective_call call = coll_barrier;
  np_status status = NP_OK;
  if (plan->what == NP_ALLREDUCE) {
    status = plan_reduction(e, plan, p, &call);
  } else if (plan->what == NP_ALLTOALLS) {
    status = plan_apart(plan, p, &call);
  } else if (plan->what != NP_BARRIER) {
    status = plan_mover(e, plan, p, &call);
  }
  if (status != NP_OK) {
    if (status == NP_NO_MEMORY) e->broken = 1; /* ranks with room would wait in shmem_free */
    free(p);
    return status;
  }
  *prepared = (np_prepared){call, p};
  return NP_OK;
}

static void shmem_release_collective(np_endpoint* e, np_prepared* prepared) {
  struct planned* const p = prepared->state;
  /* shmem_free waits for all ranks. */
  if (e->work.base == p->work) e->work.base = NULL;
  if (p->work != NULL && !e->broken && *e->context->abort == 0) shmem_free(p->work);
  free(p);
}

#endif
