/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives of any number of ranks through shared memory, in which one rank is late: in the operation itself
 * (`late`, by `late_us`), or does not come back from it (`stalls`, at operation `at`; `deaf`: not even when told to).
 * A broadcast, a reduction and a barrier alone: that is what pattern collective needs to bring the ranks together.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "netpipe/module.h"

__attribute__((visibility("default"))) const np_module* netpipe_module(void);

enum { LATE, LATE_US, STALLS, AT, DEAF, MOST_RANKS = 16, MOST_BYTES = 1 << 16 };

static const np_option options[] = {
    {"late", NP_INT, "-1", -1, MOST_RANKS, NULL, "", "the rank that is late in each broadcast or reduction of data", 0},
    {"late_us", NP_INT, "200", 0, 1000000, NULL, "us", "by how much", 0},
    {"stalls", NP_INT, "-1", -1, MOST_RANKS, NULL, "", "the rank that does not come back from one", 0},
    {"at", NP_INT, "40", 0, 1 << 30, NULL, "", "which, counted from the first", 0},
    {"deaf", NP_BOOL, "no", 0, 0, NULL, "", "whether it ignores that it is to give up", 0},
};

/* Each rank's part of an operation lies here while `entered` of it says which one that is. */
struct rank_room {
  _Alignas(128) _Atomic uint64_t entered; /* operations that this rank has given its part of */
  _Atomic uint64_t left;                  /* operations that it has taken everything of */
  unsigned char data[MOST_BYTES];
};

struct np_endpoint {
  const np_context* context;
  int listener; /* the shared memory of this job */
  char name[64];
  struct rank_room* rooms;
  uint64_t operations;
};

static np_status lagging_open(const np_context* context, np_endpoint** endpoint) {
  np_endpoint* const e = (np_endpoint*)calloc(1, sizeof *e);
  if (e == NULL) return NP_NO_MEMORY;
  e->context = context;
  snprintf(e->name, sizeof e->name, "/lagging-%.32s", context->job);
  e->listener = shm_open(e->name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  const size_t bytes = MOST_RANKS * sizeof(struct rank_room);
  if (e->listener < 0 || ftruncate(e->listener, (off_t)bytes) != 0) {
    free(e);
    return NP_FAILED;
  }
  void* const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, e->listener, 0);
  if (memory == MAP_FAILED) {
    close(e->listener);
    free(e);
    return NP_NO_MEMORY;
  }
  e->rooms = (struct rank_room*)memory;
  *endpoint = e;
  return NP_OK;
}

static void lagging_close(np_endpoint* e) {
  munmap(e->rooms, MOST_RANKS * sizeof(struct rank_room));
  close(e->listener);
  shm_unlink(e->name);
  free(e);
}

static np_status lagging_address(np_endpoint* e, void* data, size_t* bytes) {
  (void)e, (void)data;
  *bytes = 0;
  return NP_OK;
}

static np_status lagging_connect(np_endpoint* e, const void* const* addresses, const size_t* bytes) {
  (void)addresses, (void)bytes;
  if (e->context->nranks <= MOST_RANKS) return NP_OK;
  snprintf(e->context->message, e->context->message_bytes, "there is room for %d ranks", MOST_RANKS);
  return NP_USAGE;
}

static np_status await(const np_endpoint* e, _Atomic uint64_t* word, uint64_t value) {
  while (atomic_load_explicit(word, memory_order_acquire) < value) {
    if (*e->context->abort != 0) return NP_ABORTED;
    sched_yield();
  }
  return NP_OK;
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct operation {
  np_collective what;
  int root;
  size_t bytes;
};

static np_status carry_out(np_endpoint* e, np_collective what, int root, const void* source, void* target,
                           size_t bytes) {
  const int me = e->context->rank, ranks = e->context->nranks;
  const np_value* const chosen = e->context->options;
  if (bytes > MOST_BYTES) return NP_UNSUPPORTED;
  const uint64_t turn = ++e->operations;
  np_status status = NP_OK;
  /* Nobody may still be reading what I gave before. */
  for (int rank = 0; rank < ranks && status == NP_OK; ++rank) status = await(e, &e->rooms[rank].left, turn - 1);
  if (status != NP_OK) return status;
  memcpy(e->rooms[me].data, source, bytes);
  atomic_store_explicit(&e->rooms[me].entered, turn, memory_order_release);
  if (what == NP_BCAST) {
    status = await(e, &e->rooms[root].entered, turn);
    if (status == NP_OK && me != root) memcpy(target, e->rooms[root].data, bytes);
  } else {
    memset(target, 0, bytes);
    for (int rank = 0; rank < ranks && status == NP_OK; ++rank) {
      status = await(e, &e->rooms[rank].entered, turn);
      for (size_t i = 0; i < bytes / sizeof(double); ++i) {
        ((double*)target)[i] += ((const double*)(const void*)e->rooms[rank].data)[i];
      }
    }
  }
  atomic_store_explicit(&e->rooms[me].left, turn, memory_order_release);
  if (chosen[STALLS].number == me && (int64_t)turn > chosen[AT].number && bytes > sizeof(double)) {
    while (*e->context->abort == 0 || chosen[DEAF].number != 0) sched_yield();
    return NP_ABORTED;
  }
  /* The others need not wait for whom this keeps. */
  if (chosen[LATE].number == me && bytes > sizeof(double)) {
    const int64_t until = now_ns() + chosen[LATE_US].number * 1000;
    while (now_ns() < until && *e->context->abort == 0) sched_yield();
  }
  return status;
}

static np_status lagging_call(np_endpoint* e, void* state, const void* source, void* target, np_request* request) {
  (void)request;
  const struct operation* const of = (const struct operation*)state;
  return carry_out(e, of->what, of->root, source, target, of->bytes);
}

static np_status lagging_prepare(np_endpoint* e, const np_collective_plan* plan, np_prepared* prepared) {
  (void)e;
  const int sums = plan->what == NP_ALLREDUCE && plan->datatype == NP_DOUBLE && plan->reduction == NP_SUM;
  const int known = sums || plan->what == NP_BCAST || plan->what == NP_BARRIER;
  if (!known || plan->requests || plan->in_place) return NP_UNSUPPORTED;
  struct operation* const of = (struct operation*)malloc(sizeof *of);
  if (of == NULL) return NP_NO_MEMORY;
  const size_t each = sums ? sizeof(double) : 1; /* a barrier is a sum of nothing */
  *of = (struct operation){(np_collective)plan->what, plan->root, plan->count * each};
  *prepared = (np_prepared){lagging_call, of};
  return NP_OK;
}

static void lagging_release(np_endpoint* e, np_prepared* prepared) {
  (void)e;
  free(prepared->state);
}

static const np_module table = {
    .magic = NP_MAGIC,
    .abi = NP_ABI,
    .size = sizeof(np_module),
    .name = "lagging",
    .summary = "test: collectives in which one rank is late",
    .version = "test",
    .options = options,
    .noptions = sizeof options / sizeof options[0],
    .option_bytes = sizeof(np_option),
    .min_ranks = 2,
    .max_ranks = MOST_RANKS,
    .open = lagging_open,
    .close = lagging_close,
    .address = lagging_address,
    .connect = lagging_connect,
    .collectives =
        &(const np_collectives){.size = sizeof(np_collectives), .prepare = lagging_prepare, .release = lagging_release},
};

const np_module* netpipe_module(void) { return &table; }
