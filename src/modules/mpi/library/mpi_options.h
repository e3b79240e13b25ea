/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that every MPI has, those that several families share, and the table of the library at hand: it is put
 * together once, when the library is known.
 */
#ifndef NETPIPE_MPI_OPTIONS_H
#define NETPIPE_MPI_OPTIONS_H

#include "mpi_family.h"

/* The order of the enums is that of the choices. */
enum { OP_SEND, OP_ISEND, OP_PERSISTENT, OP_SSEND, OP_BSEND, OP_RSEND, OP_PUT, OP_GET, OP_ACCUMULATE, OP_PARTITIONED };
enum { SYNC_FENCE, SYNC_PSCW, SYNC_LOCK, SYNC_LOCK_ALL, SYNC_NONE };
#if HAVE_MPI_3
enum { WINDOW_AUTO, WINDOW_ALLOCATE, WINDOW_CREATE, WINDOW_DYNAMIC, WINDOW_SHARED };
#else
enum { WINDOW_AUTO, WINDOW_CREATE };
#endif
enum { TYPE_BYTES, TYPE_CONTIGUOUS, TYPE_VECTOR, TYPE_INDEXED };
enum { MEMORY_HOST, MEMORY_CUDA };
enum { YIELD_AUTO, YIELD_YES, YIELD_NO };
enum { FLUSH_TARGET, FLUSH_ALL, FLUSH_LOCAL };
enum { ATOMICS_FETCH_AND_OP, ATOMICS_GET_ACCUMULATE };

#define TWO_SIDED_OPERATIONS "send|isend|persistent|ssend|bsend|rsend"
#define OPERATIONS TWO_SIDED_OPERATIONS "|put|get|accumulate" WITH_PARTITIONED
#if HAVE_PARTITIONED
#define WITH_PARTITIONED "|partitioned"
#else
#define WITH_PARTITIONED
#endif
#define SYNCHRONISATIONS "fence|pscw" WITH_PASSIVE_TARGET
#if HAVE_PASSIVE_TARGET
#define WITH_PASSIVE_TARGET "|lock|lock_all|none"
#else
#define WITH_PASSIVE_TARGET
#endif
#if !HAVE_MPI_3
#define WINDOW_KINDS "auto|create"
#elif HAVE_SHARED_WINDOWS
#define WINDOW_KINDS "auto|allocate|create|dynamic|shared"
#else
#define WINDOW_KINDS "auto|allocate|create|dynamic"
#endif

static const np_option first_options[] = {
    {.name = "op",
     .type = NP_CHOICE,
     .default_value = "send",
     .choices = OPERATIONS,
     .unit = "",
     .help = "how a message is sent: MPI_Send, MPI_Isend with MPI_Wait, a persistent request, MPI_Ssend, MPI_Bsend, "
             "MPI_Rsend, one-sided by MPI_Put, MPI_Get or MPI_Accumulate, or in partitions",
     .tunable = NP_TUNABLE_CALLING,
     .applies_to = NP_USES_MESSAGES | NP_USES_COLLECTIVES},
    {.name = "reuse",
     .type = NP_BOOL,
     .default_value = "yes",
     .unit = "",
     .help = "op=persistent and partitioned: make one request per buffer and restart it; no makes one per message",
     .applies_to = NP_USES_MESSAGES | NP_USES_COLLECTIVES},
    {.name = "waitall",
     .type = NP_BOOL,
     .default_value = "no",
     .unit = "",
     .help =
         "wait for requests by MPI_Waitall, at most 1024 in a call, as osu_bw does; no waits for one after the other",
     .applies_to = NP_USES_REQUESTS},
#if HAVE_PARTITIONED
    {.name = "partitions",
     .type = NP_INT,
     .default_value = "4",
     .min = 1,
     .max = 4096,
     .unit = "",
     .help = "op=partitioned: partitions of a message, marked ready together, or by the threads of pattern "
             "partitioned; fewer where this number does not divide its size",
     .tunable = NP_TUNABLE_CALLING,
     .applies_to = NP_USES_MESSAGES},
#endif
    {.name = "sync",
     .type = NP_CHOICE,
     .default_value = "fence",
     .choices = SYNCHRONISATIONS,
     .unit = "",
     .help = "op=put, get, accumulate: what tells the other rank that a message has arrived: MPI_Win_fence, "
             "post-start-complete-wait, a lock per message, one lock with flushes, or only a counter put behind it",
     .applies_to = NP_USES_MESSAGES},
    {.name = "window",
     .type = NP_CHOICE,
     .default_value = "auto",
     .choices = WINDOW_KINDS,
     .unit = "",
     .help = "op=put, get, accumulate, and one-sided patterns: window memory allocated by the library, by netpipe, "
             "by netpipe and attached later, or shared by the ranks of a host; auto is allocate for these ops where "
             "the library has it, and create for the patterns",
     .applies_to = NP_USES_MESSAGES | NP_USES_ONE_SIDED | NP_USES_STRIDED},
#if HAVE_MPI_3
    {.name = "flush",
     .type = NP_CHOICE,
     .default_value = "target",
     .choices = "target|all|local",
     .unit = "",
     .help = "patterns put, get, strided, accumulate, atomic and signal: what completes an operation: MPI_Win_flush, "
             "MPI_Win_flush_all, or MPI_Win_flush_local, after which a source may be used again and nothing has to "
             "have arrived",
     .applies_to = NP_USES_ONE_SIDED | NP_USES_STRIDED},
    {.name = "atomics",
     .type = NP_CHOICE,
     .default_value = "fetch_and_op",
     .choices = "fetch_and_op|get_accumulate",
     .unit = "",
     .help = "pattern atomic, what fetches: MPI_Fetch_and_op, or MPI_Get_accumulate of one element",
     .applies_to = NP_USES_ONE_SIDED},
#endif
    {.name = "any_source",
     .type = NP_BOOL,
     .default_value = "no",
     .unit = "",
     .help = "receive from MPI_ANY_SOURCE instead of naming the sender",
     .applies_to = NP_USES_MESSAGES},
    {.name = "type",
     .type = NP_CHOICE,
     .default_value = "bytes",
     .choices = "bytes|contiguous|vector|indexed",
     .unit = "",
     .help = "datatype of a message: MPI_BYTE, or derived from blocks in order, column by column, or scattered",
     .applies_to = NP_USES_MESSAGES | NP_USES_ONE_SIDED},
    {.name = "block",
     .type = NP_SIZE,
     .default_value = "64",
     .min = 1,
     .max = 1 << 20,
     .unit = "bytes",
     .help = "type=contiguous, vector, indexed: size of a block",
     .applies_to = NP_USES_MESSAGES | NP_USES_ONE_SIDED},
    {.name = "stride",
     .type = NP_SIZE,
     .default_value = "256",
     .min = 1,
     .max = 64 << 20,
     .unit = "bytes",
     .help = "type=vector: distance between blocks of a column, a multiple of block",
     .applies_to = NP_USES_MESSAGES | NP_USES_ONE_SIDED},
#if HAVE_MPI_3
    {.name = "memory",
     .type = NP_CHOICE,
     .default_value = "host",
     .choices = "host|cuda",
     .unit = "",
     .help = "where messages are: in memory of the host, or of a CUDA device, for a library that was built for it"},
    {.name = "cuda_device",
     .type = NP_INT,
     .default_value = "-1",
     .min = -1,
     .max = 255,
     .unit = "",
     .help = "memory=cuda: number of the device of every rank, as the driver counts them; -1 gives the ranks of a host "
             "its devices in turn"},
#endif
    {.name = "thread",
     .type = NP_CHOICE,
     .default_value = "single",
     .choices = "single|funneled|serialized|multiple",
     .unit = "",
     .help = "thread level requested from MPI_Init_thread; multiple makes the library lock"},
};

static const np_option last_options[] = {
    {.name = "env",
     .type = NP_TEXT,
     .default_value = "",
     .unit = "",
     .help = "more environment for the library: NAME=VALUE;NAME=VALUE, with | for a comma and ! for a semicolon in a "
             "value"},
};

/* ---------------------------------------------------------------------------------------------- shared by families */

#define OPTION_TRANSPORT(choices_, help_) \
  {.name = "transport",                   \
   .type = NP_CHOICE,                     \
   .default_value = "auto",               \
   .choices = choices_,                   \
   .unit = "",                            \
   .help = help_,                         \
   .tunable = 1}
/* A number of bytes; 0 leaves it to the library. */
#define OPTION_BYTES(name_, help_)               \
  {.name = name_,                                \
   .type = NP_SIZE,                              \
   .default_value = "0",                         \
   .min = 0,                                     \
   .max = 1 << 30,                               \
   .unit = "bytes",                              \
   .help = help_ "; 0 is the library's default", \
   .tunable = 1}
#define OPTION_EAGER OPTION_BYTES("eager", "largest message sent without asking its receiver first")
#define OPTION_SNDBUF OPTION_BYTES("sndbuf", "SO_SNDBUF of the library's sockets")
#define OPTION_RCVBUF OPTION_BYTES("rcvbuf", "SO_RCVBUF of the library's sockets")
#define OPTION_SINGLE_COPY                                                                                     \
  {.name = "single_copy",                                                                                      \
   .type = NP_CHOICE,                                                                                          \
   .default_value = "auto",                                                                                    \
   .choices = "auto|cma|none",                                                                                 \
   .unit = "",                                                                                                 \
   .help = "large messages in shared memory: copied once by the kernel (process_vm_readv), or never that way", \
   .tunable = 1}
#define OPTION_YIELD                                                                 \
  {.name = "yield",                                                                  \
   .type = NP_CHOICE,                                                                \
   .default_value = "auto",                                                          \
   .choices = "auto|yes|no",                                                         \
   .unit = "",                                                                       \
   .help = "a waiting rank yields its processor; auto yields where ranks share one", \
   .tunable = NP_TUNABLE_WAITING}
#define OPTIONS_END {.name = NULL}

/* ---------------------------------------------------------------------------------------------- the library */

#define NOT_ONE_SIDED TWO_SIDED_OPERATIONS "|partitioned"
static const struct refusal common_refusals[] = {
    {"sync", NULL, "op", NOT_ONE_SIDED, NULL, "only op=put, get and accumulate synchronise a window"},
    {"any_source", "yes", "op", "put|get|accumulate", NULL, "the transfers of a window name their rank"},
    {"any_source", "yes", "op", "partitioned", NULL, "a partitioned receive must name its sender"},
    {"sync", "none", "op", "get", NULL, "only synchronisation tells that the message has arrived"},
    {"window", "shared", "transport", "tcp|ucx_tcp|ofi_tcp", NULL, "it is memory that the ranks share"},
    {"block", NULL, "type", "bytes", NULL, "only a derived datatype has blocks"},
    {"stride", NULL, "type", "bytes|contiguous|indexed", NULL, "only the blocks of type=vector are apart"},
    {"partitions", NULL, "op", TWO_SIDED_OPERATIONS "|put|get|accumulate", NULL, "only op=partitioned has them"},
    {"reuse", NULL, "op", "send|isend|ssend|bsend|rsend|put|get|accumulate", NULL, "only persistent requests are kept"},
    {"op", "partitioned", "type", "contiguous|vector|indexed", NULL, "it sends plain bytes"},
    /* What Open MPI's documentation names as working with memory of a device, and what it does not. */
    {"memory", "cuda", "op", "accumulate|partitioned", NULL, "no library promises that for memory of a device"},
    {"memory", "cuda", "window", "allocate|dynamic|shared", NULL, "only MPI_Win_create takes memory of a device"},
    {"cuda_device", NULL, "memory", "host", NULL, "only memory=cuda is on a device"},
    {.option = NULL},
};

static inline void identify_library(struct library* l, const struct family* const* families) {
  char text[8192] = ""; /* MPI_MAX_LIBRARY_VERSION_STRING is that or less */
#if HAVE_MPI_3
  /* One of the few calls that may come before MPI_Init. */
  char said[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  if (MPI_Get_library_version(said, &length) == MPI_SUCCESS) snprintf(text, sizeof text, "%s", said);
#endif
  for (; *families != NULL && l->family == NULL; ++families) {
    if ((*families)->identify(l, text)) l->family = *families;
  }
  if (l->family != NULL) {
    l->quirks |= l->family->quirks;
  } else if (*text != '\0') {
    snprintf(l->version, sizeof l->version, "%.*s", (int)strcspn(text, ",\n"), text);
  } else {
    snprintf(l->version, sizeof l->version, "an MPI of version %d.%d", MPI_VERSION, MPI_SUBVERSION);
  }
  l->major = (int)strtol(l->version + strcspn(l->version, "0123456789"), NULL, 10);
}

/* ---------------------------------------------------------------------------------------------- the table */

#define MOST_OPTIONS 32
#define UNSUPPORTED_BYTES 512
struct option_table {
  np_option all[MOST_OPTIONS];
  int count;
  char unsupported[MOST_OPTIONS][UNSUPPORTED_BYTES];
};

/* Where this option is in the table; -1: this library does not have it. */
static inline int place_of_option(const struct option_table* table, const char* name) {
  for (int i = 0; i < table->count; ++i) {
    if (strcmp(table->all[i].name, name) == 0) return i;
  }
  return -1;
}

static inline void add_option(struct option_table* table, const np_option* option) {
  if (table->count < MOST_OPTIONS) table->all[table->count++] = *option;
}

/* As src/catalog/unsupported.h reads it: "VALUES with OPTION=VALUES: why; ...". */
static inline void tell_refusals(struct option_table* table, const struct library* l, const struct refusal* one) {
  for (; one != NULL && one->option != NULL; ++one) {
    const int place = place_of_option(table, one->option);
    if (place < 0 || (one->with != NULL && place_of_option(table, one->with) < 0)) continue;
    if (one->applies != NULL && !one->applies(l)) continue;
    char* const text = table->unsupported[place];
    const size_t used = strlen(text);
    const char* const values = one->values != NULL ? one->values : "";
    const int beside = one->with != NULL, conditional = beside || one->values != NULL;
    snprintf(text + used, UNSUPPORTED_BYTES - used, "%s%s%s%s%s%s%s%s%s", used > 0 ? "; " : "", values,
             beside && *values != '\0' ? " " : "", beside ? "with " : "", beside ? one->with : "", beside ? "=" : "",
             beside ? one->with_values : "", conditional ? ": " : "", one->why);
    table->all[place].unsupported = text;
  }
}

static inline void build_options(struct option_table* table, const struct library* l) {
  table->count = 0;
  for (size_t i = 0; i < sizeof first_options / sizeof *first_options; ++i) add_option(table, &first_options[i]);
  const np_option* own = l->family != NULL ? l->family->options : NULL;
  for (; own != NULL && own->name != NULL; ++own) add_option(table, own);
  for (size_t i = 0; i < sizeof last_options / sizeof *last_options; ++i) add_option(table, &last_options[i]);
  tell_refusals(table, l, common_refusals);
  if (l->family != NULL) tell_refusals(table, l, l->family->refusals);
}

#endif
