/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract between netpipe and a module: the binding to one communication layer.
 *
 * A module is a shared library that exports one function,
 *
 *     const np_module *netpipe_module(void);
 *
 * and nothing else. It may be written in C or C++, in or out of the tree, with any compiler; this header is all
 * that it needs (examples/ring.c is a complete one). netpipe loads it with dlopen, checks the table and refuses
 * what does not fit, naming both sides of the mismatch.
 *
 * The laws of a module:
 *   - It never prints, never exits, never reads argv or environment settings of netpipe's, never raises a C++
 *     exception across this boundary, and never changes a signal handler.
 *   - In a timed call (send .. flush, an np_collective_call) it neither allocates nor frees nor logs.
 *   - Every wait ends: a loop that polls looks at *context->abort, a blocking system call that returns EINTR looks at
 *     *context->abort and goes on waiting when it is 0. When it is not 0 the call returns NP_ABORTED within 100 ms.
 *   - On failure it returns a status other than NP_OK and leaves one sentence in context->message: what happened and
 *     what to do. Outputs are written on success only.
 *   - An endpoint is used by one thread. Several endpoints of one module may be open in one process, in any state.
 *
 * Units: bytes and nanoseconds. Ranks count from 0. Every pointer is owned by whom its comment names.
 */
#ifndef NETPIPE_MODULE_H
#define NETPIPE_MODULE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NP_MAGIC UINT64_C(0x314550495054454e) /* the bytes "NETPIPE1" on a little-endian machine */
#define NP_ABI UINT32_C(3)                    /* raised when an existing field changes its meaning or place */
#define NP_ENTRY "netpipe_module"

/* What a call came to. 2, 3 and 4 are also the exit codes that they lead to. */
typedef enum np_status {
  NP_OK = 0,
  NP_PENDING = 1,     /* test(): not complete yet */
  NP_USAGE = 2,       /* an option's value makes no sense for this layer */
  NP_UNAVAILABLE = 3, /* not on this machine: a library, a device, a permission is missing */
  NP_FAILED = 4,      /* the layer failed */
  NP_PEER_LOST = 5,   /* the other side has gone */
  NP_ABORTED = 6,     /* *context->abort was raised: a deadline, an interrupt, a lost peer */
  NP_NO_MEMORY = 7,
  NP_UNSUPPORTED = 8 /* this operation with these settings; the pattern is then reported as skipped */
} np_status;

/* ---------------------------------------------------------------------------------------------- options */

typedef enum np_type {
  NP_BOOL = 0,   /* "yes" or "no"; number is 1 or 0 */
  NP_INT = 1,    /* number within [min, max] */
  NP_SIZE = 2,   /* a number of bytes within [min, max]; "64k", "1M" (k = 1024) */
  NP_CHOICE = 3, /* one word of choices; number is its place in the list, counted from 0 */
  NP_TEXT = 4    /* any text without ',' ; text is set, number is 0 */
} np_type;

/* One option. This table alone makes the help, the validation, `netpipe list --json`, the reference page and the
 * search space of `netpipe tune`. */
typedef struct np_option {
  const char* name; /* lower case, no spaces: "sndbuf" */
  np_type type;
  const char* default_value; /* as the user would write it; never NULL */
  int64_t min, max;          /* NP_INT and NP_SIZE: inclusive */
  const char* choices;       /* NP_CHOICE: "block|poll|hybrid"; else NULL */
  const char* unit;          /* "bytes", "us", "" */
  const char* help;          /* one sentence without a full stop */
  uint32_t tunable;          /* 1: it changes speed and not meaning, so tune may try other values */
  const char* unsupported;   /* which values this library cannot take and why (src/catalog/unsupported.h), or NULL */
} np_option;

/* The value of an option, resolved; arrays of these are in the order of the module's table. */
typedef struct np_value {
  int64_t number;
  const char* text; /* as resolved, never NULL; valid as long as the endpoint */
} np_value;

/* ---------------------------------------------------------------------------------------------- context */

/* What the core tells an endpoint. It outlives the endpoint. Read size before a field that a later version added. */
typedef struct np_context {
  uint32_t size;             /* sizeof(np_context) of the core */
  int32_t rank, nranks;      /* this process, and how many take part */
  const np_value* options;   /* in the order of the module's table */
  uint64_t max_bytes;        /* the largest message that will be asked for */
  const volatile int* abort; /* not 0: give up now and return NP_ABORTED */
  char* message;             /* room for one sentence, NUL-terminated */
  size_t message_bytes;      /* its size */
  const char* local_address; /* numeric address that this rank may bind to, "127.0.0.1" on one host */
  const char* job;           /* unguessable and the same on all ranks: for names, and to prove who connects */
  int64_t timeout_ns;        /* how long open, connect and reset may take */
  uint32_t oversubscribed;   /* 1: ranks share a processor, so a polling loop must yield */
  uint32_t reserved;
} np_context;

typedef struct np_endpoint np_endpoint; /* the module's own: one variant of it, open in one process */

/* An operation in flight; the module uses the words as it likes. Owned by the pattern. */
typedef struct np_request {
  uint64_t word[8];
} np_request;

/* Memory that peers may put to and get from. */
#define NP_KEY_BYTES 128
typedef struct np_region {
  void* base; /* where it begins, in the process that owns it */
  uint64_t bytes;
  uint64_t word[4];   /* the module's own */
  uint32_t key_bytes; /* what a peer needs to reach it; the core carries it there */
  uint8_t key[NP_KEY_BYTES];
} np_region;

typedef enum np_collective {
  NP_BCAST = 0,
  NP_REDUCE = 1,
  NP_ALLREDUCE = 2,
  NP_GATHER = 3,
  NP_ALLGATHER = 4,
  NP_SCATTER = 5,
  NP_REDUCE_SCATTER = 6, /* told a count for each rank; all are the same */
  NP_REDUCE_SCATTER_BLOCK = 7,
  NP_ALLTOALL = 8,
  NP_SCAN = 9,
  NP_EXSCAN = 10,
  /* As those without the v, but with a count and a place for each rank, and with w a type; all are the same. */
  NP_GATHERV = 11,
  NP_SCATTERV = 12,
  NP_ALLGATHERV = 13,
  NP_ALLTOALLV = 14,
  NP_ALLTOALLW = 15,
  /* Two neighbours each, in a ring of all ranks: the rank below, and then the one above. */
  NP_NEIGHBOR_ALLGATHER = 16,
  NP_NEIGHBOR_ALLTOALL = 17,
  NP_BARRIER = 18
} np_collective;

/* bytes is the contribution of one rank to one other, as in MPI; reductions sum doubles. With a request the operation
 * is started only and ends with wait or test. */
typedef np_status (*np_collective_call)(np_endpoint* endpoint, int root, const void* source, void* target, size_t bytes,
                                        np_request* request_or_null);

/* What an endpoint can do with these settings; zero means no limit. */
typedef struct np_limits {
  uint64_t max_message_bytes;
  uint64_t alignment; /* of buffers, in bytes */
  uint32_t delivers;  /* 1: what is sent arrives. 0: nothing arrives anywhere, so there is nothing to verify */
  uint32_t idle;      /* 1: no byte is even touched (null), so there is a time and no rate */
} np_limits;

/* Where the messages of a visit start or land, in turn: message i (from 0) at base + stride * ((next + i) % count).
 * count 0: at such places too, but some are used more often than others, and no rule says which comes next. */
typedef struct np_places {
  char* base;
  uint64_t stride, count, next;
} np_places;

/* How a pattern reaches into the memory of a peer. */
typedef enum np_reach {
  NP_REACH_NONE = 0,
  NP_REACH_PUT = 1, /* into its incoming places */
  NP_REACH_GET = 2  /* from its outgoing places */
} np_reach;

/* What the timed calls until the next prepare are about. Every rank has the same sizes and numbers of places. */
typedef struct np_visit {
  uint32_t size;  /* sizeof(np_visit) of the core */
  uint32_t reach; /* an np_reach: what put or get of this visit, on any rank, will name */
  uint64_t bytes; /* of each message */
  np_places outgoing, incoming;
} np_visit;

/* Takes one fact: a name and its value as text. Both are copied. */
typedef void (*np_emit)(void* to, const char* name, const char* value);

/* How the ranks of a library with a launcher of its own (mpirun, oshrun, pvm) talk before and between measurements.
 * Never used in the timed region. Both calls are blocking and obey *context->abort. */
typedef struct np_bootstrap {
  void* state;
  int32_t rank, nranks;
  np_status (*send)(void* state, int peer, const void* data, size_t bytes);
  np_status (*recv)(void* state, int peer, void* data, size_t bytes);
} np_bootstrap;

/* ---------------------------------------------------------------------------------------------- the table */

/* An operation that is NULL is one that the layer cannot do. There is no second list that could disagree. The core
 * checks that what belongs together is there together: open with close, send with recv, address with connect,
 * isend, irecv with wait and test, put or get with expose, attach and withdraw, alloc with free. */
typedef struct np_module {
  uint64_t magic;      /* NP_MAGIC */
  uint32_t abi;        /* NP_ABI */
  uint32_t size;       /* sizeof(np_module) */
  const char* name;    /* "tcp"; [a-z][a-z0-9_]* */
  const char* summary; /* one line without a full stop */
  const char* version; /* of the library that it binds: "glibc 2.36" */
  const char* below;   /* the module whose layer this one stands on, to read its loss against; or NULL */
  const char* adds;    /* what this layer adds to the one below: "TCP/IP"; or NULL */
  const np_option* options;
  uint32_t noptions;
  int32_t min_ranks; /* 1 and 1: it stays in one process; 2 and 2: pairs; 2 and INT32_MAX: any number */
  int32_t max_ranks;
  uint32_t crosses_hosts; /* 1: the ranks may be on different hosts */

  /* Can it be used here? NP_OK, or NP_UNAVAILABLE with a sentence that says what is missing and how to get it. */
  np_status (*probe)(char* message, size_t message_bytes);

  /* Opens one endpoint. Local: it may not wait for another rank. */
  np_status (*open)(const np_context* context, np_endpoint** endpoint);
  void (*close)(np_endpoint* endpoint);

  /* Only for libraries with a launcher of their own: the core then finds the ranks through it. */
  np_status (*bootstrap)(np_endpoint* endpoint, np_bootstrap* bootstrap);

  /* What the other ranks need to reach this one: at most *bytes at data; *bytes becomes what was written. */
  np_status (*address)(np_endpoint* endpoint, void* data, size_t* bytes);
  /* Collective. addresses[r] and bytes[r] are those of rank r, this rank's among them. */
  np_status (*connect)(np_endpoint* endpoint, const void* const* addresses, const size_t* bytes);
  /* Collective, outside the timed region: connections anew, before each sample of a pattern that asks for it. */
  np_status (*reset)(np_endpoint* endpoint);

  np_status (*limits)(np_endpoint* endpoint, np_limits* limits);

  /* Message memory, where the layer wants its own. Without them the core provides ordinary memory. */
  np_status (*alloc)(np_endpoint* endpoint, size_t bytes, void** memory);
  void (*free)(np_endpoint* endpoint, void* memory, size_t bytes);

  /* Two-sided. A message arrives whole, in order, at the receive that names its sender and its exact size.
   * With nranks 1 the peer is 0, the process itself: send moves a message to recv. */
  np_status (*send)(np_endpoint* endpoint, int peer, const void* data, size_t bytes);
  np_status (*recv)(np_endpoint* endpoint, int peer, void* data, size_t bytes);
  /* These start count messages, the i-th from or into data + i * stride, with requests[i]: in one call, because a layer
   * may do it in one (a chain of work requests, a system call), and because a call more for each is 2 % of a message
   * in shared memory. wait ends all of them, in any order; test looks at one. */
  np_status (*isend)(np_endpoint* endpoint, int peer, const void* data, size_t stride, size_t bytes,
                     np_request* requests, size_t count);
  np_status (*irecv)(np_endpoint* endpoint, int peer, void* data, size_t stride, size_t bytes, np_request* requests,
                     size_t count);
  np_status (*wait)(np_endpoint* endpoint, np_request* requests, size_t count);
  np_status (*test)(np_endpoint* endpoint, np_request* request);

  /* One-sided. expose opens own memory to peers and fills region and its key; attach turns a peer's region (base,
   * bytes and key as they came from there, no words) into one that put and get can name; withdraw undoes either. All
   * ranks call expose, and then withdraw of what they exposed, for the same memory in the same order, so both may be
   * collective; they are not timed. Where expose gives NP_UNSUPPORTED the patterns that need it are skipped, and all
   * others are measured.
   * A visit synchronises by flush or by fence and not by both; with fences, one comes before the first put or get. */
  np_status (*expose)(np_endpoint* endpoint, void* memory, size_t bytes, np_region* region);
  np_status (*attach)(np_endpoint* endpoint, int peer, np_region* region);
  void (*withdraw)(np_endpoint* endpoint, np_region* region);
  np_status (*put)(np_endpoint* endpoint, int peer, const void* source, const np_region* target, size_t offset,
                   size_t bytes);
  np_status (*get)(np_endpoint* endpoint, int peer, void* target, const np_region* source, size_t offset, size_t bytes);
  np_status (*fence)(np_endpoint* endpoint);           /* collective: all puts and gets of all ranks are done */
  np_status (*flush)(np_endpoint* endpoint, int peer); /* own puts are visible at peer, own gets have arrived */

  /* What carries this operation out; NULL: the layer does not have it. All ranks ask for the same in the same order,
   * outside the timed region, so it may make what the operation needs. A function for each, because one that told them
   * apart when it is called would jump where the operation before went, and the processor guesses that wrong. */
  np_collective_call (*collective)(np_endpoint* endpoint, np_collective what);
  /* Of a library with a launcher of its own it is also called after each visit, outside the timed region, so that what
   * it moves only while it is called gets where it belongs. */
  np_status (*barrier)(np_endpoint* endpoint);

  /* The settings as they really are (buffer sizes that the kernel gave, algorithms chosen, how it waits), and what
   * the layer has counted so far (retransmits, wake-ups). Of the settings two names are known to the core: "wait"
   * (block, poll, hybrid), and "below", the module that these settings really stand on, where that is not the table's.
   */
  void (*describe)(np_endpoint* endpoint, np_emit emit, void* to);
  void (*counters)(np_endpoint* endpoint, np_emit emit, void* to);

  /* Collective, outside the timed region, before each visit: what the messages will be, and where. For what a layer
   * would otherwise do in the first timed call (a datatype, a connection), keeps apart by size, or has to know of the
   * peer's places (one-sided transfers). */
  np_status (*prepare)(np_endpoint* endpoint, const np_visit* visit);
} np_module;

const np_module* netpipe_module(void);

#ifdef __cplusplus
}
#endif
#endif
