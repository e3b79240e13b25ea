/* SPDX-License-Identifier: Apache-2.0
 *
 * Collective operations: blocking, non-blocking (MPI-3), and persistent with op=persistent (MPI-4, Open MPI 5).
 * A reduction is of numbers; all others move bytes.
 */
#ifndef NETPIPE_MPI_COLLECTIVES_H
#define NETPIPE_MPI_COLLECTIVES_H

#include "mpi_messages.h"
#include "mpi_neighbours.h"

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
  int count; /* that this rank contributes; -1: an int cannot count it */
  size_t bytes;
  MPI_Datatype type; /* of a reduction */
  MPI_Op op;
  int what; /* the operation, its datatype and its reduction: what tells a persistent request from others */
  /* Of operations that are told a count for each rank, by rank: what comes from each, or what each gets, and what goes
   * to each where that differs (alltoallv), with their places and their type. */
  int *counts, *places, *out_counts, *out_places;
  MPI_Datatype* types;
  MPI_Comm near;                   /* of neighbours */
  MPI_Aint *offsets, *out_offsets; /* places and out_places, as MPI_Neighbor_alltoallw takes them */
};

/* The unit of counts, and whether MPI is given a count for each rank. */
enum counting { BYTES, NUMBERS, BYTES_EACH, NUMBERS_EACH };

/* Every collective once: its names in MPI, the unit of counts, and its arguments; n is the count, plan what was
 * prepared. */
#define COLLECTIVES(X)                                                                                                 \
  X(NP_BARRIER, Barrier, barrier, BYTES, e->comm)                                                                      \
  X(NP_BCAST, Bcast, bcast, BYTES, e->rank == root ? PLAIN(source) : target, n, MPI_BYTE, root, e->comm)               \
  X(NP_REDUCE, Reduce, reduce, NUMBERS, PLAIN(source), target, n, plan->type, plan->op, root, e->comm)                 \
  X(NP_ALLREDUCE, Allreduce, allreduce, NUMBERS, PLAIN(source), target, n, plan->type, plan->op, e->comm)              \
  X(NP_GATHER, Gather, gather, BYTES, PLAIN(source), n, MPI_BYTE, target, n, MPI_BYTE, root, e->comm)                  \
  X(NP_ALLGATHER, Allgather, allgather, BYTES, PLAIN(source), n, MPI_BYTE, target, n, MPI_BYTE, e->comm)               \
  X(NP_SCATTER, Scatter, scatter, BYTES, PLAIN(source), n, MPI_BYTE, target, n, MPI_BYTE, root, e->comm)               \
  X(NP_REDUCE_SCATTER, Reduce_scatter, reduce_scatter, NUMBERS_EACH, PLAIN(source), target, plan->counts, plan->type,  \
    plan->op, e->comm)                                                                                                 \
  X(NP_ALLTOALL, Alltoall, alltoall, BYTES, PLAIN(source), n, MPI_BYTE, target, n, MPI_BYTE, e->comm)                  \
  X(NP_SCAN, Scan, scan, NUMBERS, PLAIN(source), target, n, plan->type, plan->op, e->comm)                             \
  X(NP_EXSCAN, Exscan, exscan, NUMBERS, PLAIN(source), target, n, plan->type, plan->op, e->comm)                       \
  X(NP_GATHERV, Gatherv, gatherv, BYTES_EACH, PLAIN(source), n, MPI_BYTE, target, plan->counts, plan->places,          \
    MPI_BYTE, root, e->comm)                                                                                           \
  X(NP_SCATTERV, Scatterv, scatterv, BYTES_EACH, PLAIN(source), plan->counts, plan->places, MPI_BYTE, target, n,       \
    MPI_BYTE, root, e->comm)                                                                                           \
  X(NP_ALLGATHERV, Allgatherv, allgatherv, BYTES_EACH, PLAIN(source), n, MPI_BYTE, target, plan->counts, plan->places, \
    MPI_BYTE, e->comm)                                                                                                 \
  X(NP_ALLTOALLV, Alltoallv, alltoallv, BYTES_EACH, PLAIN(source), plan->out_counts, plan->out_places, MPI_BYTE,       \
    target, plan->counts, plan->places, MPI_BYTE, e->comm)                                                             \
  X(NP_ALLTOALLW, Alltoallw, alltoallw, BYTES_EACH, PLAIN(source), plan->out_counts, plan->out_places, plan->types,    \
    target, plan->counts, plan->places, plan->types, e->comm)                                                          \
  SCATTER_BLOCK(X) NEIGHBORS(X)

#if HAVE_MPI_3
#define SCATTER_BLOCK(X)                                                                                    \
  X(NP_REDUCE_SCATTER_BLOCK, Reduce_scatter_block, reduce_scatter_block, NUMBERS, PLAIN(source), target, n, \
    plan->type, plan->op, e->comm)
#else
#define SCATTER_BLOCK(X)
#endif

#if HAVE_NEIGHBORS
#define NEIGHBORS(X)                                                                                                  \
  X(NP_NEIGHBOR_ALLGATHER, Neighbor_allgather, neighbor_allgather, BYTES, PLAIN(source), n, MPI_BYTE, target, n,      \
    MPI_BYTE, plan->near)                                                                                             \
  X(NP_NEIGHBOR_ALLTOALL, Neighbor_alltoall, neighbor_alltoall, BYTES, PLAIN(source), n, MPI_BYTE, target, n,         \
    MPI_BYTE, plan->near)                                                                                             \
  X(NP_NEIGHBOR_ALLGATHERV, Neighbor_allgatherv, neighbor_allgatherv, BYTES_EACH, PLAIN(source), n, MPI_BYTE, target, \
    plan->counts, plan->places, MPI_BYTE, plan->near)                                                                 \
  X(NP_NEIGHBOR_ALLTOALLV, Neighbor_alltoallv, neighbor_alltoallv, BYTES_EACH, PLAIN(source), plan->out_counts,       \
    plan->out_places, MPI_BYTE, target, plan->counts, plan->places, MPI_BYTE, plan->near)                             \
  X(NP_NEIGHBOR_ALLTOALLW, Neighbor_alltoallw, neighbor_alltoallw, BYTES_EACH, PLAIN(source), plan->out_counts,       \
    plan->out_offsets, plan->types, target, plan->counts, plan->offsets, plan->types, plan->near)
#else
#define NEIGHBORS(X)
#endif

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
    (void)e, (void)plan, (void)source, (void)target, (void)root, (void)n;                                       \
    return MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, request);                                              \
  }                                                                                                             \
  static np_status kept_##name(np_endpoint* e, void* state, const void* source, void* target, np_request* to) { \
    const struct planned* const plan = state;                                                                   \
    const struct purpose purpose = {                                                                            \
        .data = source, .other = target, .bytes = plan->bytes, .peer = plan->root, .what = plan->what};         \
    const int n = plan->count;                                                                                  \
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
    const int n = plan->count;                                                                                 \
    (void)root, (void)source, (void)target;                                                                    \
    if (UNLIKELY(n < 0)) return beyond_counting(e, "MPI_" #Name, plan);                                        \
    if (LIKELY(to == NULL)) return outcome(e, MPI_##Name(__VA_ARGS__), "MPI_" #Name);                          \
    return STARTED(name, to, __VA_ARGS__);                                                                     \
  }                                                                                                            \
  DEFINE_KEPT(WHAT, Name, name, in, __VA_ARGS__)
COLLECTIVES(DEFINE)

#if HAVE_MPI_3
/* What a rank contributes lies where its result will; the root of a scatter leaves its own part where it is. */
static inline int keeps_source(np_collective what) { return what == NP_SCATTER || what == NP_SCATTERV; }
#define DEFINE_IN_PLACE(WHAT, Name, name, in, ...)                                                                   \
  static np_status here_##name(np_endpoint* e, void* state, const void* source, void* target, np_request* to) {      \
    return now_##name(e, state, keeps_source(WHAT) ? source : MPI_IN_PLACE,                                          \
                      keeps_source(WHAT) ? MPI_IN_PLACE : target, to);                                               \
  }                                                                                                                  \
  static np_status kept_here_##name(np_endpoint* e, void* state, const void* source, void* target, np_request* to) { \
    return KEPT_CALL(name)(e, state, keeps_source(WHAT) ? source : MPI_IN_PLACE,                                     \
                           keeps_source(WHAT) ? MPI_IN_PLACE : target, to);                                          \
  }
COLLECTIVES(DEFINE_IN_PLACE)
#define IN_PLACE_OF(e, name) ((e)->op == OP_PERSISTENT ? kept_here_##name : here_##name)
#else
#define IN_PLACE_OF(e, name) NULL
#endif

static np_collective_call call_of(const np_endpoint* e, np_collective what, int in_place) {
#define CHOOSE(WHAT, Name, name, in, ...) \
  if (what == WHAT) return in_place ? IN_PLACE_OF(e, name) : e->op == OP_PERSISTENT ? KEPT_CALL(name) : now_##name;
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
    case NP_AND: return MPI_BAND;
    case NP_OR: return MPI_BOR;
    case NP_XOR: return MPI_BXOR;
    default: return MPI_SUM;
  }
}

/* Whether MPI is told a count for each rank. */
static int told_each(np_collective what) {
#define CHOOSE(WHAT, Name, name, in, ...) \
  if (what == WHAT) return (in) == BYTES_EACH || (in) == NUMBERS_EACH;
  COLLECTIVES(CHOOSE)
#undef CHOOSE
  return 0;
}

/* Their parts are contiguous. from: the ranks that they are of; NULL: of each in turn. -1: an int cannot count them. */
static int lay_out(int parts, const int* from, const uint64_t* counts, uint64_t count, int* each, int* places) {
  uint64_t all = 0;
  for (int i = 0; i < parts; ++i) {
    const uint64_t one = counts != NULL ? counts[from != NULL ? from[i] : i] : count;
    if (one > INT_MAX || all > INT_MAX) return -1;
    each[i] = (int)one;
    places[i] = (int)all;
    all += one;
  }
  return all > INT_MAX ? -1 : 0;
}

static int of_neighbours(np_collective what) {
  return what == NP_NEIGHBOR_ALLGATHER || what == NP_NEIGHBOR_ALLTOALL || what == NP_NEIGHBOR_ALLGATHERV ||
         what == NP_NEIGHBOR_ALLTOALLV || what == NP_NEIGHBOR_ALLTOALLW;
}

/* Whether MPI is told what goes to each, and not only what comes from each. A scatterv sends what each gets. */
static int told_outgoing(np_collective what) {
  return what == NP_ALLTOALLV || what == NP_ALLTOALLW || what == NP_NEIGHBOR_ALLTOALLV || what == NP_NEIGHBOR_ALLTOALLW;
}

/* parts: how many come in, and go out; from: the ranks that they come from, or NULL for each rank in turn. */
static np_status count_each(const np_endpoint* e, const np_collective_plan* plan, int parts, const int* from,
                            struct planned* planned) {
  const size_t room = (size_t)parts;
  const uint64_t own = plan->counts != NULL ? plan->counts[e->rank] : plan->count;
  planned->counts = calloc(4 * room, sizeof *planned->counts);
  planned->types = calloc(room, sizeof *planned->types);
  planned->offsets = calloc(2 * room, sizeof *planned->offsets);
  if (planned->counts == NULL || planned->types == NULL || planned->offsets == NULL) {
    return fail(e->context, NP_NO_MEMORY, "no memory for %d counts", parts);
  }
  planned->places = planned->counts + room;
  planned->out_counts = planned->places + room;
  planned->out_places = planned->out_counts + room;
  planned->out_offsets = planned->offsets + room;
  planned->count = own > INT_MAX ? -1 : (int)own;
  if (lay_out(parts, from, plan->counts, plan->count, planned->counts, planned->places) != 0) planned->count = -1;
  const int too_many = lay_out(parts, NULL, NULL, own, planned->out_counts, planned->out_places) != 0;
  if (too_many && told_outgoing((np_collective)plan->what)) planned->count = -1;
  for (size_t i = 0; i < room; ++i) {
    planned->types[i] = MPI_BYTE;
    planned->offsets[i] = planned->places[i];
    planned->out_offsets[i] = planned->out_places[i];
  }
  return NP_OK;
}

/* Collective. The communicator of a plan's neighbours, and their counts where MPI is told these. */
static np_status plan_neighbours(np_endpoint* e, const np_collective_plan* plan, struct planned* planned) {
#if HAVE_NEIGHBORS
  int* from = NULL;
  int parts = 0;
  np_status status = make_neighbours(e, plan, &planned->near);
  if (status != NP_OK || !told_each((np_collective)plan->what)) return status;
  status = find_sources(e, plan, planned->near, &from, &parts);
  if (status == NP_OK) status = count_each(e, plan, parts, from, planned);
  free(from);
  return status;
#else
  (void)e, (void)plan, (void)planned;
  return NP_UNSUPPORTED;
#endif
}

static void free_planned(struct planned* planned) {
  free(planned->counts);
  free(planned->types);
  free(planned->offsets);
  free(planned);
}

/* What this library, or this operation, does not have. */
static np_status check_plan(const np_endpoint* e, const np_collective_plan* plan) {
  if (e->op != OP_SEND && e->op != OP_PERSISTENT) {
    return fail(e->context, NP_UNSUPPORTED, "op=%s is about messages; collective operations are plain or op=persistent",
                text_of(&e->settings, "op"));
  }
  if (e->on_device && (plan->requests || e->op == OP_PERSISTENT)) {
    return fail(e->context, NP_UNSUPPORTED,
                "memory=cuda: libraries promise blocking collective operations alone for memory of a device");
  }
  const int by_bits = plan->reduction >= NP_AND, whole = plan->datatype == NP_INT32 || plan->datatype == NP_INT64;
  if (plan->datatype > NP_DOUBLE || plan->reduction > NP_XOR || (by_bits && !whole)) {
    return fail(e->context, NP_UNSUPPORTED, "a datatype or a reduction that this module does not know");
  }
  if (plan->in_place && !HAVE_MPI_3) {
    return fail(e->context, NP_UNSUPPORTED, "%s has not every collective operation in place", e->library.version);
  }
  return NP_OK;
}

/* What tells a persistent request from those of other operations. */
static int key_of(const np_collective_plan* plan) {
  if (of_neighbours((np_collective)plan->what)) return (int)(plan->what | plan->dims << 8);
  return (int)(plan->what | plan->datatype << 8 | plan->reduction << 16);
}

static np_status mpi_prepare_collective(np_endpoint* e, const np_collective_plan* plan, np_prepared* prepared) {
  size_t element = 1;
  np_status status = check_plan(e, plan);
  if (status != NP_OK) return status;
  const np_collective what = (np_collective)plan->what;
  const np_collective_call call = call_of(e, what, plan->in_place != 0);
  if (call == NULL) return NP_UNSUPPORTED;
  struct planned* const planned = calloc(1, sizeof *planned);
  if (planned == NULL) return fail(e->context, NP_NO_MEMORY, "no memory for a collective operation");
  *planned = (struct planned){.root = plan->root,
                              .count = plan->count > INT_MAX ? -1 : (int)plan->count,
                              .type = element_of(plan->datatype, &element),
                              .op = reduction_of(plan->reduction),
                              .what = key_of(plan)};
  planned->bytes = plan->count * element;
  if (of_neighbours(what)) {
    status = plan_neighbours(e, plan, planned);
  } else if (told_each(what)) {
    status = count_each(e, plan, e->nranks, NULL, planned);
  }
  if (status != NP_OK) {
    free_planned(planned);
    return status;
  }
  *prepared = (np_prepared){call, planned};
  return NP_OK;
}

/* A persistent request may go on reading the counts that it was made with. */
static void mpi_release_collective(np_endpoint* e, np_prepared* prepared) {
  struct planned* const planned = prepared->state;
  if (planned->counts != NULL && e->stores[FOR_COLLECTIVE] != NULL && drop_requests(e->stores[FOR_COLLECTIVE]) != 0) {
    e->broken = 1;
  }
  free_planned(planned);
}

#endif
