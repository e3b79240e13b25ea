/* SPDX-License-Identifier: Apache-2.0
 *
 * Collective operations: blocking, non-blocking (MPI-3), and persistent with op=persistent (MPI-4, Open MPI 5). bytes
 * is what one rank contributes to one other; reductions sum doubles.
 */
#ifndef NETPIPE_MPI_COLLECTIVES_H
#define NETPIPE_MPI_COLLECTIVES_H

#include "mpi_messages.h"

/* in mpi_reach.h */
static np_status reconcile_reach(np_endpoint* e);

static np_status mpi_barrier(np_endpoint* e) {
  const int code = MPI_Barrier(e->comm);
  if (UNLIKELY(e->separate) && code == MPI_SUCCESS) return reconcile_reach(e); /* what peers have put is there now */
  return outcome(e, code, "MPI_Barrier");
}

/* A broadcast has one buffer in MPI: what the root sends and where the others receive. */
static inline void* one_buffer(const np_endpoint* e, const struct purpose* p) {
  return e->rank == p->peer ? PLAIN(p->data) : PLAIN(p->other);
}

/* For all ranks the same count, and their parts one behind the other. */
static inline void count_out(np_endpoint* e, int count) {
  if (LIKELY(e->counted == count)) return;
  for (int i = 0; i < e->nranks; ++i) {
    e->counts[i] = count;
    e->places[i] = i * count;
  }
  e->counted = count;
}

/* The arguments of every collective, once. X makes of a name the call: MPI_Bcast, MPI_Ibcast or MPI_Bcast_init. What
 * comes behind the arguments is the rest of the macro's. */
#define COLLECTIVES(X, REDUCE_SCATTER, ...)                                                                            \
  const void* const source = p->data;                                                                                  \
  void* const target = PLAIN(p->other);                                                                                \
  const int n = (int)p->bytes, doubles = (int)(p->bytes / sizeof(double)), root = p->peer;                             \
  const int *const counts = e->counts, *const places = e->places;                                                      \
  const MPI_Comm comm = e->comm;                                                                                       \
  if (UNLIKELY(p->what >= NP_GATHERV)) count_out(e, n);                                                                \
  switch ((np_collective)p->what) {                                                                                    \
    case NP_BCAST: return X(Bcast, bcast)(one_buffer(e, p), n, MPI_BYTE, root, comm __VA_ARGS__);                      \
    case NP_REDUCE:                                                                                                    \
      return X(Reduce, reduce)(PLAIN(source), target, doubles, MPI_DOUBLE, MPI_SUM, root, comm __VA_ARGS__);           \
    case NP_ALLREDUCE:                                                                                                 \
      return X(Allreduce, allreduce)(PLAIN(source), target, doubles, MPI_DOUBLE, MPI_SUM, comm __VA_ARGS__);           \
    case NP_GATHER: return X(Gather, gather)(PLAIN(source), n, MPI_BYTE, target, n, MPI_BYTE, root, comm __VA_ARGS__); \
    case NP_ALLGATHER:                                                                                                 \
      return X(Allgather, allgather)(PLAIN(source), n, MPI_BYTE, target, n, MPI_BYTE, comm __VA_ARGS__);               \
    case NP_SCATTER:                                                                                                   \
      return X(Scatter, scatter)(PLAIN(source), n, MPI_BYTE, target, n, MPI_BYTE, root, comm __VA_ARGS__);             \
    case NP_REDUCE_SCATTER: return REDUCE_SCATTER(__VA_ARGS__);                                                        \
    case NP_ALLTOALL: return X(Alltoall, alltoall)(PLAIN(source), n, MPI_BYTE, target, n, MPI_BYTE, comm __VA_ARGS__); \
    case NP_SCAN: return X(Scan, scan)(PLAIN(source), target, doubles, MPI_DOUBLE, MPI_SUM, comm __VA_ARGS__);         \
    case NP_EXSCAN: return X(Exscan, exscan)(PLAIN(source), target, doubles, MPI_DOUBLE, MPI_SUM, comm __VA_ARGS__);   \
    case NP_GATHERV:                                                                                                   \
      return X(Gatherv, gatherv)(PLAIN(source), n, MPI_BYTE, target, PLAIN_INTS(counts), PLAIN_INTS(places), MPI_BYTE, \
                                 root, comm __VA_ARGS__);                                                              \
    case NP_SCATTERV:                                                                                                  \
      return X(Scatterv, scatterv)(PLAIN(source), PLAIN_INTS(counts), PLAIN_INTS(places), MPI_BYTE, target, n,         \
                                   MPI_BYTE, root, comm __VA_ARGS__);                                                  \
    case NP_ALLGATHERV:                                                                                                \
      return X(Allgatherv, allgatherv)(PLAIN(source), n, MPI_BYTE, target, PLAIN_INTS(counts), PLAIN_INTS(places),     \
                                       MPI_BYTE, comm __VA_ARGS__);                                                    \
    case NP_ALLTOALLV:                                                                                                 \
      return X(Alltoallv, alltoallv)(PLAIN(source), PLAIN_INTS(counts), PLAIN_INTS(places), MPI_BYTE, target,          \
                                     PLAIN_INTS(counts), PLAIN_INTS(places), MPI_BYTE, comm __VA_ARGS__);              \
  }                                                                                                                    \
  return MPI_ERR_ARG
#define PLAIN_INTS(numbers) ((int*)(uintptr_t)(numbers)) /* before MPI-3 what is only read was not const */

#define NOW(Name, name) MPI_##Name
#define STARTED(Name, name) MPI_I##name
#define MADE(Name, name) MPI_##Name##_init

#if HAVE_MPI_3
#define SCATTER_BLOCK(...) \
  MPI_Reduce_scatter_block(PLAIN(source), target, doubles, MPI_DOUBLE, MPI_SUM, comm __VA_ARGS__)
#define ISCATTER_BLOCK(...) \
  MPI_Ireduce_scatter_block(PLAIN(source), target, doubles, MPI_DOUBLE, MPI_SUM, comm __VA_ARGS__)
#define SCATTER_BLOCK_INIT(...) \
  MPI_Reduce_scatter_block_init(PLAIN(source), target, doubles, MPI_DOUBLE, MPI_SUM, comm __VA_ARGS__)
#else
#define SCATTER_BLOCK(...) scatter_counted(e, source, target, doubles)
static int scatter_counted(np_endpoint* e, const void* source, void* target, int doubles) {
  count_out(e, doubles);
  return MPI_Reduce_scatter(PLAIN(source), target, e->counts, MPI_DOUBLE, MPI_SUM, e->comm);
}
#endif

static inline int collective_now(np_endpoint* e, const struct purpose* p) { COLLECTIVES(NOW, SCATTER_BLOCK, ); }

#if HAVE_MPI_3
static int collective_started(np_endpoint* e, const struct purpose* p, MPI_Request* request) {
  COLLECTIVES(STARTED, ISCATTER_BLOCK, , request);
}
#endif

#if HAVE_PERSISTENT_COLLECTIVES
static int collective_made(np_endpoint* e, const struct purpose* p, MPI_Request* request) {
  COLLECTIVES(MADE, SCATTER_BLOCK_INIT, , MPI_INFO_NULL, request);
}
#endif

static np_status start_kept_collective(np_endpoint* e, const struct purpose* purpose, struct kept_request** started) {
#if HAVE_PERSISTENT_COLLECTIVES
  struct request_store* const store = e->stores[FOR_COLLECTIVE];
  int fresh = 0, code = MPI_SUCCESS;
  struct kept_request* const one = find_request(store, purpose, &fresh, &code);
  if (UNLIKELY(one == NULL)) return all_in_flight(e);
  MPI_OR_RETURN(e, code, "MPI_Request_free");
  if (UNLIKELY(fresh)) {
    code = collective_made(e, purpose, &one->request);
    if (code != MPI_SUCCESS) {
      forget_request(store, one);
      return failed(e, code, "making a persistent collective");
    }
  }
  MPI_OR_RETURN(e, MPI_Start(&one->request), "MPI_Start");
  one->active = 1;
  *started = one;
  return NP_OK;
#else
  (void)purpose, (void)started;
  return fail(e->context, NP_UNSUPPORTED, "%s has no persistent collectives: choose another op", e->library.version);
#endif
}

static np_status kept_collective(np_endpoint* e, const struct purpose* purpose, np_request* to) {
  if (UNLIKELY(e->library.stale && e->reuse)) {
    return fail(e->context, NP_UNSUPPORTED,
                "a persistent collective of %s leaves out a rank's own part when it is started again: choose "
                "reuse=no or another op",
                e->library.version);
  }
  struct kept_request* one = NULL;
  const np_status status = start_kept_collective(e, purpose, &one);
  if (status != NP_OK) return status;
  if (to != NULL) {
    store_kept(to, one, FOR_COLLECTIVE);
    return NP_OK;
  }
  MPI_OR_RETURN(e, MPI_Wait(&one->request, MPI_STATUS_IGNORE), "MPI_Wait");
  return finish_kept(e, FOR_COLLECTIVE, one);
}

static COLD np_status beyond_counting(np_endpoint* e, np_collective what, size_t bytes) {
  return fail(e->context, NP_UNSUPPORTED, "a collective of %zu bytes: %s", bytes,
              bytes % sizeof(double) != 0 && bytes <= INT_MAX && what < NP_GATHERV
                  ? "sums take whole doubles of 8 bytes"
                  : "more than an int can count");
}

static inline int countable(const np_endpoint* e, np_collective what, size_t bytes) {
  const int sums =
      what == NP_REDUCE || what == NP_ALLREDUCE || what == NP_REDUCE_SCATTER || what == NP_SCAN || what == NP_EXSCAN;
  if (sums && bytes % sizeof(double) != 0) return 0;
  return bytes <= (size_t)INT_MAX / (what < NP_GATHERV ? 1 : (size_t)e->nranks);
}

static np_status mpi_collective(np_endpoint* e, np_collective what, int root, const void* source, void* target,
                                size_t bytes, np_request* to) {
  const struct purpose purpose = {.data = source, .other = target, .bytes = bytes, .peer = root, .what = (int)what};
  if (UNLIKELY(!countable(e, what, bytes))) return beyond_counting(e, what, bytes);
  if (LIKELY(to == NULL && e->op != OP_PERSISTENT)) {
    return outcome(e, collective_now(e, &purpose), "a collective operation");
  }
  if (e->op == OP_PERSISTENT) return kept_collective(e, &purpose, to);
#if HAVE_MPI_3
  to->word[1] = OWN;
  return outcome(e, collective_started(e, &purpose, own_request(to)), "a non-blocking collective operation");
#else
  return fail(e->context, NP_UNSUPPORTED, "%s has no non-blocking collectives", e->library.version);
#endif
}

#endif
