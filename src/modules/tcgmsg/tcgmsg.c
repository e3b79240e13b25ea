/* SPDX-License-Identifier: Apache-2.0
 *
 * tcgmsg: SND, RCV and global operations of TCGMSG, the message-passing library of the 1990s that Global Arrays still
 * brings along, over an MPI library. It is not built with netpipe: `netpipe modules add tcgmsg --mpicc PATH` compiles
 * this file with the library's own compiler wrapper into tcgmsg@NAME, together with copies of the archives of Global
 * Arrays and ARMCI for that library, and the library's mpiexec starts the ranks.
 *
 * With sync=yes tcg_snd returns when its buffer may be used again; with sync=no it only starts the message, and
 * tcg_waitcom ends it. A message of TCGMSG has a type, which its receiver names.
 *
 * A blocking call of TCGMSG cannot be interrupted: netpipe ends a rank that hangs in one with its process. TCGMSG
 * reports no errors: where it fails it ends the process.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <limits.h>
#include <signal.h>
#include <tcgmsg.h>

#include "kit/libraries/over_mpi.h"
#include "kit/libraries/own_streams.h"
#include "netpipe/waiting.h"
#include "tcgmsg_families.h" /* written by `netpipe modules add`: how the library is asked what it stands on */

enum { TYPE_MESSAGE = 17, TYPE_LOOK = 18, TYPE_GLOBAL = 19 };
enum { OPTION_SYNC, OPTION_TRANSPORT };

static const np_option options[] = {
    {.name = "sync",
     .type = NP_BOOL,
     .default_value = "yes",
     .unit = "",
     .help = "SND and RCV wait until they are done; no starts them only, and WAITCOM ends them",
     .tunable = 1,
     .applies_to = NP_USES_MESSAGES},
    OM_OPTION_TRANSPORT,
};
#define OPTIONS (sizeof options / sizeof *options)

struct np_endpoint {
  const np_context* context;
  long sync;
  int started; /* TCGMSG runs */
  struct om_mpi mpi;
};

/* ---------------------------------------------------------------------------------------------- messages */

static np_status send_message(np_endpoint* e, int peer, const void* data, size_t bytes) {
  tcg_snd(TYPE_MESSAGE, (void*)(uintptr_t)data, (long)bytes, peer, e->sync);
  if (__builtin_expect(!e->sync, 0)) tcg_waitcom(peer);
  return NP_OK;
}

static np_status receive_message(np_endpoint* e, int peer, void* data, size_t bytes) {
  long length = 0, from = 0;
  tcg_rcv(TYPE_MESSAGE, data, (long)bytes, &length, peer, &from, e->sync);
  if (__builtin_expect(!e->sync, 0)) {
    tcg_waitcom(peer);
    return NP_OK;
  }
  if (__builtin_expect(length == (long)bytes, 1)) return NP_OK;
  return om_fail(e->context, NP_FAILED, "RCV got %ld bytes from rank %d and not %zu", length, peer, bytes);
}

/* ---------------------------------------------------------------------------------------------- global operations */

struct planned {
  size_t count, bytes; /* elements, and what they have together */
  int root, in_place;
  char operation[4]; /* as DGOP and IGOP name it */
};

static np_status broadcast(np_endpoint* e, void* state, const void* source, void* target, np_request* request) {
  const struct planned* const p = state;
  (void)request;
  tcg_brdcst(TYPE_GLOBAL, e->mpi.rank == p->root ? (void*)(uintptr_t)source : target, (long)p->bytes, p->root);
  return NP_OK;
}

/* They reduce in place, so what is not there already is copied: a program would have to. */
static np_status reduce_doubles(np_endpoint* e, void* state, const void* source, void* target, np_request* request) {
  struct planned* const p = state;
  (void)e, (void)request;
  if (!p->in_place) memcpy(target, source, p->bytes);
  tcg_dgop(TYPE_GLOBAL, target, (long)p->count, p->operation);
  return NP_OK;
}
static np_status reduce_longs(np_endpoint* e, void* state, const void* source, void* target, np_request* request) {
  struct planned* const p = state;
  (void)e, (void)request;
  if (!p->in_place) memcpy(target, source, p->bytes);
  tcg_igop(TYPE_GLOBAL, target, (long)p->count, p->operation);
  return NP_OK;
}

static np_status synchronise(np_endpoint* e, void* state, const void* source, void* target, np_request* request) {
  (void)e, (void)state, (void)source, (void)target, (void)request;
  tcg_synch(TYPE_GLOBAL);
  return NP_OK;
}

/* NULL: TCGMSG has no such operation. Its integers are those of C's long. */
static np_collective_call call_of(const np_collective_plan* plan) {
  if (plan->what == NP_BARRIER) return synchronise;
  if (plan->what == NP_BCAST && !plan->in_place) return broadcast;
  if (plan->what != NP_ALLREDUCE) return NULL;
  if (plan->datatype == NP_DOUBLE && plan->reduction <= NP_PROD) return reduce_doubles;
  return plan->datatype == NP_INT64 && plan->reduction <= NP_OR && sizeof(long) == 8 ? reduce_longs : NULL;
}

static np_status prepare_collective(np_endpoint* e, const np_collective_plan* plan, np_prepared* prepared) {
  static const char operations[][4] = {[NP_SUM] = "+",  [NP_MIN] = "min", [NP_MAX] = "max",
                                       [NP_PROD] = "*", [NP_AND] = "&",   [NP_OR] = "|"};
  static const size_t element_bytes[] = {
      [NP_BYTE] = 1, [NP_INT32] = 4, [NP_INT64] = 8, [NP_FLOAT] = 4, [NP_DOUBLE] = 8};
  const np_collective_call call = plan->datatype <= NP_DOUBLE ? call_of(plan) : NULL;
  if (call == NULL) {
    return om_fail(e->context, NP_UNSUPPORTED,
                   "TCGMSG has BRDCST, SYNCH, and reductions of doubles (DGOP) and of 64-bit integers (IGOP) whose "
                   "result all ranks have");
  }
  if (plan->requests) return om_fail(e->context, NP_UNSUPPORTED, "TCGMSG's global operations end in their call");
  if (plan->what != NP_BARRIER && plan->count == 0) {
    return om_fail(e->context, NP_UNSUPPORTED,
                   "a global operation of TCGMSG on no elements divides by their number, and ends the process");
  }
  struct planned* const p = calloc(1, sizeof *p);
  if (p == NULL) return om_fail(e->context, NP_NO_MEMORY, "no memory for a global operation");
  p->count = plan->count;
  p->bytes = plan->count * element_bytes[plan->datatype];
  p->root = plan->root;
  p->in_place = plan->in_place != 0;
  if (plan->what == NP_ALLREDUCE) memcpy(p->operation, operations[plan->reduction], sizeof p->operation);
  *prepared = (np_prepared){call, p};
  return NP_OK;
}

static void release_collective(np_endpoint* e, np_prepared* prepared) {
  (void)e;
  free(prepared->state);
}

/* ---------------------------------------------------------------------------------------------- open and close */

static void tcgmsg_close(np_endpoint* e) {
  if (om_may_end(&e->mpi)) {
    MPI_Comm_free(&e->mpi.comm);
    /* This may end MPI as well. */
    int ended = 0;
    if (e->started) tcg_pend();
    if (MPI_Finalized(&ended) == MPI_SUCCESS && !ended) MPI_Finalize();
  }
  free(e);
}

/* Round the ring, one after the other: no two ranks wait for each other, whatever their number. */
static np_status look_by_message(np_endpoint* e, int right, int left) {
  static char out[OM_LOOK_BYTES], in[OM_LOOK_BYTES];
  long length = 0, from = 0;
  if (e->mpi.rank == 0) tcg_snd(TYPE_LOOK, out, sizeof out, right, 1);
  tcg_rcv(TYPE_LOOK, in, sizeof in, &length, left, &from, 1);
  if (e->mpi.rank != 0) tcg_snd(TYPE_LOOK, out, sizeof out, right, 1);
  return NP_OK;
}

/* Collective, as MPI_Init is: only here may a module with a launcher wait for the other ranks. */
static np_status begin(np_endpoint* e) {
  const int transport = (int)e->context->options[OPTION_TRANSPORT].number;
  char name[] = "netpipe-worker";
  char* words[] = {name, NULL};
  const np_status status = om_begin(&e->mpi, e->context, transport, families);
  if (status != NP_OK) return status;
  tcg_pbegin(1, words);
  e->started = 1;
  if (tcg_nodeid() != e->mpi.rank || tcg_nnodes() != e->mpi.nranks) {
    return om_fail(e->context, NP_FAILED, "TCGMSG numbers its processes otherwise than MPI does");
  }
  return om_look(&e->mpi, transport, e->context->options[OPTION_TRANSPORT].text, look_by_message, e);
}

static np_status tcgmsg_open(const np_context* context, np_endpoint** endpoint) {
  np_endpoint* const e = calloc(1, sizeof *e);
  if (e == NULL) return om_fail(context, NP_NO_MEMORY, "no memory for an endpoint");
  e->context = context;
  e->sync = (long)context->options[OPTION_SYNC].number;
  const np_status status = begin(e);
  if (status != NP_OK) {
    e->mpi.broken = 1; /* the other ranks may have gone on */
    e->mpi.context = context;
    tcgmsg_close(e);
    return status;
  }
  *endpoint = e;
  return NP_OK;
}

static np_status tcgmsg_bootstrap(np_endpoint* e, np_bootstrap* bootstrap) { return om_bootstrap(&e->mpi, bootstrap); }

/* ---------------------------------------------------------------------------------------------- what it tells */

static np_status tcgmsg_limits(np_endpoint* e, np_limits* limits) {
  (void)e;
  limits->empty = 1;
  limits->max_message_bytes = INT_MAX; /* MPI counts its bytes in an int */
  return NP_OK;
}

static np_status tcgmsg_barrier(np_endpoint* e) {
  (void)e;
  tcg_synch(TYPE_LOOK);
  return NP_OK;
}

static void tcgmsg_describe(np_endpoint* e, np_emit emit, void* to) {
  om_describe(&e->mpi, 0, emit, to);
  np_emit_text(emit, to, "wait", np_waiting_word(e->context->oversubscribed ? NP_WAIT_YIELD : NP_WAIT_POLL));
}

/* The library was loaded with this file, or this would not run. */
static np_status tcgmsg_probe(char* message, size_t message_bytes) {
  (void)message, (void)message_bytes;
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- the table */

static const np_messages messages = {.size = sizeof(np_messages), .send = send_message, .recv = receive_message};
static const np_collectives collectives = {
    .size = sizeof(np_collectives), .prepare = prepare_collective, .release = release_collective};

static np_module module = {
    .magic = NP_MAGIC,
    .abi = NP_ABI,
    .size = sizeof(np_module),
    .name = "tcgmsg",
    .summary = "SND, RCV and global operations of TCGMSG over an MPI library",
    .adds = "TCGMSG over MPI",
    .options = options,
    .noptions = OPTIONS,
    .option_bytes = sizeof(np_option),
    .process_model = NP_LAUNCHED,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .crosses_hosts = 1,
    .messages = &messages,
    .collectives = &collectives,
    .probe = tcgmsg_probe,
    .open = tcgmsg_open,
    .close = tcgmsg_close,
    .bootstrap = tcgmsg_bootstrap,
    .limits = tcgmsg_limits,
    .barrier = tcgmsg_barrier,
    .describe = tcgmsg_describe,
};

/* The only exported name. */
__attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  module.version = om_version("TCGMSG", families);
  return &module;
}
