/* SPDX-License-Identifier: Apache-2.0
 *
 * What one process knows of one variant, and what it does when the library reports an error.
 */
#ifndef NETPIPE_MPI_ENDPOINT_H
#define NETPIPE_MPI_ENDPOINT_H

#include "kit/gpu/cuda_memory.h"
#include "library/mpi_settings.h"

enum { TAG_MESSAGE = 1, TAG_READY = 2, TAG_CONTROL = 3 };
enum { MOST_DIMENSIONS = 3 }; /* of a grid of ranks */
enum { MOST_THREADS = 1024 }; /* that may use an endpoint at once */

/* How a message of one size is described to MPI. */
struct shape {
  int64_t count;
  MPI_Datatype type;
};

/* A datatype, made once per size. */
struct made_shape {
  uint64_t bytes;
  struct shape shape;
};
#define SHAPES 256

/* The blocks of a strided transfer on one side, as a datatype. */
struct made_blocks {
  uint64_t block_bytes, blocks, stride; /* blocks == 0: none was made */
  MPI_Datatype type;
};
enum { NEAR_BLOCKS, FAR_BLOCKS };

/* What a request was made for; it can be restarted for the same purpose. */
enum { FOR_SEND, FOR_RECV, FOR_COLLECTIVE, PURPOSES };
struct purpose {
  const void* data;
  const void* other; /* collectives: the target */
  size_t bytes;
  int peer; /* or root */
  int what; /* collectives: which */
};
struct kept_request {
  struct purpose purpose;
  MPI_Request request;
  int made, active;
  int next; /* in the chain of its hash, -1 ends it */
};
#define KEPT 512
/* One per direction: the two sides of a partitioned message must keep and drop in the same order. */
struct request_store {
  struct kept_request all[KEPT];
  int chain[KEPT];
  int hand; /* the next one to drop */
  struct kept_request* last;
  uint64_t made, reused;
};

/* What was observed of the library, from outside (mpi_found.h). */
struct found {
  int transport;      /* FOUND_... */
  int through;        /* THROUGH_...: of messages, or of transfers with op=put, get and accumulate */
  int connections;    /* TCP: that carried messages */
  int sndbuf, rcvbuf; /* of one of them, in bytes, as the kernel has them */
  int nodelay;
  char congestion[32];
  char maps[200];    /* names of the shared mappings */
  char on_disk[256]; /* the file of one that is on no file system in memory */
  double awake;      /* share of a wait of 5 ms in which the process ran or wanted to; negative: not known */
};

/* With one other rank, through one window (mpi_words.h). */
struct signals {
  uint64_t sent, taken, received; /* taken: by the other rank, as far as it has told */
};
#define SIGNALS 16        /* that a target may be behind */
#define SIGNALS_BYTES 256 /* of a window for each rank: those words, and how many the other one has taken */

/* Memory that other ranks can reach (mpi_windows.h). */
struct window {
  MPI_Win win;
  char* base;          /* page-aligned */
  uint64_t bytes;      /* from there */
  char* memory;        /* where the window begins */
  uint64_t all_bytes;  /* from there */
  void* mapped;        /* to be unmapped */
  long long* far_base; /* of each rank, as MPI is told */
  int begun, in_epoch;
  int epoch;           /* of patterns that put or get (mpi_reach.h) */
  uint64_t signals_at; /* from base, behind the messages */
  struct signals* signals;
};
enum { EPOCH_NONE, EPOCH_LOCKED, EPOCH_FENCED };
#define WINDOWS 4
/* The places of a rank's next messages, as offsets in its window. */
struct far_places {
  long long window, base, stride, count, next;
};
enum { FLAG_SENT, FLAG_FETCHED };
#define TOLD 1024 /* counters that may be in flight */

struct np_endpoint {
  /* first what every message needs */
  np_status (*send)(np_endpoint* e, int peer, const void* data, size_t bytes);
  np_status (*recv)(np_endpoint* e, int peer, void* data, size_t bytes);
  uint64_t direct_bytes; /* below this, a message is one MPI_Send or MPI_Recv of MPI_BYTE and nothing else */
  MPI_Comm comm;
  uint64_t plain_bytes; /* up to this size a message is MPI_BYTE */
  int keeps;            /* op=persistent and partitioned: requests are kept and started again */
  int waitall;
  int waits_apart; /* either: a wait is more than MPI_Wait for each request */
  int any_source;
  int op, type, reuse, partitions;

  const np_context* context;
  int rank, nranks;
  int broken; /* a call has failed: MPI_Finalize might never return */
  int initialised;
  int thread_level;
  int threaded; /* several threads may send and receive at once */
  uint64_t block, stride;
  struct library library;
  struct settings settings;
  struct found found;
  struct made_shape shapes[SHAPES];
  int nshapes;
  struct made_blocks blocks[2]; /* of the last strided transfer, by side */
  struct request_store* stores[PURPOSES];
  void* bsend_memory;
  uint64_t bsend_bytes;
  uint64_t drained;                /* op=bsend: how often the buffer was full */
  MPI_Comm grids[MOST_DIMENSIONS]; /* of all ranks, for neighbours, by dimensions (mpi_neighbours.h) */
  struct graph* graphs;            /* the same, by degree */
  int peers[2];                    /* of the last message sent and received; -1: none yet */

  /* memory=cuda */
  int on_device;
  struct np_cuda cuda;
  struct np_cuda_device device;
  char takes_device[80]; /* what was asked whether the library takes such memory, and the answer */

  /* one-sided */
  int one_sided, sync, window_kind; /* one_sided: messages are one-sided transfers */
  int flush, atomics;               /* how patterns complete their transfers and fetch words */
  int has_signals;                  /* a signal can follow a put */
  int window_memory;                /* message memory is allocated with a window */
  int windows_found; /* what carries the transfers of patterns that put or get; FOUND_NOTHING: not known */
  int separate;      /* the library may keep a second copy of a window for other ranks */
  int yields;        /* a rank that polls its counter yields its processor */
  struct window windows[WINDOWS], flags;
  int nwindows;
  struct window* active;    /* of this visit */
  const np_region* entered; /* the target of this visit, in an open epoch */
  struct far_places* far;
  struct far_places far_now; /* of the peer of this visit */
  int met;                   /* -1: none yet */
  uint64_t sent, received;
  uint64_t told[TOLD], tellings;
  MPI_Group* groups; /* of each rank alone */
};

/* The library's own words, with what was called. */
static COLD np_status failed(np_endpoint* e, int code, const char* call) {
  char words[MPI_MAX_ERROR_STRING + 1] = "";
  int length = 0;
  e->broken = 1;
  if (MPI_Error_string(code, words, &length) != MPI_SUCCESS) snprintf(words, sizeof words, "error %d", code);
  for (char* c = words; *c != '\0'; ++c) {
    if (*c == '\n' || *c == '\r' || *c == '\t') *c = ' ';
  }
  return fail(e->context, NP_FAILED, "%s of %s fails: %s", call, e->library.version, words);
}

static inline np_status outcome(np_endpoint* e, int code, const char* call) {
  return LIKELY(code == MPI_SUCCESS) ? NP_OK : failed(e, code, call);
}

#endif
