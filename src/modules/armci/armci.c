/* SPDX-License-Identifier: Apache-2.0
 *
 * armci: puts, gets, strided transfers, accumulates and read-modify-writes of ARMCI over an MPI library, and messages
 * made of puts. It is not built with netpipe: `netpipe modules add armci --mpicc PATH` compiles this file with the
 * library's own compiler wrapper into armci@NAME, together with a copy of the archive of ARMCI for that library, and
 * the library's mpiexec starts the ranks.
 *
 * Message memory comes from ARMCI_Malloc, which every rank calls; a rank names its peers' memory by the addresses that
 * it has there. ARMCI has no messages of its own: those of patterns that send and receive are made of puts and flags
 * (kit/put_messages.h), which the receiver polls.
 *
 * A blocking call of ARMCI cannot be interrupted, so *context->abort is checked between them; netpipe ends a rank that
 * hangs in one with its process. ARMCI reports hardly any errors: where it fails it ends the process.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <armci.h>
#include <limits.h>

#include "armci_families.h" /* written by `netpipe modules add`: how the library is asked what it stands on */
#include "kit/libraries/over_mpi.h"
#include "kit/libraries/own_streams.h"
#include "kit/put_messages.h"
#include "netpipe/waiting.h"

#define PAGE UINT64_C(4096)
#define CELLS 64
#define CELL_BYTES 8192
#define WINDOWS 8
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

enum { OP_CELLS, OP_PUT };
enum { STRIDED_AUTO };
enum { OPTION_OP, OPTION_EAGER, OPTION_STRIDED, OPTION_TRANSPORT };

static const np_option options[] = {
    {.name = "op",
     .type = NP_CHOICE,
     .default_value = "cells",
     .choices = "cells|put",
     .unit = "",
     .help =
         "how puts make a message: through cells that the receiver empties, and above the option eager to the place "
         "that the receiver posts; or put: straight to the place that was announced for the visit",
     .tunable = 1,
     .applies_to = NP_USES_MESSAGES},
    {.name = "eager",
     .type = NP_SIZE,
     .default_value = "8k",
     .min = 0,
     .max = 1 << 20,
     .unit = "bytes",
     .help = "op=cells: largest message that goes through cells without asking its receiver first",
     .tunable = 1,
     .applies_to = NP_USES_MESSAGES,
     .unsupported = "with op=put: every message goes straight to its place"},
    {.name = "strided",
     .type = NP_CHOICE,
     .default_value = "auto",
     .choices = "auto|DIRECT|IOV",
     .unit = "",
     .help = "how ARMCI makes a strided transfer: its own choice, one transfer with a datatype, or a list of segments "
             "(ARMCI_STRIDED_METHOD)",
     .applies_to = NP_USES_STRIDED},
    OM_OPTION_TRANSPORT,
};
#define OPTIONS (sizeof options / sizeof *options)

/* Memory of ARMCI_Malloc, from a page on. */
struct window {
  void** bases; /* of ARMCI_Malloc, by rank; NULL: this one is free */
  void** far;   /* from a page on, by rank */
  uint64_t bytes;
};

struct np_endpoint {
  const np_context* context;
  struct pm_ends messages;
  struct om_mpi mpi;
  int placing; /* op=put */
  int started; /* ARMCI runs */
  struct window windows[WINDOWS];
};

/* ---------------------------------------------------------------------------------------------- memory */

static inline void* page_of(void* memory) { return (void*)(((uintptr_t)memory + PAGE - 1) / PAGE * PAGE); }

static struct window* window_of(np_endpoint* e, const void* memory, size_t bytes) {
  const char* const at = memory;
  for (struct window* w = e->windows; w < e->windows + WINDOWS; ++w) {
    if (w->bases == NULL) continue;
    const char* const base = w->far[e->mpi.rank];
    if (at >= base && bytes <= w->bytes && at <= base + (w->bytes - bytes)) return w;
  }
  return NULL;
}

/* Collective, and in the same order on all ranks, so that a window has the same number everywhere. */
static np_status armci_alloc(np_endpoint* e, size_t bytes, void** memory) {
  const size_t nranks = (size_t)e->mpi.nranks;
  struct window* w = e->windows;
  while (w < e->windows + WINDOWS && w->bases != NULL) ++w;
  if (w == e->windows + WINDOWS) {
    return om_fail(e->context, NP_UNSUPPORTED, "more than %d pieces of ARMCI memory", WINDOWS);
  }
  void** const bases = calloc(2 * nranks, sizeof *bases);
  if (bases == NULL) return om_fail(e->context, NP_NO_MEMORY, "no memory for the addresses of %zu ranks", nranks);
  if (ARMCI_Malloc(bases, (armci_size_t)(bytes + PAGE)) != 0) {
    free(bases);
    return om_fail(e->context, NP_NO_MEMORY, "ARMCI_Malloc gives no %zu bytes", bytes + PAGE);
  }
  *w = (struct window){bases, bases + nranks, bytes};
  for (size_t i = 0; i < nranks; ++i) w->far[i] = page_of(bases[i]);
  *memory = w->far[e->mpi.rank];
  memset(*memory, 0, bytes);
  return NP_OK;
}

static void armci_free(np_endpoint* e, void* memory, size_t bytes) {
  struct window* const w = window_of(e, memory, 1);
  (void)bytes;
  if (w == NULL) return;
  if (om_may_end(&e->mpi)) ARMCI_Free(w->bases[e->mpi.rank]);
  free(w->bases);
  *w = (struct window){NULL, NULL, 0};
}

/* ---------------------------------------------------------------------------------------------- for put_messages.h */

static inline const np_context* pm_context(const np_endpoint* e) { return e->context; }

static inline np_status pm_put(np_endpoint* e, int peer, void* far, const void* near, size_t bytes) {
  if (UNLIKELY(ARMCI_Put((void*)(uintptr_t)near, far, (int)bytes, peer) != 0)) {
    return om_fail(e->context, NP_FAILED, "ARMCI_Put of %zu bytes to rank %d fails", bytes, peer);
  }
  return NP_OK;
}

static inline np_status pm_order(np_endpoint* e, int peer) {
  (void)e;
  ARMCI_Fence(peer);
  return NP_OK;
}

static inline np_status pm_word(np_endpoint* e, int peer, uint64_t* far, uint64_t value) {
  if (UNLIKELY(ARMCI_PutValueLong((long)value, far, peer) != 0)) {
    return om_fail(e->context, NP_FAILED, "ARMCI_PutValueLong to rank %d fails", peer);
  }
  return NP_OK;
}

/* Most libraries move a transfer only while its target calls them. */
static inline void pm_progress(np_endpoint* e) {
  int there = 0;
  (void)MPI_Iprobe(MPI_ANY_SOURCE, 2, e->mpi.comm, &there, MPI_STATUS_IGNORE);
}

static inline void* pm_far(np_endpoint* e, const struct pm_ends* m, int peer, size_t offset) {
  (void)e;
  return (char*)m->far_blocks[peer] + offset;
}

/* The number of the window, and behind it where in that. */
enum { PLACE_BITS = 48 };
static inline uint64_t pm_token(np_endpoint* e, const void* memory, size_t bytes) {
  const struct window* const w = window_of(e, memory, bytes);
  if (w == NULL) return 0;
  const uint64_t place = (uint64_t)((const char*)memory - (const char*)w->far[e->mpi.rank]);
  return (uint64_t)(w - e->windows + 1) << PLACE_BITS | place;
}

static inline void* pm_place(np_endpoint* e, int peer, uint64_t token) {
  const struct window* const w = &e->windows[(token >> PLACE_BITS) - 1];
  return (char*)w->far[peer] + (token & ((UINT64_C(1) << PLACE_BITS) - 1));
}

/* ---------------------------------------------------------------------------------------------- open and close */

static void armci_close(np_endpoint* e) {
  if (om_may_end(&e->mpi)) {
    for (struct window* w = e->windows; w < e->windows + WINDOWS; ++w) {
      if (w->bases != NULL) armci_free(e, w->far[e->mpi.rank], w->bytes);
    }
    if (e->started) ARMCI_Finalize();
    MPI_Comm_free(&e->mpi.comm);
    MPI_Finalize();
  }
  free(e->messages.peers);
  free(e);
}

static np_status look_by_put(np_endpoint* e, int right, int left) {
  struct pm_ends* const m = &e->messages;
  (void)left;
  const np_status status = pm_put(e, right, pm_far(e, m, right, pm_cell_at(m, m->rank, 0)),
                                  m->block + pm_cell_at(m, m->rank, 1), OM_LOOK_BYTES);
  ARMCI_Barrier();
  return status;
}

static np_status make_ends(np_endpoint* e) {
  struct pm_ends* const m = &e->messages;
  m->rank = e->mpi.rank;
  m->nranks = e->mpi.nranks;
  m->slots = CELLS;
  m->cell = CELL_BYTES;
  m->eager = (uint64_t)e->context->options[OPTION_EAGER].number;
  m->placed_bytes = PM_NEVER;
  m->yields = e->context->oversubscribed != 0;
  m->progress_mask = 15;
  m->peers = calloc((size_t)m->nranks, sizeof *m->peers);
  if (m->peers == NULL) return om_fail(e->context, NP_NO_MEMORY, "no memory for %d peers", m->nranks);
  void* memory = NULL;
  PM_TRY(armci_alloc(e, pm_block_bytes(m), &memory));
  m->block = memory;
  m->far_blocks = window_of(e, memory, 1)->far;
  ARMCI_Barrier();
  return NP_OK;
}

/* Collective, as MPI_Init is: only here may a module with a launcher wait for the other ranks. */
static np_status begin(np_endpoint* e) {
  const np_context* const c = e->context;
  const int transport = (int)c->options[OPTION_TRANSPORT].number;
  const np_value* const strided = &c->options[OPTION_STRIDED];
  if (strided->number != STRIDED_AUTO && om_set(&e->mpi, "ARMCI_STRIDED_METHOD", strided->text) != 0) {
    return om_fail(c, NP_FAILED, "cannot set ARMCI_STRIDED_METHOD in the environment");
  }
  PM_TRY(om_begin(&e->mpi, c, transport, families));
  if (ARMCI_Init() != 0) return om_fail(c, NP_FAILED, "ARMCI_Init fails");
  e->started = 1;
  PM_TRY(make_ends(e));
  PM_TRY(om_look(&e->mpi, transport, c->options[OPTION_TRANSPORT].text, look_by_put, e));
  if (e->mpi.found == OM_FOUND_TCP) e->messages.progress_mask = 0;
  return NP_OK;
}

static np_status armci_open(const np_context* context, np_endpoint** endpoint) {
  np_endpoint* const e = calloc(1, sizeof *e);
  if (e == NULL) return om_fail(context, NP_NO_MEMORY, "no memory for an endpoint");
  e->context = context;
  e->placing = context->options[OPTION_OP].number == OP_PUT;
  const np_status status = begin(e);
  if (status != NP_OK) {
    e->mpi.broken = 1; /* the other ranks may have gone on */
    e->mpi.context = context;
    armci_close(e);
    return status;
  }
  *endpoint = e;
  return NP_OK;
}

static np_status armci_bootstrap(np_endpoint* e, np_bootstrap* bootstrap) { return om_bootstrap(&e->mpi, bootstrap); }

/* ---------------------------------------------------------------------------------------------- before a visit */

/* Collective. Forgets what an interrupted visit left behind, and tells all ranks where messages of this one land. */
static np_status armci_prepare(np_endpoint* e, const np_visit* visit) {
  struct pm_ends* const m = &e->messages;
  ARMCI_Barrier();
  pm_reset(m);
  m->here = visit->incoming;
  const int placed = e->placing && (visit->uses & NP_USES_MESSAGES) != 0;
  m->placed_bytes = placed ? visit->bytes : PM_NEVER;
  const uint64_t token = placed && m->here.count > 0 ? pm_token(e, m->here.base, 1) : 0;
  const uint64_t mine[] = {token, m->here.stride, m->here.count, m->here.next};
  uint64_t* const all = calloc((size_t)m->nranks, sizeof mine);
  if (all == NULL) return om_fail(e->context, NP_NO_MEMORY, "no memory for the places of %d ranks", m->nranks);
  const int code = MPI_Allgather(mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, e->mpi.comm);
  np_status status = code == MPI_SUCCESS ? NP_OK : om_failed(&e->mpi, code, "MPI_Allgather");
  for (int peer = 0; placed && peer < m->nranks && status == NP_OK; ++peer) {
    const uint64_t* const far = &all[4 * peer];
    struct pm_peer* const p = &m->peers[peer];
    p->far_base = far[0];
    p->far_stride = far[1];
    p->far_count = far[2];
    p->far_next = far[3];
    if (far[0] == 0) {
      status =
          om_fail(e->context, NP_UNSUPPORTED,
                  "op=put: where the messages of rank %d will land is not known before they are sent, or is not in "
                  "memory of ARMCI: choose op=cells",
                  peer);
    }
  }
  free(all);
  return status;
}

/* ---------------------------------------------------------------------------------------------- messages */

static np_status armci_send(np_endpoint* e, int peer, const void* data, size_t bytes) {
  struct pm_ends* const m = &e->messages;
  return bytes == m->placed_bytes ? pm_send_placed(e, m, peer, data, bytes) : pm_send(e, m, peer, data, bytes);
}

static np_status armci_recv(np_endpoint* e, int peer, void* data, size_t bytes) {
  struct pm_ends* const m = &e->messages;
  return bytes == m->placed_bytes ? pm_recv_placed(e, m, peer, data, bytes) : pm_recv(e, m, peer, data, bytes);
}

static np_status armci_isend(np_endpoint* e, int peer, const void* data, size_t stride, size_t bytes,
                             np_request* requests, size_t count) {
  return pm_isend(e, &e->messages, peer, data, stride, bytes, requests, count);
}

static np_status armci_irecv(np_endpoint* e, int peer, void* data, size_t stride, size_t bytes, np_request* requests,
                             size_t count) {
  return pm_irecv(e, &e->messages, peer, data, stride, bytes, requests, count);
}

/* A put or get with a handle of ARMCI, which lies in the first words of its request. */
enum { PM_TRANSFER = PM_AWAITS_EVENT + 1 };
_Static_assert(sizeof(armci_hdl_t) <= PM_KIND * sizeof(uint64_t), "a handle fits in front of the kind of a request");
static inline armci_hdl_t* handle_in(np_request* r) { return (armci_hdl_t*)(void*)r->word; }

static __attribute__((noinline)) np_status wait_for_transfers(np_endpoint* e, np_request* requests, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (requests[i].word[PM_KIND] != PM_TRANSFER) {
      PM_TRY(pm_wait(e, &e->messages, &requests[i], 1));
    } else if (UNLIKELY(ARMCI_Wait(handle_in(&requests[i])) != 0)) {
      return om_fail(e->context, NP_FAILED, "ARMCI_Wait fails");
    }
  }
  return NP_OK;
}

static np_status armci_wait(np_endpoint* e, np_request* requests, size_t count) {
  if (UNLIKELY(count > 0 && requests->word[PM_KIND] == PM_TRANSFER)) return wait_for_transfers(e, requests, count);
  return pm_wait(e, &e->messages, requests, count);
}
/* ARMCI_Test of ARMCI-MPI waits, too. */
static np_status armci_test(np_endpoint* e, np_request* request) {
  if (UNLIKELY(request->word[PM_KIND] == PM_TRANSFER)) return wait_for_transfers(e, request, 1);
  return pm_test(e, &e->messages, request);
}

/* ---------------------------------------------------------------------------------------------- one-sided */

static np_status armci_expose(np_endpoint* e, void* memory, size_t bytes, np_region* region) {
  const uint64_t token = pm_token(e, memory, bytes);
  if (token == 0) {
    return om_fail(e->context, NP_UNSUPPORTED,
                   "peers can reach only memory of ARMCI, and these messages lie elsewhere");
  }
  *region = (np_region){.base = memory, .bytes = bytes, .key_bytes = sizeof token};
  memcpy(region->key, &token, sizeof token);
  return NP_OK;
}

static np_status armci_attach(np_endpoint* e, int peer, np_region* region) {
  uint64_t token = 0;
  if (region->key_bytes == sizeof token) memcpy(&token, region->key, sizeof token);
  const uint64_t number = token >> PLACE_BITS;
  if (number == 0 || number > WINDOWS || e->windows[number - 1].bases == NULL) {
    return om_fail(e->context, NP_FAILED, "rank %d names memory of ARMCI that rank %d does not know", peer,
                   e->mpi.rank);
  }
  region->word[0] = (uint64_t)(uintptr_t)pm_place(e, peer, token);
  return NP_OK;
}

static void armci_withdraw(np_endpoint* e, np_region* region) { (void)e, (void)region; }

static inline char* far_of(const np_region* region, size_t offset) {
  return (char*)(uintptr_t)region->word[0] + offset;
}

static __attribute__((cold, noinline)) np_status call_failed(np_endpoint* e, const char* call, int peer) {
  return om_fail(e->context, NP_FAILED, "%s with rank %d fails", call, peer);
}
#define OUTCOME(call, name) return UNLIKELY((call) != 0) ? call_failed(e, name, peer) : NP_OK

static np_status armci_put(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset,
                           size_t bytes) {
  OUTCOME(ARMCI_Put((void*)(uintptr_t)source, far_of(target, offset), (int)bytes, peer), "ARMCI_Put");
}

static np_status armci_get(np_endpoint* e, int peer, void* target, const np_region* source, size_t offset,
                           size_t bytes) {
  OUTCOME(ARMCI_Get(far_of(source, offset), target, (int)bytes, peer), "ARMCI_Get");
}

/* ARMCI_NbPut or ARMCI_NbGet, whose arguments are alike. A constant for the compiler, which then calls it directly. */
typedef int transfer_call(void* from, void* to, int bytes, int peer, armci_hdl_t* handle);

static inline __attribute__((always_inline)) np_status start_all(np_endpoint* e, transfer_call* call, const char* name,
                                                                 int peer, char* from, size_t from_stride, char* to,
                                                                 size_t to_stride, size_t bytes, np_request* requests,
                                                                 size_t count) {
  for (size_t i = 0; i < count; ++i, from += from_stride, to += to_stride) {
    armci_hdl_t* const handle = handle_in(&requests[i]);
    ARMCI_INIT_HANDLE(handle);
    requests[i].word[PM_KIND] = PM_TRANSFER;
    if (UNLIKELY(call(from, to, (int)bytes, peer, handle) != 0)) return call_failed(e, name, peer);
  }
  return NP_OK;
}

static np_status armci_iput(np_endpoint* e, int peer, const void* source, size_t near_stride, const np_region* target,
                            size_t offset, size_t far_stride, size_t bytes, np_request* requests, size_t count) {
  return start_all(e, ARMCI_NbPut, "ARMCI_NbPut", peer, (char*)(uintptr_t)source, near_stride, far_of(target, offset),
                   far_stride, bytes, requests, count);
}

static np_status armci_iget(np_endpoint* e, int peer, void* target, size_t near_stride, const np_region* source,
                            size_t offset, size_t far_stride, size_t bytes, np_request* requests, size_t count) {
  return start_all(e, ARMCI_NbGet, "ARMCI_NbGet", peer, far_of(source, offset), far_stride, target, near_stride, bytes,
                   requests, count);
}

static np_status armci_flush(np_endpoint* e, int peer) {
  (void)e;
  ARMCI_Fence(peer);
  return NP_OK;
}

/* Ends with a fence of all ranks. */
static np_status armci_barrier(np_endpoint* e) {
  (void)e;
  ARMCI_Barrier();
  return NP_OK;
}

static np_status armci_put_signal(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset,
                                  size_t bytes, uint64_t value) {
  struct pm_ends* const m = &e->messages;
  PM_TRY(pm_signal_room(e, m, peer));
  const uint64_t number = m->peers[peer].signals_out++;
  if (bytes > 0) PM_TRY(armci_put(e, peer, source, target, offset, bytes));
  ARMCI_Fence(peer);
  return pm_word(e, peer, (uint64_t*)pm_far(e, m, peer, pm_signal_at(m, m->rank, number)),
                 pm_signal_word(number, value));
}

static np_status armci_await_signal(np_endpoint* e, int peer, uint64_t* value) {
  return pm_await_signal(e, &e->messages, peer, value);
}

static np_status armci_put_strided(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset,
                                   const np_strided* shape) {
  int near = (int)shape->near_stride, far = (int)shape->far_stride;
  int count[2] = {(int)shape->block_bytes, (int)shape->blocks};
  OUTCOME(ARMCI_PutS((void*)(uintptr_t)source, &near, far_of(target, offset), &far, count, 1, peer), "ARMCI_PutS");
}

static np_status armci_get_strided(np_endpoint* e, int peer, void* target, const np_region* source, size_t offset,
                                   const np_strided* shape) {
  int near = (int)shape->near_stride, far = (int)shape->far_stride;
  int count[2] = {(int)shape->block_bytes, (int)shape->blocks};
  OUTCOME(ARMCI_GetS(far_of(source, offset), &far, target, &near, count, 1, peer), "ARMCI_GetS");
}

static np_status armci_accumulate(np_endpoint* e, int peer, const double* source, const np_region* target,
                                  size_t offset, size_t count) {
  double scale = 1;
  OUTCOME(ARMCI_Acc(ARMCI_ACC_DBL, &scale, (void*)(uintptr_t)source, far_of(target, offset),
                    (int)(count * sizeof(double)), peer),
          "ARMCI_Acc");
}

/* ---------------------------------------------------------------------------------------------- atomics */

/* ARMCI_Rmw adds an int to a long. */
static np_status armci_fetch_add(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t operand,
                                 uint64_t compare, uint64_t* fetched) {
  long before = 0;
  (void)compare;
  if (UNLIKELY((int64_t)operand > INT_MAX || (int64_t)operand < INT_MIN)) {
    return om_fail(e->context, NP_UNSUPPORTED, "ARMCI_Rmw adds an int, and %lld is none", (long long)operand);
  }
  if (UNLIKELY(ARMCI_Rmw(ARMCI_FETCH_AND_ADD_LONG, &before, far_of(target, offset), (int)(int64_t)operand, peer) !=
               0)) {
    return call_failed(e, "ARMCI_Rmw", peer);
  }
  *fetched = (uint64_t)before;
  return NP_OK;
}

static np_status armci_swap(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t operand,
                            uint64_t compare, uint64_t* fetched) {
  long value = (long)operand;
  (void)compare;
  if (UNLIKELY(ARMCI_Rmw(ARMCI_SWAP_LONG, &value, far_of(target, offset), 0, peer) != 0)) {
    return call_failed(e, "ARMCI_Rmw", peer);
  }
  *fetched = (uint64_t)value;
  return NP_OK;
}

static np_atomic_call armci_atomic(np_endpoint* e, np_atomic what) {
  (void)e;
  return what == NP_ATOMIC_FETCH_ADD ? armci_fetch_add : what == NP_ATOMIC_SWAP ? armci_swap : NULL;
}

/* ---------------------------------------------------------------------------------------------- what it tells */

static np_status armci_limits(np_endpoint* e, np_limits* limits) {
  limits->empty = 1;
  limits->any_memory = !e->placing;
  limits->max_message_bytes = INT_MAX; /* ARMCI counts bytes in an int */
  return NP_OK;
}

static void armci_describe(np_endpoint* e, np_emit emit, void* to) {
  om_describe(&e->mpi, 1, emit, to);
  np_emit_text(emit, to, "wait", np_waiting_word(e->context->oversubscribed ? NP_WAIT_YIELD : NP_WAIT_POLL));
}

/* The library was loaded with this file, or this would not run. */
static np_status armci_probe(char* message, size_t message_bytes) {
  (void)message, (void)message_bytes;
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- the table */

static const np_messages messages = {
    .size = sizeof(np_messages), .send = armci_send, .recv = armci_recv, .isend = armci_isend, .irecv = armci_irecv};
static const np_one_sided one_sided = {.size = sizeof(np_one_sided),
                                       .expose = armci_expose,
                                       .attach = armci_attach,
                                       .withdraw = armci_withdraw,
                                       .put = armci_put,
                                       .get = armci_get,
                                       .fence = armci_barrier,
                                       .flush = armci_flush,
                                       .iput = armci_iput,
                                       .iget = armci_iget,
                                       .put_signal = armci_put_signal,
                                       .await_signal = armci_await_signal,
                                       .put_strided = armci_put_strided,
                                       .get_strided = armci_get_strided,
                                       .atomic = armci_atomic,
                                       .accumulate = armci_accumulate};
static const np_memory own_memory = {
    .size = sizeof(np_memory), .kind = NP_MEMORY_LAYER, .host_access = 1, .alloc = armci_alloc, .free = armci_free};
static const np_memory* const memories[] = {&own_memory, NULL};

static np_module module = {
    .magic = NP_MAGIC,
    .abi = NP_ABI,
    .size = sizeof(np_module),
    .name = "armci",
    .summary = "puts, gets, strided transfers and messages of ARMCI over an MPI library",
    .adds = "ARMCI over MPI",
    .options = options,
    .noptions = OPTIONS,
    .option_bytes = sizeof(np_option),
    .process_model = NP_LAUNCHED,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .crosses_hosts = 1,
    .messages = &messages,
    .one_sided = &one_sided,
    .memories = memories,
    .probe = armci_probe,
    .open = armci_open,
    .close = armci_close,
    .bootstrap = armci_bootstrap,
    .limits = armci_limits,
    .wait = armci_wait,
    .test = armci_test,
    .barrier = armci_barrier,
    .describe = armci_describe,
    .prepare = armci_prepare,
};

/* The only exported name. */
__attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  module.version = om_version("ARMCI", families);
  return &module;
}
