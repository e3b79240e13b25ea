/* SPDX-License-Identifier: Apache-2.0
 *
 * Persistent requests: made once for a purpose (buffer, size, peer), started for each message. A warm buffer makes one
 * request and restarts it; with reuse=no, or with more buffers than there is room for, each message makes its own.
 *
 * MPI matches the two requests of a partitioned message once and for all, in the order in which they were made. So
 * sender and receiver have to keep and drop theirs at the same messages. They start each visit with none, and walk
 * through their buffers in the same steps. For a pattern that does not, reuse=no is right.
 */
#ifndef NETPIPE_MPI_REQUESTS_H
#define NETPIPE_MPI_REQUESTS_H

#include "mpi_shapes.h"

static inline int same_purpose(const struct purpose* a, const struct purpose* b) {
  return a->data == b->data && a->bytes == b->bytes && a->peer == b->peer && a->other == b->other && a->what == b->what;
}

static inline unsigned place_of(const struct purpose* p) {
  uint64_t h = (uint64_t)(uintptr_t)p->data * UINT64_C(0x9e3779b97f4a7c15);
  h = (h ^ (uint64_t)(uintptr_t)p->other ^ p->bytes) * UINT64_C(0xff51afd7ed558ccd);
  h = (h ^ (uint64_t)(unsigned)p->peer ^ (uint64_t)(unsigned)p->what << 20) * UINT64_C(0x9e3779b97f4a7c15);
  return (unsigned)(h >> 40) % KEPT;
}

static struct request_store* new_store(void) {
  struct request_store* const store = calloc(1, sizeof *store);
  for (int i = 0; store != NULL && i < KEPT; ++i) store->chain[i] = -1;
  return store;
}

static void unchain(struct request_store* store, struct kept_request* one) {
  const int index = (int)(one - store->all);
  int* at = &store->chain[place_of(&one->purpose)];
  while (*at >= 0 && *at != index) at = &store->all[*at].next;
  if (*at == index) *at = one->next;
}

static int drop_request(struct request_store* store, struct kept_request* one) {
  if (!one->made) return MPI_SUCCESS;
  unchain(store, one);
  one->made = 0;
  if (store->last == one) store->last = NULL;
  return MPI_Request_free(&one->request);
}

/* A request that is not in flight: a matching one (*fresh = 0), or room for one that the caller has to make
 * (*fresh = 1). NULL: all are in flight. */
static __attribute__((noinline)) struct kept_request* search_request(struct request_store* store,
                                                                     const struct purpose* purpose, int* fresh,
                                                                     int* code) {
  const unsigned place = place_of(purpose);
  *fresh = 0;
  *code = MPI_SUCCESS;
  for (int i = store->chain[place]; i >= 0; i = store->all[i].next) {
    struct kept_request* const one = &store->all[i];
    if (one->active || !same_purpose(&one->purpose, purpose)) continue;
    ++store->reused;
    return store->last = one;
  }
  *fresh = 1;
  for (int tries = 0; tries < KEPT; ++tries) {
    struct kept_request* const one = &store->all[store->hand];
    store->hand = (store->hand + 1) % KEPT;
    if (one->active) continue;
    *code = drop_request(store, one);
    one->purpose = *purpose;
    one->next = store->chain[place];
    store->chain[place] = (int)(one - store->all);
    one->made = 1;
    ++store->made;
    return store->last = one;
  }
  return NULL;
}

static inline struct kept_request* find_request(struct request_store* store, const struct purpose* purpose, int* fresh,
                                                int* code) {
  struct kept_request* const last = store->last;
  if (LIKELY(last != NULL && !last->active && same_purpose(&last->purpose, purpose))) {
    *fresh = 0;
    *code = MPI_SUCCESS;
    ++store->reused;
    return last;
  }
  return search_request(store, purpose, fresh, code);
}

/* Drops a request that could not be made. */
static inline void forget_request(struct request_store* store, struct kept_request* one) {
  unchain(store, one);
  one->made = 0;
  if (store->last == one) store->last = NULL;
}

/* Frees all that are not in flight; the store is then as new. */
static int drop_requests(struct request_store* store) {
  int code = MPI_SUCCESS;
  for (int i = 0; i < KEPT && code == MPI_SUCCESS; ++i) {
    if (!store->all[i].active) code = drop_request(store, &store->all[i]);
  }
  store->hand = 0;
  return code;
}

static inline void free_requests(np_endpoint* e) {
  for (int i = 0; i < PURPOSES; ++i) {
    if (e->stores[i] != NULL) drop_requests(e->stores[i]);
  }
}

#endif
