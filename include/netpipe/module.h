/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract between netpipe and a module: the binding to one communication layer.
 *
 * A module is a shared library that exports one function,
 *
 *     const np_module *netpipe_module(void);
 *
 * and nothing else. It may be written in C or C++, inside or outside the source tree, with any compiler; this header
 * and netpipe/facts.h, which it includes, are all it needs (examples/ring.c is a complete module). netpipe loads it
 * with dlopen, checks its table and refuses what does not fit, naming both sides of the mismatch.
 *
 * The rules for a module:
 *   - It never prints, never exits, never reads argv or netpipe's own environment variables, never lets a C++ exception
 *     cross this boundary, and changes no signal handler but that of SIGIO, where a setting asks for that, while an
 *     endpoint is open.
 *   - In a timed call (send to flush, test and wait, an np_collective_call, an np_atomic_call) it neither allocates nor
 *     frees nor logs.
 *   - Every wait ends. A loop that polls reads *context->abort. A blocking system call that returns EINTR reads
 *     *context->abort and resumes while it is 0. Once it is not 0 the call returns NP_ABORTED within 100 ms.
 *   - On failure it returns a status other than NP_OK and leaves one sentence in context->message: what happened and
 *     what to do. It writes outputs on success only.
 *   - One thread uses an endpoint, but in a pattern of threads up to max_threads do. Thread t names its peer by rank +
 *     nranks * t in send, recv, isend and irecv, and only messages of the same t meet; before, all ranks call isend and
 *     irecv with count 0 for t = 1, 2, ..., and the layer answers NP_UNSUPPORTED where it cannot
 *     (docs/decisions/0026). One process may have several endpoints of one module open, in any state.
 *
 * How the contract grows: fields are only ever added at the end of a table, and every table carries its size in bytes.
 * netpipe accepts a shorter table (an older module) and takes what is missing as NULL or 0; it ignores what lies behind
 * the end of the tables that it knows (a newer module). A module does the same with what netpipe passes: it reads or
 * writes a field that a later version added only where the size says that it is there. NP_ABI changes when that is not
 * enough; then a module has to be compiled again.
 *
 * Units: bytes and nanoseconds. Ranks count from 0. The comment of each pointer says who owns what it points to.
 */
#ifndef NETPIPE_MODULE_H
#define NETPIPE_MODULE_H

#include <stddef.h>
#include <stdint.h>

#include "netpipe/facts.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NP_MAGIC UINT64_C(0x314550495054454e) /* the bytes "NETPIPE1" on a little-endian machine */
#define NP_ABI UINT32_C(4)                    /* raised when an existing field changes its meaning or place */
#define NP_ENTRY "netpipe_module"

/* The result of a call. 2, 3 and 4 are also the exit codes that they lead to. */
typedef enum np_status {
  NP_OK = 0,
  NP_PENDING = 1,     /* test: not complete yet */
  NP_USAGE = 2,       /* the value of an option makes no sense for this layer */
  NP_UNAVAILABLE = 3, /* not on this machine: a library, a device or a permission is missing */
  NP_FAILED = 4,      /* the layer failed */
  NP_PEER_LOST = 5,   /* the peer has gone */
  NP_ABORTED = 6,     /* *context->abort was raised: a deadline, an interrupt, a lost peer */
  NP_NO_MEMORY = 7,
  NP_UNSUPPORTED = 8, /* this operation with these settings; the pattern is then reported as skipped */
  NP_LOST = 9         /* this message did not arrive and will not (lossy layers only): it is counted, and the
                         measurement goes on */
} np_status;

/* ---------------------------------------------------------------------------------------------- options and facts */

typedef enum np_type {
  NP_BOOL = 0,   /* "yes" or "no"; number is 1 or 0 */
  NP_INT = 1,    /* number within [min, max] */
  NP_SIZE = 2,   /* a number of bytes within [min, max]; "64k", "1M" (k = 1024) */
  NP_CHOICE = 3, /* one word of choices; number is its index in the list, from 0 */
  NP_TEXT = 4    /* any text without ',' ; text is set, number is 0 */
} np_type;

/* The groups of operations, as bits. NP_USES_REQUESTS: messages that are started and waited for by requests.
 * NP_USES_CAST: messages from one rank to all others at once. NP_USES_STRIDED: put_strided and get_strided, which are
 * not among NP_USES_ONE_SIDED. */
enum {
  NP_USES_MESSAGES = 1,
  NP_USES_ONE_SIDED = 2,
  NP_USES_COLLECTIVES = 4,
  NP_USES_REQUESTS = 8,
  NP_USES_CAST = 16,
  NP_USES_STRIDED = 32
};

/* Does an option change speed and not meaning, so that a tuner may try other values? Waiting (it costs other programs
   processor time) and how the layer is called are tried only when asked for by name. Larger values are NP_TUNABLE. */
typedef enum np_tunable { NP_NOT_TUNABLE, NP_TUNABLE, NP_TUNABLE_WAITING, NP_TUNABLE_CALLING } np_tunable;

/* One option. The help, the validation, the completion and `netpipe list --json` are derived from this table alone. */
typedef struct np_option {
  const char* name; /* lower case, no spaces: "sndbuf" */
  np_type type;
  const char* default_value; /* as the user would write it; never NULL */
  int64_t min, max;          /* NP_INT and NP_SIZE: inclusive */
  const char* choices;       /* NP_CHOICE: "block|poll|hybrid"; else NULL */
  const char* unit;          /* "bytes", "us", "" */
  const char* help;          /* one sentence without a full stop */
  uint32_t tunable;          /* an np_tunable */
  uint32_t applies_to;       /* bits NP_USES_...: the operations that obey it; 0: all of them. A pattern that uses none
                                of these refuses a value other than the default: what is labelled was in force. */
  const char* unsupported;   /* which values this library cannot take and why (src/catalog/unsupported.h), or NULL */
} np_option;

/* The value of an option, resolved; arrays of these follow the order of the module's table. */
typedef struct np_value {
  int64_t number;
  const char* text; /* as resolved, never NULL; valid as long as the endpoint */
} np_value;

/* Something that the layer counts. It is read before and after every visit of a size, outside the timed region, so that
 * a retransmission stands beside the size that it belongs to. */
typedef enum np_counter_kind {
  NP_COUNTS_UP = 0, /* grows; a visit is given the difference */
  NP_GAUGE = 1      /* goes up and down; a visit is given the value at its end */
} np_counter_kind;
typedef struct np_counter {
  const char* name; /* lower case, with underscores: "retransmits" */
  const char* unit; /* "1", "bytes", "us" */
  const char* help; /* one phrase */
  uint32_t kind;    /* an np_counter_kind */
} np_counter;

/* What the layer says of the messages of a size beside their times and how many of them were lost: the sum of one
 * counter over that of another, of all ranks and visits. netpipe makes its interval from how much visits differ. */
typedef struct np_measure {
  const char* name;    /* as that of a counter, and not "loss": "reordered" */
  const char* unit;    /* "1": a share, because sum counts some of what count does; or that of sum: "ns" */
  const char* help;    /* one phrase */
  uint32_t sum, count; /* two counters that grow (NP_COUNTS_UP), by their place in the table, from 0 */
} np_measure;

/* ---------------------------------------------------------------------------------------------- the endpoint */

/* How the ranks of a module come to life. */
typedef enum np_process_model {
  NP_FORKED = 0,   /* netpipe forks them on this host, any number; between two hosts each host has one */
  NP_LAUNCHED = 1, /* the library's own launcher starts them, and bootstrap says who they are */
  NP_DAEMONS = 2   /* netpipe forks them, after the daemons that the library needs were started (as PVM's pvmd) */
} np_process_model;

/* What netpipe tells an endpoint. It outlives the endpoint. */
typedef struct np_context {
  uint32_t size;             /* sizeof(np_context) of this netpipe: read it before a field that a later version added */
  int32_t rank, nranks;      /* this process, and how many take part; NP_LAUNCHED: -1 and 0 before bootstrap */
  const np_value* options;   /* in the order of the module's table */
  uint64_t max_bytes;        /* the largest message that will be asked for */
  const volatile int* abort; /* not 0: give up now and return NP_ABORTED */
  char* message;             /* room for one sentence, NUL-terminated */
  size_t message_bytes;      /* its size */
  const char* local_address; /* numeric address that this rank may bind to, "127.0.0.1" on one host */
  const char* job;           /* unguessable and the same on all ranks: for names, and to prove who connects */
  int64_t timeout_ns;        /* how long open, connect and reset may take */
  uint32_t oversubscribed;   /* 1: ranks share a processor, so a polling loop must yield */
  uint32_t threads; /* always 1 here: only a pattern with threads has more of them use the endpoint at once, at most
                       np_module.max_threads */
  uint32_t rails;   /* reserved, as np_module.max_rails: 1 */
  const char* const* rail_addresses; /* reserved: to local_address. Which links a layer uses is an option of it */
  uint32_t host_rank; /* which of the ranks of its host this one is, from 0; NP_LAUNCHED: 0, its library knows */
  uint32_t reserved;  /* 0 */
} np_context;

typedef struct np_endpoint np_endpoint; /* the module's own: one variant of it, open in one process */

/* What an endpoint can do with these settings. netpipe sets size, sets delivers to 1 and clears the rest; a module
 * changes what differs, field by field. */
typedef struct np_limits {
  uint32_t size;              /* sizeof(np_limits) of this netpipe */
  uint32_t delivers;          /* 1: what is sent arrives. 0: nothing arrives anywhere, so there is nothing to verify */
  uint32_t idle;              /* 1: with these settings not even a byte is touched, so there is a time and no rate. Set
                                 already for a module that is idle (np_module.idle) */
  uint32_t lossy;             /* 1: messages may be lost; recv, wait and test then return NP_LOST for each that is */
  uint32_t unordered;         /* of a lossy layer, 1: it does not promise to keep the order of messages. They are
                                 received in order all the same, so one that was overtaken may count as lost */
  uint32_t empty;             /* 1: a message may have 0 bytes. 0: the smallest has 1, as in a stream of bytes */
  uint64_t max_message_bytes; /* 0: no limit */
  uint64_t max_inline_bytes;  /* the largest message that travels inside its request, so that its buffer is free at
                                 once; 0: none does */
  uint64_t alignment;         /* of every message buffer, in bytes, a power of two; 0 or 1: any address will do */
  uint32_t any_memory;        /* of a module with memory of its own: 1: messages may lie in any other memory as well */
  uint32_t reserved;
  uint32_t outgoing_memory; /* of such a module: which of np_module.memories messages start from, counted from 0, */
  uint32_t incoming_memory; /* and which they land in */
} np_limits;

/* An operation in flight; the module uses the words as it likes. Owned by the pattern. */
typedef struct np_request {
  uint64_t word[8];
} np_request;

/* Where the messages of a visit start or land, in turn: message i (from 0) at base + stride * ((next + i) % count).
 * count 0: at such places too, but the layer is not told which comes next: some are used more often than others, or are
 * to be new to the layer when the message comes. */
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

/* With whom a rank has messages in a visit, as bits. NP_VISIT_IN_PAIRS: with rank nranks - 1 - rank alone.
 * NP_VISIT_GREETING: with each other rank, once and untimed, before the first pattern. */
enum { NP_VISIT_IN_PAIRS = 1, NP_VISIT_GREETING = 2 };

/* What the timed calls until the next prepare are about. Every rank has the same sizes and numbers of places. */
typedef struct np_visit {
  uint32_t size;  /* sizeof(np_visit) of this netpipe */
  uint32_t reach; /* an np_reach: what put or get of this visit, on any rank, will name */
  uint64_t bytes; /* of each message */
  np_places outgoing, incoming;
  uint32_t uses;  /* bits NP_USES_...: the groups of operations that will be called */
  uint32_t flags; /* bits NP_VISIT_...; an older netpipe says 0 */
} np_visit;

/* How the ranks of a library with a launcher of its own (mpirun, oshrun) talk before and between measurements.
 * Never used in the timed region. Both calls block and obey *context->abort; without them netpipe uses send and recv. A
 * module sets what it has, field by field. */
typedef struct np_bootstrap {
  uint32_t size; /* sizeof(np_bootstrap) of this netpipe */
  int32_t rank, nranks;
  uint32_t reserved;
  void* state; /* passed to both calls */
  np_status (*send)(void* state, int peer, const void* data, size_t bytes);
  np_status (*recv)(void* state, int peer, void* data, size_t bytes);
} np_bootstrap;

/* ---------------------------------------------------------------------------------------------- messages */

/* Two-sided. A message arrives whole, in order, at the receive that names its sender and its exact size. With nranks 1
 * the peer is 0, the process itself: send moves a message to recv. */
typedef struct np_messages {
  uint32_t size;      /* sizeof(np_messages) */
  uint32_t to_itself; /* 1: with more ranks, too, a rank may send to itself what it has asked for by irecv */
  np_status (*send)(np_endpoint* endpoint, int peer, const void* data, size_t bytes);
  np_status (*recv)(np_endpoint* endpoint, int peer, void* data, size_t bytes);
  /* These start count messages, the i-th from or into data + i * stride, with requests[i]: in one call, because a layer
   * may do it in one (a chain of work requests, a system call), and because a call for each costs 2 % of a message in
   * shared memory. wait ends all of them, in any order. */
  np_status (*isend)(np_endpoint* endpoint, int peer, const void* data, size_t stride, size_t bytes,
                     np_request* requests, size_t count);
  np_status (*irecv)(np_endpoint* endpoint, int peer, void* data, size_t stride, size_t bytes, np_request* requests,
                     size_t count);
  /* One message from this rank to all others, handed over once: the layer, or the network, makes as many of it as there
   * are receivers (multicast). Each of them takes it by recv_cast, which names its sender and its exact size. Casts of
   * one rank arrive in their order; between casts and sends, and between the casts of two ranks, no order holds. Where
   * messages may be lost, each receiver loses its own: its recv_cast returns NP_LOST, and the others have the message.
   * Every rank may cast. Only a visit whose uses has NP_USES_CAST calls them, so prepare is where to join a group;
   * where the settings allow no casts it returns NP_UNSUPPORTED. */
  np_status (*cast)(np_endpoint* endpoint, const void* data, size_t bytes);
  np_status (*recv_cast)(np_endpoint* endpoint, int sender, void* data, size_t bytes);
  /* A message whose parts, all of one size, become ready one by one (partitioned communication of MPI-4). isend_parts
   * begins it and says how many parts it has; each of them is then marked once, by any of max_threads threads and while
   * others mark theirs, and may leave from then on. When all are marked, wait or test ends it. It arrives as any other,
   * at recv or irecv. request NULL: nothing begins, and it only says how many parts such a message has, or returns
   * NP_UNSUPPORTED where the settings allow none. */
  np_status (*isend_parts)(np_endpoint* endpoint, int peer, const void* data, size_t bytes, np_request* request,
                           uint32_t* parts);
  np_status (*part_ready)(np_endpoint* endpoint, np_request* request, uint32_t part);
  /* One message to `to` and one from `from`, both of so many bytes, in one call that returns when both are done, as
   * MPI_Sendrecv. All ranks of a circle may be in it at once, so it does not send before it can receive. The two places
   * do not overlap; to and from may be the same rank. */
  np_status (*sendrecv)(np_endpoint* endpoint, int to, const void* outgoing, int from, void* incoming, size_t bytes);
} np_messages;

/* ---------------------------------------------------------------------------------------------- one-sided */

/* Memory that peers may put to and get from. */
#define NP_KEY_BYTES 1024
typedef struct np_region {
  void* base; /* where it begins, in the process that owns it */
  uint64_t bytes;
  uint64_t word[4];   /* the module's own */
  uint32_t key_bytes; /* what a peer needs to reach it; netpipe carries it there */
  uint8_t key[NP_KEY_BYTES];
} np_region;

/* Blocks that lie evenly apart, as a column of a matrix. */
typedef struct np_strided {
  uint64_t block_bytes, blocks;
  uint64_t near_stride, far_stride; /* from the beginning of a block to that of the next, in bytes */
} np_strided;

/* Operations on one aligned 64-bit integer of a region. */
typedef enum np_atomic {
  NP_ATOMIC_ADD = 0,       /* does not tell what was there before */
  NP_ATOMIC_FETCH_ADD = 1, /* does: in *fetched */
  NP_ATOMIC_SWAP = 2,
  NP_ATOMIC_COMPARE_SWAP = 3, /* stores operand where the value is compare; *fetched is what was there */
  NP_ATOMIC_FETCH = 4,
  NP_ATOMIC_SET = 5
} np_atomic;

/* Blocking: *fetched is valid, or for ADD and SET the operation is on its way, when it returns; flush ends those. */
typedef np_status (*np_atomic_call)(np_endpoint* endpoint, int peer, const np_region* target, size_t offset,
                                    uint64_t operand, uint64_t compare, uint64_t* fetched);

typedef struct np_one_sided {
  uint32_t size; /* sizeof(np_one_sided) */
  uint32_t reserved;
  /* expose opens own memory to peers and fills region and its key; attach turns a peer's region (base, bytes and key as
   * they came from there, no words) into one that put and get can name; withdraw undoes either. All ranks call expose,
   * and then withdraw of what they exposed, for the same memory in the same order, so both may be collective; they are
   * not timed. Where expose returns NP_UNSUPPORTED the patterns that need it are skipped, and all others are measured.
   * A visit synchronises by flush or by fence and not by both; with fences, one comes before the first put or get. */
  np_status (*expose)(np_endpoint* endpoint, void* memory, size_t bytes, np_region* region);
  np_status (*attach)(np_endpoint* endpoint, int peer, np_region* region);
  void (*withdraw)(np_endpoint* endpoint, np_region* region);
  /* The source may be used again, and the target of get is there, only after fence or flush. */
  np_status (*put)(np_endpoint* endpoint, int peer, const void* source, const np_region* target, size_t offset,
                   size_t bytes);
  np_status (*get)(np_endpoint* endpoint, int peer, void* target, const np_region* source, size_t offset, size_t bytes);
  np_status (*fence)(np_endpoint* endpoint);           /* collective: all puts and gets of all ranks are done */
  np_status (*flush)(np_endpoint* endpoint, int peer); /* own puts are visible at peer, own gets have arrived */
  /* These start count transfers in one call, the i-th between near + i * near_stride and offset + i * far_stride, with
   * requests[i]; wait and test end them: then the source of a put may be used again, and the bytes of a get are there.
   * A count of 0 starts nothing and only says whether there can be any with these settings: all ranks ask so before the
   * first one. */
  np_status (*iput)(np_endpoint* endpoint, int peer, const void* source, size_t near_stride, const np_region* target,
                    size_t offset, size_t far_stride, size_t bytes, np_request* requests, size_t count);
  np_status (*iget)(np_endpoint* endpoint, int peer, void* target, size_t near_stride, const np_region* source,
                    size_t offset, size_t far_stride, size_t bytes, np_request* requests, size_t count);
  /* One put, and after its bytes are visible at the peer a value that tells it so (a signal word, an immediate). await
   * waits for the next value from that peer; values arrive in the order of their puts. At least 32 bits are kept. */
  np_status (*put_signal)(np_endpoint* endpoint, int peer, const void* source, const np_region* target, size_t offset,
                          size_t bytes, uint64_t value);
  np_status (*await_signal)(np_endpoint* endpoint, int peer, uint64_t* value);
  /* One put, or get, of all blocks of a shape, which has one at least. What lies between the blocks stays as it is.
   * Done after fence or flush, as any other. */
  np_status (*put_strided)(np_endpoint* endpoint, int peer, const void* source, const np_region* target, size_t offset,
                           const np_strided* shape);
  np_status (*get_strided)(np_endpoint* endpoint, int peer, void* target, const np_region* source, size_t offset,
                           const np_strided* shape);
  /* What carries this operation out; NULL: the layer does not have it. Asked outside the timed region. */
  np_atomic_call (*atomic)(np_endpoint* endpoint, np_atomic what);
  /* Adds count doubles at source to those at the target; done after fence or flush. A count of 0 adds nothing and only
   * says whether there can be any with these settings: all ranks ask so before the first one. */
  np_status (*accumulate)(np_endpoint* endpoint, int peer, const double* source, const np_region* target, size_t offset,
                          size_t count);
  /* count times put, or get, and flush, in one call: the i-th between near + i * near_stride and
   * offset + i * far_stride. For layers whose calls take no longer than a call through a table. */
  np_status (*put_each)(np_endpoint* endpoint, int peer, const void* source, size_t near_stride,
                        const np_region* target, size_t offset, size_t far_stride, size_t bytes, size_t count);
  np_status (*get_each)(np_endpoint* endpoint, int peer, void* target, size_t near_stride, const np_region* source,
                        size_t offset, size_t far_stride, size_t bytes, size_t count);
  /* As accumulate, and stores at result the count doubles that were at the target before. Each double by itself is
   * fetched and added to in one step. The result is there after fence or flush; it overlaps neither source nor target.
   * A count of 0 moves nothing and only says whether there can be any with these settings: all ranks ask so before the
   * first one. */
  np_status (*fetch_accumulate)(np_endpoint* endpoint, int peer, const double* source, double* result,
                                const np_region* target, size_t offset, size_t count);
  /* So many sums (times) in one call, each flushed before the next begins. The i-th adds the count doubles, one at
   * least, at near + i * near_stride to those at offset + i * far_stride; strides are bytes. With a result it stores
   * what was there at result + i * far_stride: only a layer that has fetch_accumulate is given one. As put_each. */
  np_status (*accumulate_each)(np_endpoint* endpoint, int peer, const double* near, size_t near_stride,
                               double* result_or_null, const np_region* target, size_t offset, size_t far_stride,
                               size_t count, size_t times);
} np_one_sided;

/* ---------------------------------------------------------------------------------------------- collectives */

typedef enum np_collective {
  NP_BCAST = 0,
  NP_REDUCE = 1,
  NP_ALLREDUCE = 2,
  NP_GATHER = 3,
  NP_ALLGATHER = 4,
  NP_SCATTER = 5,
  NP_REDUCE_SCATTER = 6, /* told a count for each rank */
  NP_REDUCE_SCATTER_BLOCK = 7,
  NP_ALLTOALL = 8,
  NP_SCAN = 9,
  NP_EXSCAN = 10,
  /* As those without the v, but with a count and a displacement for each rank, and with w a type. */
  NP_GATHERV = 11,
  NP_SCATTERV = 12,
  NP_ALLGATHERV = 13,
  NP_ALLTOALLV = 14,
  NP_ALLTOALLW = 15,
  /* Two neighbours each, in a ring of all ranks: the rank below, and then the one above. Or as dims says. */
  NP_NEIGHBOR_ALLGATHER = 16,
  NP_NEIGHBOR_ALLTOALL = 17,
  NP_BARRIER = 18,
  /* As NP_ALLTOALL, but the elements of a block lie `stride` elements apart, on both sides: element k of the block for,
   * or from, rank r begins at element (r * count + k) * stride. What lies between them is not touched. */
  NP_ALLTOALLS = 19,
  /* Those of neighbours with a count and a displacement for each, and with w a type: a rank contributes its count to
   * each of those that it sends to, and gets from each of the others as much as that one contributes. */
  NP_NEIGHBOR_ALLGATHERV = 20,
  NP_NEIGHBOR_ALLTOALLV = 21,
  NP_NEIGHBOR_ALLTOALLW = 22
} np_collective;

typedef enum np_datatype { NP_BYTE = 0, NP_INT32 = 1, NP_INT64 = 2, NP_FLOAT = 3, NP_DOUBLE = 4 } np_datatype;
typedef enum np_reduction {
  NP_SUM = 0,
  NP_MIN = 1,
  NP_MAX = 2,
  NP_PROD = 3,
  NP_AND = 4, /* bit by bit, like the next two: of NP_INT32 and NP_INT64 alone */
  NP_OR = 5,
  NP_XOR = 6
} np_reduction;

/* In np_collective_plan.dims: a graph, of NP_GRAPH + degree. Rank r sends to r + 1, r - 1, r + 2, r - 2 and so on, to
 * `degree` ranks, and receives from r - 1, r + 1, r - 2, r + 2 and so on; each modulo the number of ranks, which is
 * larger than the degree. A module that knows grids alone returns NP_UNSUPPORTED for more than three dimensions. */
#define NP_GRAPH 65536u

/* One collective operation. All ranks pass the same, except in_place where only the root can have it. In NP_BCAST the
 * root sends from source and all others receive into target; all others are as in MPI. */
typedef struct np_collective_plan {
  uint32_t size;           /* sizeof(np_collective_plan) of this netpipe */
  uint32_t what;           /* an np_collective */
  uint32_t datatype;       /* an np_datatype: of the elements that are counted */
  uint32_t reduction;      /* an np_reduction */
  int32_t root;            /* where the operation has one */
  uint32_t in_place;       /* 1: the contribution already lies in the target, and source is not read */
  uint32_t requests;       /* 1: it will be called with a request */
  uint32_t dims;           /* of neighbours: dimensions of a closed grid of all ranks (0, 1: a ring), or NP_GRAPH + n */
  uint64_t count;          /* elements that one rank contributes to one other, as in MPI */
  const uint64_t* counts;  /* by rank, of operations with a count for each (what it contributes to each other, of
                            * scatterv and reduce_scatter what it gets); of NP_NEIGHBOR_ALLGATHER and
                            * NP_NEIGHBOR_ALLTOALL over a grid its extents; NULL: count for all. Valid until release */
  uint64_t stride;         /* of NP_ALLTOALLS: elements from the beginning of one to that of the next */
  const uint64_t* extents; /* of neighbours in a grid: its extents, by dimension; NULL: a ring. Valid until release */
} np_collective_plan;

/* Carries a prepared operation out. With a request it is started only and ends with wait or test. */
typedef np_status (*np_collective_call)(np_endpoint* endpoint, void* state, const void* source, void* target,
                                        np_request* request_or_null);

/* A function for each operation. One function that switched between operations when called would be mispredicted by the
 * processor (docs/decisions/0009). state is the module's own. */
typedef struct np_prepared {
  np_collective_call call;
  void* state;
} np_prepared;

typedef struct np_collectives {
  uint32_t size; /* sizeof(np_collectives) */
  uint32_t reserved;
  /* All ranks prepare the same operations in the same order, outside the timed region, so this may be collective.
   * Returns NP_UNSUPPORTED where the layer does not have the operation. release undoes it. */
  np_status (*prepare)(np_endpoint* endpoint, const np_collective_plan* plan, np_prepared* prepared);
  void (*release)(np_endpoint* endpoint, np_prepared* prepared);
} np_collectives;

/* ---------------------------------------------------------------------------------------------- memory */

/* Where message bytes live. */
typedef enum np_memory_kind {
  NP_MEMORY_HOST = 0,  /* ordinary pages */
  NP_MEMORY_LAYER = 1, /* what suits the layer best: registered, symmetric, shared with its peers */
  NP_MEMORY_DEVICE = 2 /* of an accelerator: the processor may not be able to read or write it */
  /* 3 and 4 are not used again. They were huge pages and a NUMA node, which are no kinds of a layer: every variant has
   * them as settings (docs/decisions/0011). */
} np_memory_kind;

/* One kind of memory that a module provides, in place of the ordinary pages that netpipe allocates otherwise: the first
 * of its kinds, unless its limits name another. Nothing here is timed. */
typedef struct np_memory {
  uint32_t size;        /* sizeof(np_memory) */
  uint32_t kind;        /* an np_memory_kind */
  uint32_t host_access; /* 1: the processor reads and writes it by pointer; the last four functions may be NULL */
  uint32_t reserved;
  /* At least page-aligned. Of memory with host_access netpipe may then choose the pages, before it writes to them:
   * madvise for pages=, mbind for node=. It reads back what they are, and refuses the variant where they are not that.
   */
  np_status (*alloc)(np_endpoint* endpoint, size_t bytes, void** memory);
  void (*free)(np_endpoint* endpoint, void* memory, size_t bytes);
  np_status (*copy_in)(np_endpoint* endpoint, void* memory, const void* host, size_t bytes);
  np_status (*copy_out)(np_endpoint* endpoint, void* host, const void* memory, size_t bytes);
  np_status (*fill)(np_endpoint* endpoint, void* memory, int byte, size_t bytes);
  /* *equal becomes the number of bytes before the first that differs: bytes if none does. */
  np_status (*compare)(np_endpoint* endpoint, const void* memory, const void* host, size_t bytes, size_t* equal);
} np_memory;

/* ---------------------------------------------------------------------------------------------- the module */

/* An operation that is NULL, in a group that is there or in one that is not, is one that the layer cannot do. No second
 * list could disagree. netpipe checks that what belongs together is there together: open with close, send with recv,
 * address with connect, what makes requests with wait and test, put or get with expose, attach and withdraw, alloc with
 * free. */
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
  uint32_t noptions, option_bytes; /* how many, and sizeof(np_option) */
  const np_counter* counters;
  uint32_t ncounters, counter_bytes; /* how many, and sizeof(np_counter) */
  uint32_t process_model;            /* an np_process_model */
  int32_t min_ranks, max_ranks;      /* 1 and 1: it stays in one process; 2 and 2: pairs; 2 and INT32_MAX: any number */
  uint32_t crosses_hosts;            /* 1: the ranks may be on different hosts */
  uint32_t max_threads;              /* that may use one endpoint at once; 0 is 1 */
  uint32_t max_rails;                /* reserved: 0. Of several links a layer has options (docs/decisions/0011) */

  const np_messages* messages;       /* NULL: the layer has none of this group */
  const np_one_sided* one_sided;     /* " */
  const np_collectives* collectives; /* " */
  const np_memory* const* memories;  /* the kinds of message memory that it provides, ended by NULL; the first is used
                                        where the limits name no other. NULL: netpipe's own */

  /* Can it be used here? NP_OK, or NP_UNAVAILABLE with a sentence that says what is missing and how to get it. */
  np_status (*probe)(char* message, size_t message_bytes);

  /* Opens one endpoint. Local: it may not wait for another rank. */
  np_status (*open)(const np_context* context, np_endpoint** endpoint);
  void (*close)(np_endpoint* endpoint);

  /* NP_LAUNCHED only: how netpipe finds the ranks. */
  np_status (*bootstrap)(np_endpoint* endpoint, np_bootstrap* bootstrap);

  /* What the other ranks need to reach this one: at most *bytes at data; *bytes becomes what was written. */
  np_status (*address)(np_endpoint* endpoint, void* data, size_t* bytes);
  /* Collective. addresses[r] and bytes[r] are those of rank r, this rank's among them. */
  np_status (*connect)(np_endpoint* endpoint, const void* const* addresses, const size_t* bytes);
  /* Collective, outside the timed region: connections anew, before each sample of a pattern that asks for it. */
  np_status (*reset)(np_endpoint* endpoint);

  np_status (*limits)(np_endpoint* endpoint, np_limits* limits);

  /* End requests, whichever group made them. wait ends all of count; test looks at one. Where messages may be lost,
   * netpipe waits for each receive by itself, because wait does not say which of several was lost. */
  np_status (*wait)(np_endpoint* endpoint, np_request* requests, size_t count);
  np_status (*test)(np_endpoint* endpoint, np_request* request);

  /* netpipe also calls a barrier of NP_LAUNCHED after each visit, outside the timed region: many libraries move data
   * only inside their calls, so a message may still be under way when the visit ends. */
  np_status (*barrier)(np_endpoint* endpoint);

  /* The settings as they really are: buffer sizes that the kernel granted, algorithms chosen, how it waits. Three
   * names are known to netpipe: "wait" (block, poll, hybrid, yield), "below", the module that these settings really
   * stand on, where that is not the table's, and "below_stands_on", what that one stands on here in turn. */
  void (*describe)(np_endpoint* endpoint, np_emit emit, void* to);
  /* The counters of the table, in its order; those that cannot be read now are INT64_MIN. Before and after each visit,
   * outside the timed region; it takes microseconds at most. */
  void (*read_counters)(np_endpoint* endpoint, int64_t* values);

  /* Collective, outside the timed region, before each visit: what the messages will be, and where. For what a layer
   * would otherwise do in the first timed call (a datatype, a connection), keeps apart by size, or has to know of the
   * peer's places (one-sided transfers). */
  np_status (*prepare)(np_endpoint* endpoint, const np_visit* visit);

  /* NP_LAUNCHED only: the environment in which a program that netpipe does not open gets these settings, each variable
   * as a text. Called before the library has started, in a process of its own; of the context only options, message,
   * nranks and oversubscribed are meant. NP_USAGE for a setting that only netpipe's own calls can have. */
  np_status (*environment)(const np_context* context, np_emit emit, void* to);

  uint32_t idle;     /* 1: it moves nothing, whatever its settings (null): its time is that of netpipe itself */
  uint32_t reserved; /* 0 */

  const np_measure* measures;
  uint32_t nmeasures, measure_bytes; /* how many, and sizeof(np_measure) */
} np_module;

const np_module* netpipe_module(void);

#ifdef __cplusplus
}
#endif
#endif
