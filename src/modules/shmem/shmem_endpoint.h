/* SPDX-License-Identifier: Apache-2.0
 *
 * What one process knows of one variant, its options, and what put_messages.h calls.
 */
#ifndef NETPIPE_SHMEM_ENDPOINT_H
#define NETPIPE_SHMEM_ENDPOINT_H

#include <shmem.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/put_messages.h"
#include "netpipe/module.h"
#include "netpipe/waiting.h"

#define HAVE_PUT_SIGNAL (SHMEM_MAJOR_VERSION * 100 + SHMEM_MINOR_VERSION >= 105)
#define COLD __attribute__((cold, noinline))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Call through the address that the loader filled in, not through a stub. */
/* NOLINTBEGIN(readability-redundant-parentheses): __typeof__ has them */
extern __typeof__(shmem_putmem) shmem_putmem __attribute__((noplt));
extern __typeof__(shmem_getmem) shmem_getmem __attribute__((noplt));
extern __typeof__(shmem_quiet) shmem_quiet __attribute__((noplt));
extern __typeof__(shmem_fence) shmem_fence __attribute__((noplt));
extern __typeof__(shmem_uint64_p) shmem_uint64_p __attribute__((noplt));
/* NOLINTEND(readability-redundant-parentheses) */

/* The order of the enums is that of the choices. */
enum { OP_CELLS, OP_PUT };
enum { ORDER_FENCE, ORDER_QUIET, ORDER_NONE };
enum { FLAG_P, FLAG_ATOMIC };
enum { AWAIT_LOAD, AWAIT_UNTIL };
enum { TRANSPORT_AUTO, TRANSPORT_SHM, TRANSPORT_POSIX, TRANSPORT_SYSV, TRANSPORT_TCP };
enum { SCOLL_AUTO, SCOLL_MPI, SCOLL_BASIC };
enum {
  OPTION_OP,
  OPTION_EAGER,
  OPTION_ORDER,
  OPTION_FLAG,
  OPTION_AWAIT,
  OPTION_NBI,
  OPTION_TRANSPORT,
  OPTION_SCOLL,
  OPTION_HEAP,
  OPTION_ENV
};

#define CELL_BYTES 8192
#define CELLS 64
#define CONTROL_BYTES 4096

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
    {.name = "order",
     .type = NP_CHOICE,
     .default_value = "fence",
     .choices = "fence|quiet|none",
     .unit = "",
     .help = "what keeps the flag of a message behind its bytes: shmem_fence, shmem_quiet, or nothing, which the "
             "standard does not allow and some transports forgive",
     .applies_to = NP_USES_MESSAGES},
    {.name = "flag",
     .type = NP_CHOICE,
     .default_value = "p",
     .choices = "p|atomic",
     .unit = "",
     .help = "how the flag of a message is written: by shmem_uint64_p or shmem_ulong_atomic_set",
     .tunable = 1,
     .applies_to = NP_USES_MESSAGES},
    {.name = "await",
     .type = NP_CHOICE,
     .default_value = "load",
     .choices = "load|until",
     .unit = "",
     .help = "how a receiver looks for the flag: plain loads, with calls into the library in between, or "
             "shmem_uint64_wait_until (op=put)",
     .tunable = 1,
     .applies_to = NP_USES_MESSAGES,
     .unsupported = "until with op=cells: a receiver there has more to watch than one flag"},
    {.name = "nbi",
     .type = NP_BOOL,
     .default_value = "no",
     .unit = "",
     .help = "patterns that put and get call shmem_putmem_nbi and shmem_getmem_nbi",
     .tunable = 1,
     .applies_to = NP_USES_ONE_SIDED},
    {.name = "transport",
     .type = NP_CHOICE,
     .default_value = "auto",
     .choices = "auto|shm|posix|sysv|tcp",
     .unit = "",
     .help = "what UCX may use below the library (UCX_TLS): its own choice, memory shared by any means, by POSIX or by "
             "System V, or TCP",
     .tunable = 1},
    {.name = "scoll",
     .type = NP_CHOICE,
     .default_value = "auto",
     .choices = "auto|mpi|basic",
     .unit = "",
     .help = "who carries collectives and barriers out: the library's choice, its MPI, or its own algorithms over puts",
     .tunable = 1},
    {.name = "heap",
     .type = NP_SIZE,
     .default_value = "0",
     .min = 0,
     .max = INT64_C(1) << 40,
     .unit = "bytes",
     .help = "size of the symmetric heap (SHMEM_SYMMETRIC_HEAP_SIZE); 0 is what the largest message needs"},
    {.name = "env",
     .type = NP_TEXT,
     .default_value = "",
     .unit = "",
     .help = "more environment for the library: NAME=VALUE;NAME=VALUE, with | for a comma in a value"},
};
#define OPTIONS (sizeof options / sizeof *options)

/* Symmetric memory that messages lie in. */
struct piece {
  char* base;
  size_t bytes;
};
#define PIECES 8

/* Where collectives of this size work, and their places for synchronisation in turn. */
#define SYNCS 32

struct np_endpoint {
  /* first what every message needs */
  const np_context* context;
  int order, flag, until, nbi;
  struct pm_ends messages; /* of patterns */
  struct pm_ends control;  /* of the set-up */
  struct piece pieces[PIECES];
  struct piece work; /* of the collective that is being carried out, if it needs some */

  int rank, nranks;
  int initialised, broken; /* broken: the other ranks may not come to a collective call */
  int transport_found;
  int connections;
  struct places* places; /* of all ranks, in symmetric memory */
  long* syncs;           /* SYNCS arrays for collectives */
  unsigned sync_turn;
  char* small; /* for operands that are in no symmetric memory: SMALL_BYTES for the source, as many for the target */
  struct setting {
    char name[64], value[256];
  } settings[16];
  int nsettings;
  char heap_memory[128]; /* the mapping that the symmetric heap lies in, as the kernel names it */
};

/* What a rank announces of a visit. */
struct places {
  uint64_t base, stride, count, next;
};

__attribute__((format(printf, 3, 4))) static COLD np_status fail(const np_context* context, np_status status,
                                                                 const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(context->message, context->message_bytes, format, arguments);
  va_end(arguments);
  return status;
}

static inline int64_t number_of(const np_context* context, int option) { return context->options[option].number; }
static inline const char* text_of(const np_context* context, int option) { return context->options[option].text; }

static inline const struct piece* piece_of(const np_endpoint* e, const void* memory, size_t bytes) {
  const char* const at = memory;
  for (const struct piece* p = e->pieces; p < e->pieces + PIECES; ++p) {
    if (p->base != NULL && at >= p->base && bytes <= p->bytes && at <= p->base + (p->bytes - bytes)) return p;
  }
  return NULL;
}

/* ---------------------------------------------------------------------------------------------- for put_messages.h
 * Symmetric memory has one address on all ranks. */

static inline const np_context* pm_context(const np_endpoint* e) { return e->context; }

static inline np_status pm_put(np_endpoint* e, int peer, void* far, const void* near, size_t bytes) {
  (void)e;
  shmem_putmem(far, near, bytes, peer);
  return NP_OK;
}

static inline np_status pm_order(np_endpoint* e, int peer) {
  (void)peer;
  if (__builtin_expect(e->order == ORDER_FENCE, 1)) {
    shmem_fence();
  } else if (e->order == ORDER_QUIET) {
    shmem_quiet();
  }
  return NP_OK;
}

static inline np_status pm_word(np_endpoint* e, int peer, uint64_t* far, uint64_t value) {
  if (__builtin_expect(e->flag == FLAG_P, 1)) {
    shmem_uint64_p(far, value, peer);
  } else {
    shmem_ulong_atomic_set(far, value, peer);
  }
  return NP_OK;
}

/* The standard has no call that only makes progress. A test does it by the standard, and not in Open MPI, which has a
 * function of its own that all its waits call. */
extern void opal_progress(void) __attribute__((weak));
static inline void pm_progress(np_endpoint* e) {
  if (opal_progress != NULL) {
    opal_progress();
  } else {
    (void)shmem_uint64_test((uint64_t*)(void*)e->control.block, SHMEM_CMP_EQ, UINT64_MAX);
  }
}

static inline void* pm_far(np_endpoint* e, const struct pm_ends* m, int peer, size_t offset) {
  (void)e, (void)peer;
  return m->block + offset;
}

static inline uint64_t pm_token(np_endpoint* e, const void* memory, size_t bytes) {
  return piece_of(e, memory, bytes) != NULL ? (uint64_t)(uintptr_t)memory : 0;
}

static inline void* pm_place(np_endpoint* e, int peer, uint64_t token) {
  (void)e, (void)peer;
  return (void*)(uintptr_t)token;
}

#endif
