/* SPDX-License-Identifier: Apache-2.0
 *
 * Collective operations: blocking, non-blocking (MPI-3), and persistent with op=persistent (MPI-4, Open MPI 5).
 * A reduction is of numbers; all others move bytes.
 */
#ifndef NETPIPE_MPI_COLLECTIVES_H
#define NETPIPE_MPI_COLLECTIVES_H

#include "mpi_messages.h"

/* in mpi_reach.h */
static np_status reconcile_reach(np_endpoint* e);
static np_status settle_reach(np_endpoint* e);

static np_status mpi_barrier(np_endpoint* e) {
  if (UNLIKELY(e->flush != FLUSH_TARGET)) {
    const np_status status = settle_reach(e);
    if (status != NP_OK) return status;
  }
  const int code = MPI_Barrier(e->comm);
  if (UNLIKELY(e->separate) && code == MPI_SUCCESS) return reconcile_reach(e); /* shows what peers have put */
  return outcome(e, code, "MPI_Barrier");
}

/* A prepared operation. */
struct planned {
  int root;
  int count; /* -1: an int cannot count it */
  size_t bytes;
  MPI_Datatype type; /* of a reduction */
  MPI_Op op;
  int what; /* the operation, its datatype and its reduction: what tells a persistent request from others */
};

/* The unit of counts, and whether MPI is given a count for each rank. */
enum counting { BYTES, NUMBERS, BYTES_EACH, NUMBERS_EACH };

/* Every collective once: its names in MPI, the unit of counts, and its arguments; n is the count, plan what was
 * prepared. */
#define COLLECTIVES(X)                                                                                                \
  X(NP_BARRIER, Barrier, barrier, BYTES, e->comm)                                                                     \
  X(NP_BCAST, Bcast, bcast, BYTES, e->rank == root ? PLAIN(source) : target, n, MPI_BYTE, root, e->comm)              \
  X(NP_REDUCE, Reduce, reduce, NUMBERS, PLAIN(source), target, n, plan->type, plan->op, root, e->comm)                \
  X(NP_ALLREDUCE, Allreduce, allreduce, NUMBERS, PLAIN(source), target, n, plan->type, plan->op, e->comm)             \
  X(NP_GATHER, Gather, gather, BYTES, PLAIN(source), n, MPI_BYTE, target, n, MPI_BYTE, root, e->comm)                 \
  X(NP_ALLGATHER, Allgather, allgather, BYTES, PLAIN(source), n, MPI_BYTE, target, n, MPI_BYTE, e->comm)              \
  X(NP_SCATTER, Scatter, scatter, BYTES, PLAIN(source), n, MPI_BYTE, target, n, MPI_BYTE, root, e->comm)              \
  X(NP_REDUCE_SCATTER, Reduce_scatter, reduce_scatter, NUMBERS_EACH, PLAIN(source), target, e->counts, plan->type,    \
    plan->op, e->comm)                                                                                                \
  X(NP_ALLTOALL, Alltoall, alltoall, BYTES, PLAIN(source), n, MPI_BYTE, target, n, MPI_BYTE, e->comm)                 \
  X(NP_SCAN, Scan, scan, NUMBERS, PLAIN(source), target, n, plan->type, plan->op, e->comm)                            \
  X(NP_EXSCAN, Exscan, exscan, NUMBERS, PLAIN(source), target, n, plan->type, plan->op, e->comm)                      \
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
  X(NP_REDUCE_SCATTER_BLOCK, Reduce_scatter_block, reduce_scatter_block, NUMBERS, PLAIN(source), target, n, \
    plan->type, plan->op, e->comm)
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

static int told_each(enum counting in) { return in == BYTES_EACH || in == NUMBERS_EACH; }

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
static inline int count_of(np_endpoint* e, const struct planned* plan, enum counting in) {
  const int n = plan->count;
  return told_each(in) && UNLIKELY(e->counted != n) && n >= 0 ? count_each(e, n) : n;
}

static COLD np_status beyond_counting(np_endpoint* e, const char* call, const struct planned* plan) {
  return fail(e->context, NP_UNSUPPORTED, "%s of %zu bytes: more than an int can count", call, plan->bytes);
}

#if HAVE_PERSISTENT_COLLECTIVES
/* Makes the persistent request of one operation. */
typedef int (*maker)(np_endpoint* e, const struct planned* plan, const struct purpose* purpose, int n,
                     MPI_Request* request);

static np_status start_kept_collective(np_endpoint* e, const struct planned* plan, const struct purpose* purpose, int n,
                                       maker make, struct kept_request** started) {
  struct request_store* const store = e->stores[FOR_COLLECTIVE];
  int fresh = 0, code = MPI_SUCCESS;
  struct kept_request* const one = find_request(store, purpose, &fresh, &code);
  if (UNLIKELY(one == NULL)) return all_in_flight(e);
  MPI_OR_RETURN(e, code, "MPI_Request_free");
  if (UNLIKELY(fresh)) {
    code = make(e, plan, purpose, n, &one->request);
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

static np_status kept_collective(np_endpoint* e, const struct planned* plan, const struct purpose* purpose, int n,
                                 maker make, np_request* to) {
  if (UNLIKELY((e->library.quirks & STALE_PERSISTENT_COLLECTIVES) != 0 && e->reuse)) {
    return fail(e->context, NP_UNSUPPORTED,
                "a persistent collective of %s leaves out a rank's own part when it is started again: choose "
                "reuse=no or another op",
                e->library.version);
  }
  struct kept_request* one = NULL;
  const np_status status = start_kept_collective(e, plan, purpose, n, make, &one);
  if (status != NP_OK) return status;
  if (to != NULL) {
    store_kept(to, one, FOR_COLLECTIVE);
    return NP_OK;
  }
  MPI_OR_RETURN(e, MPI_Wait(&one->request, MPI_STATUS_IGNORE), "MPI_Wait");
  return finish_kept(e, FOR_COLLECTIVE, one);
}

#define KEPT_CALL(name) kept_##name
#define DEFINE_KEPT(WHAT, Name, name, in, ...)                                                                  \
  static int name##_made(np_endpoint* e, const struct planned* plan, const struct purpose* p, int n,            \
                         MPI_Request* request) {                                                                \
    const void* const source = p->data;                                                                         \
    void* const target = PLAIN(p->other);                                                                       \
    const int root = p->peer;                                                                                   \
    (void)plan, (void)source, (void)target, (void)root, (void)n;                                                \
    return MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, request);                                              \
  }                                                                                                             \
  static np_status kept_##name(np_endpoint* e, void* state, const void* source, void* target, np_request* to) { \
    const struct planned* const plan = state;                                                                   \
    const struct purpose purpose = {                                                                            \
        .data = source, .other = target, .bytes = plan->bytes, .peer = plan->root, .what = plan->what};         \
    const int n = count_of(e, plan, in);                                                                        \
    if (UNLIKELY(n < 0)) return beyond_counting(e, "MPI_" #Name "_init", plan);                                 \
    return kept_collective(e, plan, &purpose, n, name##_made, to);                                              \
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
    const struct planned* const plan = state;                                                                  \
    const int root = plan->root;                                                                               \
    const int n = count_of(e, plan, in);                                                                       \
    (void)root, (void)source, (void)target;                                                                    \
    if (UNLIKELY(n < 0)) return beyond_counting(e, "MPI_" #Name, plan);                                        \
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

/* The datatype of a plan, and the bytes of one element. */
static MPI_Datatype element_of(uint32_t datatype, size_t* bytes) {
  switch (datatype) {
    case NP_INT32: *bytes = 4; return MPI_INT; /* which MPI-2 has as well */
    case NP_INT64: *bytes = 8; return MPI_LONG_LONG_INT;
    case NP_FLOAT: *bytes = sizeof(float); return MPI_FLOAT;
    case NP_DOUBLE: *bytes = sizeof(double); return MPI_DOUBLE;
    default: *bytes = 1; return MPI_BYTE;
  }
}

static MPI_Op reduction_of(uint32_t reduction) {
  switch (reduction) {
    case NP_MIN: return MPI_MIN;
    case NP_MAX: return MPI_MAX;
    case NP_PROD: return MPI_PROD;
    default: return MPI_SUM;
  }
}

static np_status mpi_prepare_collective(np_endpoint* e, const np_collective_plan* plan, np_prepared* prepared) {
  size_t element = 1;
  if (e->op != OP_SEND && e->op != OP_PERSISTENT) {
    return fail(e->context, NP_UNSUPPORTED, "op=%s is about messages; collective operations are plain or op=persistent",
                text_of(&e->settings, "op"));
  }
  const np_collective_call call = call_of(e, (np_collective)plan->what);
  if (call == NULL) return NP_UNSUPPORTED;
  if (plan->datatype > NP_DOUBLE || plan->reduction > NP_PROD || plan->in_place || plan->counts != NULL) {
    return fail(e->context, NP_UNSUPPORTED, "collectives are of the same count for each rank, and not in place");
  }
#if HAVE_NEIGHBORS
  if (plan->what == NP_NEIGHBOR_ALLGATHER || plan->what == NP_NEIGHBOR_ALLTOALL) {
    const np_status status = make_ring(e);
    if (status != NP_OK) return status;
  }
#endif
  struct planned* const planned = malloc(sizeof *planned);
  if (planned == NULL) return fail(e->context, NP_NO_MEMORY, "no memory for a collective operation");
  *planned = (struct planned){.root = plan->root,
                              .count = plan->count > INT_MAX ? -1 : (int)plan->count,
                              .type = element_of(plan->datatype, &element),
                              .op = reduction_of(plan->reduction),
                              .what = (int)(plan->what | plan->datatype << 8 | plan->reduction << 16)};
  planned->bytes = plan->count * element;
  *prepared = (np_prepared){call, planned};
  return NP_OK;
}

static void mpi_release_collective(np_endpoint* e, np_prepared* prepared) {
  (void)e;
  free(prepared->state);
}

#endif
