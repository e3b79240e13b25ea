/* SPDX-License-Identifier: Apache-2.0
 *
 * Two ends of kit/put_messages.h in one process, over a library that puts each word twice: the second time when its
 * rank calls it next, which is after the reader of the word has done with it. For put_messages_test.cpp.
 */
#include "modules/kit/put_messages.h"

#include <stdlib.h>

enum { CELL = 64, SLOTS = 8 };

struct np_endpoint {
  np_context context;
  int abort;
  char message[200];
  struct pm_ends ends;
  np_endpoint* peer;
  int reachable; /* may peers put into memory of this rank? */
  uint64_t* late;
  uint64_t word;
};

/* What the last call has left. */
static void catch_up(np_endpoint* e) {
  if (e->late != NULL) __atomic_store_n(e->late, e->word, __ATOMIC_RELAXED);
  e->late = NULL;
}

static inline np_status pm_put(np_endpoint* e, int peer, void* far, const void* near, size_t bytes) {
  (void)peer;
  catch_up(e);
  memcpy(far, near, bytes);
  return NP_OK;
}
static inline np_status pm_order(np_endpoint* e, int peer) {
  (void)peer;
  catch_up(e);
  return NP_OK;
}
static inline np_status pm_word(np_endpoint* e, int peer, uint64_t* far, uint64_t value) {
  (void)peer;
  catch_up(e);
  __atomic_store_n(far, value, __ATOMIC_RELEASE);
  e->late = far;
  e->word = value;
  return NP_OK;
}
static inline void pm_progress(np_endpoint* e) { catch_up(e); }
static inline void* pm_far(np_endpoint* e, const struct pm_ends* m, int peer, size_t offset) {
  (void)m, (void)peer;
  return e->peer->ends.block + offset;
}
static inline const np_context* pm_context(const np_endpoint* e) { return &e->context; }
static inline uint64_t pm_token(np_endpoint* e, const void* memory, size_t bytes) {
  (void)bytes;
  return e->reachable ? (uint64_t)(uintptr_t)memory : 0;
}
static inline void* pm_place(np_endpoint* e, int peer, uint64_t token) {
  (void)e, (void)peer;
  return (void*)(uintptr_t)token;
}

static void open_end(np_endpoint* e, np_endpoint* peer, int rank, int reachable) {
  memset(e, 0, sizeof *e);
  e->context.abort = &e->abort;
  e->context.message = e->message;
  e->context.message_bytes = sizeof e->message;
  e->peer = peer;
  e->reachable = reachable;
  e->ends =
      (struct pm_ends){.rank = rank, .nranks = 2, .slots = SLOTS, .cell = CELL, .eager = 0, .placed_bytes = PM_NEVER};
  e->ends.peers = calloc(2, sizeof *e->ends.peers);
  e->ends.block = calloc(1, pm_block_bytes(&e->ends));
}

static void close_end(const np_endpoint* e) {
  free(e->ends.block);
  free(e->ends.peers);
}

/* Sends `count` numbers from rank 0 to rank 1, at most `ahead` receives before their sends, each to a place of its own.
 * Returns how many did not arrive, or not where they should. */
int netpipe_test_put_messages(int count, int ahead, int reachable) {
  np_endpoint ends[2];
  open_end(&ends[0], &ends[1], 0, 1);
  open_end(&ends[1], &ends[0], 1, reachable);
  uint64_t* const sent = calloc((size_t)count, sizeof *sent);
  uint64_t* const landed = calloc((size_t)count, sizeof *landed);
  np_request* const out = calloc((size_t)count, sizeof *out);
  np_request* const in = calloc((size_t)count, sizeof *in);
  np_status status = NP_OK;
  int wrong = 0, received = 0;
  for (int i = 0; i < count && status == NP_OK; ++i) {
    sent[i] = (uint64_t)i + 1;
    /* The sender asks first: what it finds then is what was left there. */
    status = pm_isend(&ends[0], &ends[0].ends, 1, &sent[i], 0, sizeof *sent, &out[i], 1);
    if ((i + 1) % ahead != 0 && i + 1 < count) continue;
    for (; received <= i && status == NP_OK; ++received) {
      status = pm_irecv(&ends[1], &ends[1].ends, 0, &landed[received], 0, sizeof *landed, &in[received], 1);
    }
    for (int turn = 0; turn < 4 * ahead && status == NP_OK && !(out[i].word[PM_DONE] && in[i].word[PM_DONE]); ++turn) {
      status = pm_move_all(&ends[0], &ends[0].ends);
      if (status == NP_OK) status = pm_move_all(&ends[1], &ends[1].ends);
    }
  }
  for (int i = 0; i < count; ++i) wrong += status != NP_OK || !in[i].word[PM_DONE] || landed[i] != sent[i];
  free(in), free(out), free(landed), free(sent);
  close_end(&ends[0]), close_end(&ends[1]);
  return wrong;
}
