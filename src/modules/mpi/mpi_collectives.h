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
  if (UNLIKELY(e->separate) && code == MPI_SUCCESS) return reconcile_reach(e); /* shows what peers have put */
  return outcome(e, code, "MPI_Barrier");
}

/* A prepared operation. */
struct planned {
  int root;
  size_t bytes;
};

/* The unit of counts, and whether MPI is given a count for each rank. */
enum counting { BYTES, DOUBLES, BYTES_EACH, DOUBLES_EACH };

/* Every collective once: its names in MPI, the unit of counts, and its arguments; n is the count. */
#define COLLECTIVES(X)                                                                                                \
  X(NP_BARRIER, Barrier, barrier, BYTES, e->comm)                                                                     \
  X(NP_BCAST, Bcast, bcast, BYTES, e->rank == root ? PLAIN(source) : target, n, MPI_BYTE, root, e->comm)              \
  X(NP_REDUCE, Reduce, reduce, DOUBLES, PLAIN(source), target, n, MPI_DOUBLE, MPI_SUM, root, e->comm)                 \
  X(NP_ALLREDUCE, Allreduce, allreduce, DOUBLES, PLAIN(source), target, n, MPI_DOUBLE, MPI_SUM, e->comm)              \
  X(NP_GATHER, Gather, gather, BYTES, PLAIN(source), n, MPI_BYTE, target, n, MPI_BYTE, root, e->comm)                 \
  X(NP_ALLGATHER, Allgather, allgather, BYTES, PLAIN(source), n, MPI_BYTE, target, n, MPI_BYTE, e->comm)              \
  X(NP_SCATTER, Scatter, scatter, BYTES, PLAIN(source), n, MPI_BYTE, target, n, MPI_BYTE, root, e->comm)              \
  X(NP_REDUCE_SCATTER, Reduce_scatter, reduce_scatter, DOUBLES_EACH, PLAIN(source), target, e->counts, MPI_DOUBLE,    \
    MPI_SUM, e->comm)                                                                                                 \
  X(NP_ALLTOALL, Alltoall, alltoall, BYTES, PLAIN(source), n, MPI_BYTE, target, n, MPI_BYTE, e->comm)                 \
  X(NP_SCAN, Scan, scan, DOUBLES, PLAIN(source), target, n, MPI_DOUBLE, MPI_SUM, e->comm)                             \
  X(NP_EXSCAN, Exscan, exscan, DOUBLES, PLAIN(source), target, n, MPI_DOUBLE, MPI_SUM, e->comm)                       \
  X(NP_GATHERV, Gatherv, gatherv, BYTES_EACH, PLAIN(source), n, MPI_BYTE, target, e->counts, e->places, MPI_BYTE,     \
    root, e->comm)                                                                                                    \
  X(NP_SCATTERV, Scatterv, scatterv, BYTES_EACH, PLAIN(source), e->counts, e->places, MPI_BYTE, target, n, MPI_BYTE,  \
    root, e->comm)                                                                                                    \
  X(NP_ALLGATHERV, Allgatherv, allgatherv, BYTES_EACH, PLAIN(source), n, MPI_BYTE, target, e->counts, e->places,      \
    MPI_BYTE, e->comm)                                                                                                \
  X(NP_ALLTOALLV, Alltoallv, alltoallv, BYTES_EACH, PLAIN(source), e->counts, e->places, MPI_BYTE, target, e->counts, \
    e->places, MPI_BYTE, e->comm)                                                                                     \
  X(NP_ALLTOALLW, Alltoallw, alltoallw, BYTES_EACH, PLAIN(source), e->counts, e->places, e->types, target, e->counts, \
    e->places, e->types, e->comm)                                                                                     \
  SCATTER_BLOCK(X) NEIGHBORS(X)

#if HAVE_MPI_3
#define SCATTER_BLOCK(X)                                                                                    \
  X(NP_REDUCE_SCATTER_BLOCK, Reduce_scatter_block, reduce_scatter_block, DOUBLES, PLAIN(source), target, n, \
    MPI_DOUBLE, MPI_SUM, e->comm)
#else
#define SCATTER_BLOCK(X)
#endif

#if HAVE_NEIGHBORS
#define NEIGHBORS(X)                                                                                             \
  X(NP_NEIGHBOR_ALLGATHER, Neighbor_allgather, neighbor_allgather, BYTES, PLAIN(source), n, MPI_BYTE, target, n, \
    MPI_BYTE, e->ring)                                                                                           \
  X(NP_NEIGHBOR_ALLTOALL, Neighbor_alltoall, neighbor_alltoall, BYTES, PLAIN(source), n, MPI_BYTE, target, n,    \
    MPI_BYTE, e->ring)
#else
#define NEIGHBORS(X)
#endif

static int told_each(enum counting in) { return in == BYTES_EACH || in == DOUBLES_EACH; }
static size_t unit_of(enum counting in) { return in == DOUBLES || in == DOUBLES_EACH ? sizeof(double) : 1; }

/* The same count for all ranks, and their parts contiguous. */
static COLD int count_each(np_endpoint* e, int count) {
  if (count > INT_MAX / e->nranks) return -1;
  for (int i = 0; i < e->nranks; ++i) {
    e->counts[i] = count;
    e->places[i] = i * count;
    e->types[i] = MPI_BYTE;
  }
  return e->counted = count;
}

/* -1: an int cannot count it. */
static inline int count_of(np_endpoint* e, size_t bytes, enum counting in) {
  const size_t n = bytes / unit_of(in);
  if (UNLIKELY(bytes % unit_of(in) != 0 || n > INT_MAX)) return -1;
  return told_each(in) && UNLIKELY(e->counted != (int)n) ? count_each(e, (int)n) : (int)n;
}

static COLD np_status beyond_counting(np_endpoint* e, const char* call, size_t bytes, enum counting in) {
  return fail(e->context, NP_UNSUPPORTED, "%s of %zu bytes: %s", call, bytes,
              bytes % unit_of(in) != 0 ? "sums take whole doubles of 8 bytes" : "more than an int can count");
}

#if HAVE_PERSISTENT_COLLECTIVES
/* Makes the persistent request of one operation. */
typedef int (*maker)(np_endpoint* e, const struct purpose* purpose, int n, MPI_Request* request);

static np_status start_kept_collective(np_endpoint* e, const struct purpose* purpose, int n, maker make,
                                       struct kept_request** started) {
  struct request_store* const store = e->stores[FOR_COLLECTIVE];
  int fresh = 0, code = MPI_SUCCESS;
  struct kept_request* const one = find_request(store, purpose, &fresh, &code);
  if (UNLIKELY(one == NULL)) return all_in_flight(e);
  MPI_OR_RETURN(e, code, "MPI_Request_free");
  if (UNLIKELY(fresh)) {
    code = make(e, purpose, n, &one->request);
    if (code != MPI_SUCCESS) {
      forget_request(store, one);
      return failed(e, code, "making a persistent collective");
    }
  }
  MPI_OR_RETURN(e, MPI_Start(&one->request), "MPI_Start");
  one->active = 1;
  *started = one;
  return NP_OK;
}

static np_status kept_collective(np_endpoint* e, const struct purpose* purpose, int n, maker make, np_request* to) {
  if (UNLIKELY((e->library.quirks & STALE_PERSISTENT_COLLECTIVES) != 0 && e->reuse)) {
    return fail(e->context, NP_UNSUPPORTED,
                "a persistent collective of %s leaves out a rank's own part when it is started again: choose "
                "reuse=no or another op",
                e->library.version);
  }
  struct kept_request* one = NULL;
  const np_status status = start_kept_collective(e, purpose, n, make, &one);
  if (status != NP_OK) return status;
  if (to != NULL) {
    store_kept(to, one, FOR_COLLECTIVE);
    return NP_OK;
  }
  MPI_OR_RETURN(e, MPI_Wait(&one->request, MPI_STATUS_IGNORE), "MPI_Wait");
  return finish_kept(e, FOR_COLLECTIVE, one);
}

#define KEPT_CALL(name) kept_##name
#define DEFINE_KEPT(WHAT, Name, name, in, ...)                                                                    \
  static int name##_made(np_endpoint* e, const struct purpose* p, int n, MPI_Request* request) {                  \
    const void* const source = p->data;                                                                           \
    void* const target = PLAIN(p->other);                                                                         \
    const int root = p->peer;                                                                                     \
    (void)source, (void)target, (void)root, (void)n;                                                              \
    return MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, request);                                                \
  }                                                                                                               \
  static np_status kept_##name(np_endpoint* e, void* state, const void* source, void* target, np_request* to) {   \
    const int root = ((const struct planned*)state)->root;                                                        \
    const size_t bytes = ((const struct planned*)state)->bytes;                                                   \
    const struct purpose purpose = {.data = source, .other = target, .bytes = bytes, .peer = root, .what = WHAT}; \
    const int n = count_of(e, bytes, in);                                                                         \
    if (UNLIKELY(n < 0)) return beyond_counting(e, "MPI_" #Name "_init", bytes, in);                              \
    return kept_collective(e, &purpose, n, name##_made, to);                                                      \
  }
#else
#define KEPT_CALL(name) none_kept
#define DEFINE_KEPT(...)
static np_status none_kept(np_endpoint* e, void* state, const void* source, void* target, np_request* to) {
  (void)state, (void)source, (void)target, (void)to;
  return fail(e->context, NP_UNSUPPORTED, "%s has no persistent collectives: choose another op", e->library.version);
}
#endif

#if HAVE_MPI_3
#define STARTED(name, to, ...) (own(to), outcome(e, MPI_I##name(__VA_ARGS__, own_request(to)), "MPI_I" #name))
static inline void own(np_request* to) { to->word[1] = OWN; }
#else
#define STARTED(name, to, ...) \
  fail(e->context, NP_UNSUPPORTED, "%s has no non-blocking collectives", e->library.version)
#endif

#define DEFINE(WHAT, Name, name, in, ...)                                                                      \
  static np_status now_##name(np_endpoint* e, void* state, const void* source, void* target, np_request* to) { \
    const int root = ((const struct planned*)state)->root;                                                     \
    const size_t bytes = ((const struct planned*)state)->bytes;                                                \
    const int n = count_of(e, bytes, in);                                                                      \
    (void)root, (void)source, (void)target;                                                                    \
    if (UNLIKELY(n < 0)) return beyond_counting(e, "MPI_" #Name, bytes, in);                                   \
    if (LIKELY(to == NULL)) return outcome(e, MPI_##Name(__VA_ARGS__), "MPI_" #Name);                          \
    return STARTED(name, to, __VA_ARGS__);                                                                     \
  }                                                                                                            \
  DEFINE_KEPT(WHAT, Name, name, in, __VA_ARGS__)
COLLECTIVES(DEFINE)

#if HAVE_NEIGHBORS
/* The neighbours of a rank are the one below and the one above, in a ring of all ranks. */
static np_status make_ring(np_endpoint* e) {
  const int periodic = 1;
  if (e->ring != MPI_COMM_NULL) return NP_OK;
  MPI_OR_RETURN(e, MPI_Cart_create(e->comm, 1, &e->nranks, &periodic, 0, &e->ring), "MPI_Cart_create");
  return NP_OK;
}
#endif

static np_collective_call call_of(np_endpoint* e, np_collective what) {
#define CHOOSE(WHAT, Name, name, in, ...) \
  if (what == WHAT) return e->op == OP_PERSISTENT ? KEPT_CALL(name) : now_##name;
  COLLECTIVES(CHOOSE)
#undef CHOOSE
  return NULL;
}

static size_t element_bytes(const np_collective_plan* plan) { return plan->datatype == NP_DOUBLE ? sizeof(double) : 1; }

static np_status mpi_prepare_collective(np_endpoint* e, const np_collective_plan* plan, np_prepared* prepared) {
  if (e->op != OP_SEND && e->op != OP_PERSISTENT) {
    return fail(e->context, NP_UNSUPPORTED, "op=%s is about messages; collective operations are plain or op=persistent",
                text_of(&e->settings, "op"));
  }
  const np_collective_call call = call_of(e, (np_collective)plan->what);
  if (call == NULL) return NP_UNSUPPORTED;
  if ((plan->datatype != NP_BYTE && plan->datatype != NP_DOUBLE) || plan->reduction != NP_SUM || plan->in_place ||
      plan->counts != NULL) {
    return fail(e->context, NP_UNSUPPORTED, "collectives move bytes or sum doubles, the same count for each rank");
  }
#if HAVE_NEIGHBORS
  if (plan->what == NP_NEIGHBOR_ALLGATHER || plan->what == NP_NEIGHBOR_ALLTOALL) {
    const np_status status = make_ring(e);
    if (status != NP_OK) return status;
  }
#endif
  struct planned* const planned = malloc(sizeof *planned);
  if (planned == NULL) return fail(e->context, NP_NO_MEMORY, "no memory for a collective operation");
  *planned = (struct planned){plan->root, plan->count * element_bytes(plan)};
  *prepared = (np_prepared){call, planned};
  return NP_OK;
}

static void mpi_release_collective(np_endpoint* e, np_prepared* prepared) {
  (void)e;
  free(prepared->state);
}

#endif
