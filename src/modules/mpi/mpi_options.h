/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of every MPI, and which of them this library has. One binary of the MPI standard ABI serves several
 * libraries, so the table is put together when the library is known: at run time, once.
 */
#ifndef NETPIPE_MPI_OPTIONS_H
#define NETPIPE_MPI_OPTIONS_H

#include <ctype.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_api.h"
#include "netpipe/module.h"

enum { OF_OPENMPI = 1, OF_MPICH = 2, OF_INTEL = 4, OF_LAM = 8, OF_SIMGRID = 16, OF_OTHER = 32, OF_ANY = 63 };

struct library {
  int family;
  int major;
  int ucx, ofi;      /* MPICH: the network modules that it was built with */
  int stale;         /* a persistent collective moves its own part only the first time */
  char version[128]; /* "Open MPI 4.1.4" */
};

enum {
  OP,
  REUSE,
  PARTITIONS,
  SYNC,
  WINDOW,
  ANY_SOURCE,
  TYPE,
  BLOCK,
  STRIDE,
  THREAD,
  TRANSPORT,
  RPI,
  EAGER,
  RNDV,
  SNDBUF,
  RCVBUF,
  SINGLE_COPY,
  YIELD,
  ENV,
  OPTIONS
};

enum { OP_SEND, OP_ISEND, OP_PERSISTENT, OP_SSEND, OP_BSEND, OP_RSEND, OP_PUT, OP_GET, OP_ACCUMULATE, OP_PARTITIONED };
enum { SYNC_FENCE, SYNC_PSCW, SYNC_LOCK, SYNC_LOCK_ALL, SYNC_NONE };
#if HAVE_MPI_3
enum { WINDOW_AUTO, WINDOW_ALLOCATE, WINDOW_CREATE, WINDOW_DYNAMIC, WINDOW_SHARED };
#if defined(SMPI_H)
/* SimGrid makes each look of MPI_Iprobe longer than the one before, and has no two ranks on one host. */
#define WINDOW_KINDS "auto|allocate|create|dynamic"
#define SYNCHRONISATIONS "fence|pscw"
#else
#define WINDOW_KINDS "auto|allocate|create|dynamic|shared"
#define SYNCHRONISATIONS "fence|pscw|lock|lock_all|none"
#endif
#else
/* LAM's mpi.h has MPI_Win_lock, and its library has not. */
enum { WINDOW_AUTO, WINDOW_CREATE };
#define WINDOW_KINDS "auto|create"
#define SYNCHRONISATIONS "fence|pscw"
#endif
enum { TYPE_BYTES, TYPE_CONTIGUOUS, TYPE_VECTOR, TYPE_INDEXED };
enum { YIELD_AUTO, YIELD_YES, YIELD_NO };

#if HAVE_PARTITIONED
#define OPERATIONS "send|isend|persistent|ssend|bsend|rsend|put|get|accumulate|partitioned"
#else
#define OPERATIONS "send|isend|persistent|ssend|bsend|rsend|put|get|accumulate"
#endif

/* An option of one or more families; one that two families understand differently stands here twice. */
struct offered {
  int option;
  int families;
  np_option as;
};

static const struct offered offers[] = {
    {OP,
     OF_ANY,
     {.name = "op",
      .type = NP_CHOICE,
      .default_value = "send",
      .choices = OPERATIONS,
      .unit = "",
      .help = "how a message is sent: MPI_Send, MPI_Isend with MPI_Wait, a persistent request, MPI_Ssend, MPI_Bsend, "
              "MPI_Rsend, one-sided by MPI_Put, MPI_Get or MPI_Accumulate, or in partitions",
      .tunable = 1}},
    {REUSE,
     OF_ANY,
     {.name = "reuse",
      .type = NP_BOOL,
      .default_value = "yes",
      .unit = "",
      .help = "op=persistent and partitioned: a request is made once for each buffer; no makes it for each message",
      .tunable = 0}},
#if HAVE_PARTITIONED
    {PARTITIONS,
     OF_ANY,
     {.name = "partitions",
      .type = NP_INT,
      .default_value = "4",
      .min = 1,
      .max = 4096,
      .unit = "",
      .help = "op=partitioned: parts of a message; fewer where so many do not divide it evenly",
      .tunable = 1}},
#endif
    {SYNC,
     OF_ANY,
     {.name = "sync",
      .type = NP_CHOICE,
      .default_value = "fence",
      .choices = SYNCHRONISATIONS,
      .unit = "",
      .help = "op=put, get, accumulate: what tells that a message is there: MPI_Win_fence, post-start-complete-wait, a "
              "lock for each, one lock with flushes, or nothing but a counter behind it",
      .tunable = 0}},
    {WINDOW,
     OF_ANY,
     {.name = "window",
      .type = NP_CHOICE,
      .default_value = "auto",
      .choices = WINDOW_KINDS,
      .unit = "",
      .help = "op=put, get, accumulate, and patterns put and get: whose memory peers may reach: the library's, ours, "
              "ours as it is attached, or what the ranks of a host share; auto is allocate for these ops where the "
              "library has it, and create for the patterns",
      .tunable = 0}},
    {ANY_SOURCE,
     OF_ANY,
     {.name = "any_source",
      .type = NP_BOOL,
      .default_value = "no",
      .unit = "",
      .help = "receives name MPI_ANY_SOURCE instead of the sender",
      .tunable = 0}},
    {TYPE,
     OF_ANY,
     {.name = "type",
      .type = NP_CHOICE,
      .default_value = "bytes",
      .choices = "bytes|contiguous|vector|indexed",
      .unit = "",
      .help = "datatype of a message: MPI_BYTE, or derived from blocks in order, column by column, or scattered",
      .tunable = 0}},
    {BLOCK,
     OF_ANY,
     {.name = "block",
      .type = NP_SIZE,
      .default_value = "64",
      .min = 1,
      .max = 1 << 20,
      .unit = "bytes",
      .help = "type=contiguous, vector, indexed: size of a block",
      .tunable = 0}},
    {STRIDE,
     OF_ANY,
     {.name = "stride",
      .type = NP_SIZE,
      .default_value = "256",
      .min = 1,
      .max = 64 << 20,
      .unit = "bytes",
      .help = "type=vector: from one block of a column to the next, a multiple of block",
      .tunable = 0}},
    {THREAD,
     OF_ANY,
     {.name = "thread",
      .type = NP_CHOICE,
      .default_value = "single",
      .choices = "single|funneled|serialized|multiple",
      .unit = "",
      .help = "thread level that MPI_Init_thread is asked for; multiple makes the library lock",
      .tunable = 0}},
    {TRANSPORT,
     OF_OPENMPI,
     {.name = "transport",
      .type = NP_CHOICE,
      .default_value = "auto",
      .choices = "auto|shm|tcp|ucx|ucx_shm|ucx_tcp|ofi|ofi_tcp",
      .unit = "",
      .help = "what carries messages: the library's choice, its own shared memory or TCP (btl), or UCX or libfabric "
              "with what they choose or are told",
      .tunable = 1}},
    {TRANSPORT,
     OF_MPICH,
     {.name = "transport",
      .type = NP_CHOICE,
      .default_value = "auto",
      .choices = "auto|shm|tcp|ucx|ucx_shm|ucx_tcp|ofi|ofi_tcp",
      .unit = "",
      .help = "what carries messages: the library's choice, its own shared memory, TCP as it comes, or UCX or "
              "libfabric, also between two ranks of one host",
      .tunable = 1}},
    {TRANSPORT,
     OF_INTEL,
     {.name = "transport",
      .type = NP_CHOICE,
      .default_value = "auto",
      .choices = "auto|shm|tcp|ofi",
      .unit = "",
      .help = "what carries messages: the library's choice, its own shared memory, libfabric's TCP, or libfabric's "
              "choice",
      .tunable = 1}},
    {TRANSPORT,
     OF_LAM,
     {.name = "transport",
      .type = NP_CHOICE,
      .default_value = "auto",
      .choices = "auto|shm|tcp",
      .unit = "",
      .help = "what carries messages: the library's choice, shared memory (rpi usysv) or TCP (rpi tcp)",
      .tunable = 1}},
    {RPI,
     OF_LAM,
     {.name = "rpi",
      .type = NP_CHOICE,
      .default_value = "auto",
      .choices = "auto|tcp|usysv|sysv|lamd",
      .unit = "",
      .help = "request progression interface: TCP, shared memory with spin locks, shared memory with semaphores, or "
              "through the daemons",
      .tunable = 1}},
    {EAGER,
     OF_OPENMPI | OF_MPICH | OF_INTEL | OF_LAM,
     {.name = "eager",
      .type = NP_SIZE,
      .default_value = "0",
      .min = 0,
      .max = 1 << 30,
      .unit = "bytes",
      .help = "largest message that is sent without asking its receiver first; 0 is the library's own",
      .tunable = 1}},
    {RNDV,
     OF_OPENMPI,
     {.name = "rndv",
      .type = NP_SIZE,
      .default_value = "0",
      .min = 0,
      .max = 1 << 30,
      .unit = "bytes",
      .help = "transport=shm and tcp: first part of a message that waits for its receiver; 0 is the library's own",
      .tunable = 1}},
    {SNDBUF,
     OF_OPENMPI | OF_MPICH,
     {.name = "sndbuf",
      .type = NP_SIZE,
      .default_value = "0",
      .min = 0,
      .max = 1 << 30,
      .unit = "bytes",
      .help = "SO_SNDBUF of the library's sockets; 0 is the library's own",
      .tunable = 1}},
    {SNDBUF,
     OF_LAM,
     {.name = "sndbuf",
      .type = NP_SIZE,
      .default_value = "0",
      .min = 0,
      .max = 1 << 30,
      .unit = "bytes",
      .help = "SO_SNDBUF and SO_RCVBUF of the library's sockets; 0 is the library's own",
      .tunable = 1}},
    {RCVBUF,
     OF_OPENMPI | OF_MPICH,
     {.name = "rcvbuf",
      .type = NP_SIZE,
      .default_value = "0",
      .min = 0,
      .max = 1 << 30,
      .unit = "bytes",
      .help = "SO_RCVBUF of the library's sockets; 0 is the library's own",
      .tunable = 1}},
    {SINGLE_COPY,
     OF_OPENMPI | OF_MPICH | OF_INTEL,
     {.name = "single_copy",
      .type = NP_CHOICE,
      .default_value = "auto",
      .choices = "auto|cma|none",
      .unit = "",
      .help = "large messages in shared memory: one copy by the kernel (process_vm_readv), or none of that",
      .tunable = 1}},
    {YIELD,
     OF_OPENMPI | OF_MPICH | OF_INTEL,
     {.name = "yield",
      .type = NP_CHOICE,
      .default_value = "auto",
      .choices = "auto|yes|no",
      .unit = "",
      .help = "a rank that waits gives its processor away; auto does so where ranks share one",
      .tunable = 1}},
    {ENV,
     OF_ANY,
     {.name = "env",
      .type = NP_TEXT,
      .default_value = "",
      .unit = "",
      .help = "further environment of the library: NAME=VALUE;NAME=VALUE, with | for a comma in a value",
      .tunable = 0}},
};

/* ---------------------------------------------------------------------------------------------- the library */

/* "Open MPI v4.1.4, package: ..." becomes "Open MPI 4.1.4"; the first line or phrase of what it says of itself. */
static inline void read_version(struct library* l, const char* text) {
  const char* line = strstr(text, "MPICH Version:");
  if (strncmp(text, "Open MPI v", 10) == 0) {
    l->family = OF_OPENMPI;
    snprintf(l->version, sizeof l->version, "Open MPI %.*s", (int)strcspn(text + 10, ",\n"), text + 10);
  } else if (strstr(text, "Intel(R) MPI Library") != NULL) {
    l->family = OF_INTEL;
    const char* number = strstr(text, "Intel(R) MPI Library") + strlen("Intel(R) MPI Library");
    number += strspn(number, " ");
    snprintf(l->version, sizeof l->version, "Intel MPI %.*s", (int)strcspn(number, " \n"), number);
  } else if (line != NULL) {
    l->family = OF_MPICH;
    line += strlen("MPICH Version:");
    line += strspn(line, " \t");
    snprintf(l->version, sizeof l->version, "MPICH %.*s", (int)strcspn(line, " \t\n"), line);
    /* "MPICH Device: ch4:ucx,ofi" */
    const char* device = strstr(text, "MPICH Device:");
    if (device != NULL) {
      char words[128];
      snprintf(words, sizeof words, "%.*s", (int)strcspn(device, "\n"), device);
      l->ucx = strstr(words, "ucx") != NULL;
      l->ofi = strstr(words, "ofi") != NULL;
    }
  } else if (strncmp(text, "SMPI Version ", 13) == 0) {
    l->family = OF_SIMGRID;
    const int length = (int)strspn(text + 13, "0123456789.");
    snprintf(l->version, sizeof l->version, "SimGrid %.*s", text[12 + length] == '.' ? length - 1 : length, text + 13);
  } else {
    l->family = OF_OTHER;
    snprintf(l->version, sizeof l->version, "%.*s", (int)strcspn(text, ",\n"), text);
  }
  /* Found by verification in 4.0.2 and in Intel 2021.19, which is built on it; right in 5.0.2. */
  l->stale = strncmp(l->version, "MPICH 4.0", 9) == 0 || l->family == OF_INTEL;
  const char* digit = l->version;
  while (*digit != '\0' && !isdigit((unsigned char)*digit)) ++digit;
  l->major = atoi(digit);
}

static inline void find_library(struct library* l) {
#if defined(LAM_MPI)
  l->family = OF_LAM;
  l->major = LAM_MAJOR_VERSION;
  snprintf(l->version, sizeof l->version, "LAM/MPI %d.%d.%d", LAM_MAJOR_VERSION, LAM_MINOR_VERSION,
           LAM_RELEASE_VERSION);
#elif HAVE_MPI_3
  /* One of the few calls that may come before MPI_Init. */
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) text[0] = '\0';
  read_version(l, text);
#else
  l->family = OF_OTHER;
  snprintf(l->version, sizeof l->version, "an MPI of version %d.%d", MPI_VERSION, MPI_SUBVERSION);
#endif
}

/* ---------------------------------------------------------------------------------------------- the table */

/* What this library offers, in the order of the enum, and where each option is in that table (-1: it has none). */
struct option_table {
  np_option all[OPTIONS];
  int count;
  int place[OPTIONS];
};

static inline void build_options(struct option_table* table, int family) {
  table->count = 0;
  for (int option = 0; option < OPTIONS; ++option) table->place[option] = -1;
  for (size_t i = 0; i < sizeof offers / sizeof *offers; ++i) {
    if ((offers[i].families & family) == 0) continue;
    table->place[offers[i].option] = table->count;
    table->all[table->count++] = offers[i].as;
  }
}

#endif
