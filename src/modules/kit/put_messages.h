/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages made out of puts, for layers that have no other way to move bytes (shmem, armci). Plain C. Everything that
 * peers write lies in one block of memory that every rank can reach and that has the same layout on all of them:
 *
 *   events  a counter per sender: how many pieces it has delivered; it is put behind each piece, so it tells of it
 *   acks    a counter per receiver: how many cells it has emptied
 *   posts   a ring per receiver: where it wants its next large messages, and in which lap of the ring
 *   cells   a ring per sender, for pieces of small messages, which the receiver copies to their place
 *   signals a ring per sender, for put_signal
 *
 * A message up to `eager` bytes goes through cells, in pieces. For a larger one the receiver posts its place, and the
 * sender puts it there in one piece; a place that nobody can reach is posted as such, and the message goes through
 * cells. Both sides know the size, so both know the way. What cannot move at once waits in a queue per peer and
 * direction, and every wait moves all queues.
 *
 * The other way, `placed`: the sender puts each message of the visit's size straight to the place that the receiver
 * announced for the visit, without asking and without a copy. It is for visits in which all of them land where np_visit
 * says; messages of another size (an acknowledgement) go through cells.
 *
 * The module defines what this calls:
 *
 *   pm_put(e, peer, far, near, bytes)   puts; near may be used again when it returns
 *   pm_order(e, peer)                   puts before it are seen before those behind it
 *   pm_word(e, peer, far, value)        puts an aligned 64-bit word
 *   pm_progress(e)                      lets the library move what needs its help
 *   pm_far(e, ends, peer, offset)       this byte of the block of a peer
 *   pm_context(e)                       the endpoint's context
 *   pm_token(e, memory, bytes)          what peers call this memory, below 2^61; 0: they cannot reach it
 *   pm_place(e, peer, token)            memory of a peer by that name
 */
#ifndef NETPIPE_KIT_PUT_MESSAGES_H
#define NETPIPE_KIT_PUT_MESSAGES_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "netpipe/module.h"

enum { PM_LINE = 128, PM_POSTS = 256, PM_SIGNALS = 1024 };
#define PM_NEVER UINT64_MAX
/* Of a post, below the token. A library may put a word twice (a memcpy of 8 bytes may store them twice), and the second
 * time after its reader has read it. So no reader empties a place in the ring: a post of the last lap is told by its
 * lap. */
enum { PM_POSTED = 1, PM_UNREACHABLE = 2, PM_ODD_LAP = 4, PM_TOKEN_AT = 3 };
/* Words of a request. */
enum { PM_DATA, PM_BYTES, PM_MOVED, PM_NEXT, PM_DONE, PM_WHERE, PM_PEER, PM_KIND };
enum { PM_BY_CELLS, PM_BY_PLACE, PM_NOT_POSTED };
enum { PM_QUEUED_OUT, PM_QUEUED_IN, PM_AWAITS_EVENT };

struct pm_peer {
  uint64_t sent, received;               /* pieces: the events that were told, and those that were taken */
  uint64_t cells_out, cells_in, told_in; /* cells filled there, emptied here, and told as emptied */
  uint64_t posts_out, posts_in;          /* places taken from its ring, and put into its ring */
  uint64_t posts_met;                    /* of the latter: messages that have arrived, so the sender has read them */
  np_request *out, *out_last, *in, *in_last, *in_unposted;
  uint64_t signals_out, signals_in;
  /* placed: */
  uint64_t far_base, far_stride, far_count, far_next;
};

/* One rank's end. The module keeps it in its endpoint; memory and peers are the module's to allocate and free. */
struct pm_ends {
  char* block;           /* of pm_block_bytes() */
  void** far_blocks;     /* where it is on each rank; NULL: at the same address */
  struct pm_peer* peers; /* one per rank, zeroed */
  int rank, nranks;
  uint32_t slots, cell; /* per ring, and bytes of each */
  uint64_t eager;
  uint64_t placed_bytes;  /* messages of this size go to the announced places; PM_NEVER: none does */
  int patient;            /* sleeps between looks: for what is not timed */
  int yields;             /* ranks share a processor */
  uint64_t progress_mask; /* looks between two calls into the library, less one: 0 where it moves nothing by itself */
  np_places here;
  int met; /* placed: the sender of this visit; -1: none yet */
};

static inline np_status pm_put(np_endpoint* e, int peer, void* far, const void* near, size_t bytes);
static inline np_status pm_order(np_endpoint* e, int peer);
static inline np_status pm_word(np_endpoint* e, int peer, uint64_t* far, uint64_t value);
static inline void pm_progress(np_endpoint* e);
static inline void* pm_far(np_endpoint* e, const struct pm_ends* m, int peer, size_t offset);
static inline uint64_t pm_token(np_endpoint* e, const void* memory, size_t bytes);
static inline void* pm_place(np_endpoint* e, int peer, uint64_t token);
static inline const np_context* pm_context(const np_endpoint* e);

/* ---------------------------------------------------------------------------------------------- the block */

static inline size_t pm_acks_at(const struct pm_ends* m) { return (size_t)m->nranks * PM_LINE; }
static inline size_t pm_posts_at(const struct pm_ends* m) { return 2 * pm_acks_at(m); }
static inline size_t pm_signals_at(const struct pm_ends* m) {
  return pm_posts_at(m) + (size_t)m->nranks * PM_POSTS * sizeof(uint64_t);
}
static inline size_t pm_credits_at(const struct pm_ends* m) {
  return pm_signals_at(m) + (size_t)m->nranks * PM_SIGNALS * sizeof(uint64_t);
}
static inline size_t pm_cells_at(const struct pm_ends* m) { return pm_credits_at(m) + pm_acks_at(m); }
static inline size_t pm_cell_at(const struct pm_ends* m, int sender, uint64_t number) {
  return pm_cells_at(m) + ((size_t)sender * m->slots + number % m->slots) * m->cell;
}
static inline size_t pm_block_bytes(const struct pm_ends* m) {
  return pm_cells_at(m) + (size_t)m->nranks * m->slots * m->cell;
}

static inline uint64_t* pm_here(const struct pm_ends* m, size_t offset) {
  return (uint64_t*)(void*)(m->block + offset);
}
static inline uint64_t pm_read(const uint64_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

/* Between two barriers, when nothing is in flight: forgets all that was sent before. */
static inline void pm_reset(struct pm_ends* m) {
  memset(m->block, 0, pm_cells_at(m));
  memset(m->peers, 0, (size_t)m->nranks * sizeof *m->peers);
  m->met = -1;
}

/* ---------------------------------------------------------------------------------------------- telling, waiting */

#define PM_TRY(call)                                                         \
  do {                                                                       \
    const np_status status_of_call = (call);                                 \
    if (__builtin_expect(status_of_call != NP_OK, 0)) return status_of_call; \
  } while (0)

/* One piece is there. */
static inline np_status pm_tell(np_endpoint* e, struct pm_ends* m, int peer) {
  PM_TRY(pm_order(e, peer));
  const size_t mine = (size_t)m->rank * PM_LINE;
  return pm_word(e, peer, (uint64_t*)pm_far(e, m, peer, mine), ++m->peers[peer].sent);
}

static inline int pm_arrived(const struct pm_ends* m, int peer) {
  return pm_read(pm_here(m, (size_t)peer * PM_LINE)) > m->peers[peer].received;
}

/* What a wait does between two looks. */
static inline np_status pm_pause(np_endpoint* e, const struct pm_ends* m, uint64_t looks) {
  if ((looks & m->progress_mask) == 0) pm_progress(e);
  if (__builtin_expect(*pm_context(e)->abort != 0, 0)) {
    snprintf(pm_context(e)->message, pm_context(e)->message_bytes, "gave up waiting for another rank");
    return NP_ABORTED;
  }
  if (m->yields && looks % 16 == 0) sched_yield();
  if (m->patient && looks > 2000) {
    const struct timespec moment = {0, 50000};
    nanosleep(&moment, NULL);
  }
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- queues */

static inline np_request* pm_next(const np_request* r) { return (np_request*)(uintptr_t)r->word[PM_NEXT]; }

static inline int pm_has_room(const struct pm_ends* m, int peer) {
  const struct pm_peer* const p = &m->peers[peer];
  return p->cells_out - pm_read(pm_here(m, pm_acks_at(m) + (size_t)peer * PM_LINE)) < m->slots;
}

static inline np_status pm_fill_cell(np_endpoint* e, struct pm_ends* m, int peer, const void* data, size_t bytes) {
  struct pm_peer* const p = &m->peers[peer];
  if (bytes > 0) PM_TRY(pm_put(e, peer, pm_far(e, m, peer, pm_cell_at(m, m->rank, p->cells_out)), data, bytes));
  ++p->cells_out;
  return pm_tell(e, m, peer);
}

static inline np_status pm_empty_cell(np_endpoint* e, struct pm_ends* m, int peer, void* data, size_t bytes) {
  struct pm_peer* const p = &m->peers[peer];
  memcpy(data, m->block + pm_cell_at(m, peer, p->cells_in), bytes);
  ++p->cells_in;
  ++p->received;
  if (p->cells_in - p->told_in < m->slots / 2) return NP_OK;
  p->told_in = p->cells_in;
  const size_t mine = pm_acks_at(m) + (size_t)m->rank * PM_LINE;
  return pm_word(e, peer, (uint64_t*)pm_far(e, m, peer, mine), p->cells_in);
}

static inline size_t pm_piece(const struct pm_ends* m, const np_request* r) {
  const uint64_t left = r->word[PM_BYTES] - r->word[PM_MOVED];
  return left < m->cell ? (size_t)left : m->cell;
}

/* Of this post, by its number. */
static inline uint64_t pm_lap(uint64_t number) { return number / PM_POSTS % 2 != 0 ? PM_ODD_LAP : 0; }

/* The next large message to this peer, if its place is known. */
static inline np_status pm_put_in_place(np_endpoint* e, struct pm_ends* m, int peer, np_request* r, int* moved) {
  struct pm_peer* const p = &m->peers[peer];
  const size_t ring = pm_posts_at(m) + (size_t)peer * PM_POSTS * sizeof(uint64_t);
  const uint64_t place = pm_read(pm_here(m, ring) + p->posts_out % PM_POSTS);
  *moved = 0;
  if (place == 0 || (place & PM_ODD_LAP) != pm_lap(p->posts_out)) return NP_OK;
  ++p->posts_out;
  if ((place & PM_UNREACHABLE) != 0) {
    r->word[PM_WHERE] = PM_BY_CELLS;
    return NP_OK;
  }
  PM_TRY(pm_put(e, peer, pm_place(e, peer, place >> PM_TOKEN_AT), (const void*)(uintptr_t)r->word[PM_DATA],
                r->word[PM_BYTES]));
  *moved = 1;
  return pm_tell(e, m, peer);
}

static inline np_status pm_move_out(np_endpoint* e, struct pm_ends* m, int peer) {
  struct pm_peer* const p = &m->peers[peer];
  for (np_request* r = p->out; r != NULL; r = p->out) {
    int whole = 0;
    if (r->word[PM_WHERE] == PM_BY_PLACE) {
      PM_TRY(pm_put_in_place(e, m, peer, r, &whole));
      if (!whole && r->word[PM_WHERE] == PM_BY_PLACE) return NP_OK;
    }
    while (!whole) {
      if (!pm_has_room(m, peer)) return NP_OK;
      const size_t piece = pm_piece(m, r);
      PM_TRY(pm_fill_cell(e, m, peer, (const char*)(uintptr_t)r->word[PM_DATA] + r->word[PM_MOVED], piece));
      r->word[PM_MOVED] += piece;
      whole = r->word[PM_MOVED] == r->word[PM_BYTES];
    }
    p->out = pm_next(r);
    r->word[PM_DONE] = 1;
  }
  return NP_OK;
}

/* Tells the sender where the next large messages from it shall land. */
static inline np_status pm_post(np_endpoint* e, struct pm_ends* m, int peer) {
  struct pm_peer* const p = &m->peers[peer];
  for (np_request* r = p->in_unposted; r != NULL; r = p->in_unposted) {
    if (r->word[PM_WHERE] == PM_NOT_POSTED) {
      if (p->posts_in - p->posts_met >= PM_POSTS) return NP_OK;
      const uint64_t token = pm_token(e, (const void*)(uintptr_t)r->word[PM_DATA], r->word[PM_BYTES]);
      const size_t ring = pm_posts_at(m) + (size_t)m->rank * PM_POSTS * sizeof(uint64_t);
      const uint64_t lap = pm_lap(p->posts_in);
      const size_t place = ring + p->posts_in++ % PM_POSTS * sizeof(uint64_t);
      r->word[PM_WHERE] = token != 0 ? PM_BY_PLACE : PM_BY_CELLS;
      PM_TRY(pm_word(e, peer, (uint64_t*)pm_far(e, m, peer, place),
                     (token != 0 ? token << PM_TOKEN_AT | PM_POSTED : PM_UNREACHABLE) | lap));
    }
    p->in_unposted = pm_next(r);
  }
  return NP_OK;
}

static inline np_status pm_move_in(np_endpoint* e, struct pm_ends* m, int peer) {
  struct pm_peer* const p = &m->peers[peer];
  PM_TRY(pm_post(e, m, peer));
  for (np_request* r = p->in; r != NULL; r = p->in) {
    if (r->word[PM_WHERE] == PM_NOT_POSTED) return NP_OK;
    int whole = 0;
    while (!whole) {
      if (!pm_arrived(m, peer)) return NP_OK;
      if (r->word[PM_WHERE] == PM_BY_PLACE) {
        ++p->received;
        break;
      }
      const size_t piece = pm_piece(m, r);
      PM_TRY(pm_empty_cell(e, m, peer, (char*)(uintptr_t)r->word[PM_DATA] + r->word[PM_MOVED], piece));
      r->word[PM_MOVED] += piece;
      whole = r->word[PM_MOVED] == r->word[PM_BYTES];
    }
    if (r->word[PM_BYTES] > m->eager) ++p->posts_met;
    p->in = pm_next(r);
    r->word[PM_DONE] = 1;
    if (p->in_unposted != NULL) PM_TRY(pm_post(e, m, peer));
  }
  return NP_OK;
}

static inline np_status pm_move_all(np_endpoint* e, struct pm_ends* m) {
  for (int peer = 0; peer < m->nranks; ++peer) {
    if (m->peers[peer].out != NULL) PM_TRY(pm_move_out(e, m, peer));
    if (m->peers[peer].in != NULL) PM_TRY(pm_move_in(e, m, peer));
  }
  return NP_OK;
}

static inline void pm_fill_request(const struct pm_ends* m, np_request* r, int peer, const void* data, size_t bytes,
                                   int kind) {
  const uint64_t large = kind == PM_QUEUED_IN ? PM_NOT_POSTED : PM_BY_PLACE;
  *r = (np_request){.word = {[PM_DATA] = (uint64_t)(uintptr_t)data,
                             [PM_BYTES] = bytes,
                             [PM_WHERE] = bytes > m->eager ? large : PM_BY_CELLS,
                             [PM_PEER] = (uint64_t)peer,
                             [PM_KIND] = (uint64_t)kind}};
}

static inline np_status pm_queue_out(np_endpoint* e, struct pm_ends* m, int peer, const void* data, size_t bytes,
                                     np_request* r) {
  struct pm_peer* const p = &m->peers[peer];
  pm_fill_request(m, r, peer, data, bytes, PM_QUEUED_OUT);
  if (p->out == NULL) {
    p->out = r;
  } else {
    p->out_last->word[PM_NEXT] = (uint64_t)(uintptr_t)r;
  }
  p->out_last = r;
  return pm_move_out(e, m, peer);
}

static inline np_status pm_queue_in(np_endpoint* e, struct pm_ends* m, int peer, void* data, size_t bytes,
                                    np_request* r) {
  struct pm_peer* const p = &m->peers[peer];
  pm_fill_request(m, r, peer, data, bytes, PM_QUEUED_IN);
  if (p->in == NULL) {
    p->in = r;
  } else {
    p->in_last->word[PM_NEXT] = (uint64_t)(uintptr_t)r;
  }
  p->in_last = r;
  if (p->in_unposted == NULL && r->word[PM_WHERE] == PM_NOT_POSTED) p->in_unposted = r;
  return pm_move_in(e, m, peer);
}

static inline np_status pm_end(np_endpoint* e, struct pm_ends* m, np_request* r) {
  for (uint64_t looks = 1; r->word[PM_DONE] == 0; ++looks) {
    PM_TRY(pm_move_all(e, m));
    if (r->word[PM_DONE] != 0) break;
    PM_TRY(pm_pause(e, m, looks));
  }
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- send, recv */

static inline np_status pm_send(np_endpoint* e, struct pm_ends* m, int peer, const void* data, size_t bytes) {
  if (bytes <= m->eager && bytes <= m->cell && m->peers[peer].out == NULL && pm_has_room(m, peer)) {
    return pm_fill_cell(e, m, peer, data, bytes);
  }
  np_request request;
  PM_TRY(pm_queue_out(e, m, peer, data, bytes, &request));
  return pm_end(e, m, &request);
}

static inline np_status pm_recv(np_endpoint* e, struct pm_ends* m, int peer, void* data, size_t bytes) {
  if (bytes <= m->eager && bytes <= m->cell && m->peers[peer].in == NULL) {
    for (uint64_t looks = 1; !pm_arrived(m, peer); ++looks) {
      if (looks % 64 == 0 && m->nranks > 2) {
        PM_TRY(pm_move_all(e, m));
      } else if (m->peers[peer].out != NULL) {
        PM_TRY(pm_move_out(e, m, peer));
      }
      PM_TRY(pm_pause(e, m, looks));
    }
    return pm_empty_cell(e, m, peer, data, bytes);
  }
  np_request request;
  PM_TRY(pm_queue_in(e, m, peer, data, bytes, &request));
  return pm_end(e, m, &request);
}

/* ---------------------------------------------------------------------------------------------- placed */

/* The sender's next put of this visit goes where the receiver said that its next message shall land. */
static inline np_status pm_send_placed(np_endpoint* e, struct pm_ends* m, int peer, const void* data, size_t bytes) {
  struct pm_peer* const p = &m->peers[peer];
  const uint64_t token = p->far_base + p->far_stride * p->far_next;
  if (++p->far_next >= p->far_count) p->far_next = 0;
  if (bytes > 0) PM_TRY(pm_put(e, peer, pm_place(e, peer, token), data, bytes));
  return pm_tell(e, m, peer);
}

/* Where the next message from this peer lands. */
static inline np_status pm_landing(np_endpoint* e, struct pm_ends* m, int peer, const char** place) {
  if (__builtin_expect(m->met != peer, 0)) {
    if (m->met >= 0) {
      snprintf(pm_context(e)->message, pm_context(e)->message_bytes,
               "op=put: only one rank can put to the places that rank %d announced, and ranks %d and %d do: choose "
               "op=cells",
               m->rank, m->met, peer);
      return NP_UNSUPPORTED;
    }
    m->met = peer;
  }
  *place = m->here.base + m->here.stride * m->here.next;
  if (++m->here.next >= m->here.count) m->here.next = 0;
  return NP_OK;
}

/* A pattern may want a message elsewhere, as an acknowledgement that has the size of the others. */
static inline void pm_bring(void* data, const char* place, size_t bytes) {
  if (__builtin_expect((const char*)data != place, 0)) memcpy(data, place, bytes);
}

static inline np_status pm_recv_placed(np_endpoint* e, struct pm_ends* m, int peer, void* data, size_t bytes) {
  const char* place = NULL;
  PM_TRY(pm_landing(e, m, peer, &place));
  for (uint64_t looks = 1; !pm_arrived(m, peer); ++looks) PM_TRY(pm_pause(e, m, looks));
  ++m->peers[peer].received;
  pm_bring(data, place, bytes);
  return NP_OK;
}

/* A receive that only waits: for the event with this number. */
static inline np_status pm_irecv_placed(np_endpoint* e, struct pm_ends* m, int peer, void* data, size_t bytes,
                                        np_request* r) {
  const char* place = NULL;
  PM_TRY(pm_landing(e, m, peer, &place));
  *r = (np_request){.word = {[PM_DATA] = (uint64_t)(uintptr_t)data,
                             [PM_BYTES] = bytes,
                             [PM_MOVED] = ++m->peers[peer].received,
                             [PM_WHERE] = (uint64_t)(uintptr_t)place,
                             [PM_PEER] = (uint64_t)peer,
                             [PM_KIND] = PM_AWAITS_EVENT}};
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- isend, irecv */

static inline np_status pm_isend(np_endpoint* e, struct pm_ends* m, int peer, const void* data, size_t stride,
                                 size_t bytes, np_request* requests, size_t count) {
  const char* at = data;
  for (size_t i = 0; i < count; ++i, at += stride) {
    if (bytes != m->placed_bytes) {
      PM_TRY(pm_queue_out(e, m, peer, at, bytes, &requests[i]));
      continue;
    }
    pm_fill_request(m, &requests[i], peer, at, bytes, PM_QUEUED_OUT);
    PM_TRY(pm_send_placed(e, m, peer, at, bytes));
    requests[i].word[PM_DONE] = 1;
  }
  return NP_OK;
}

static inline np_status pm_irecv(np_endpoint* e, struct pm_ends* m, int peer, void* data, size_t stride, size_t bytes,
                                 np_request* requests, size_t count) {
  char* at = data;
  for (size_t i = 0; i < count; ++i, at += stride) {
    PM_TRY(bytes == m->placed_bytes ? pm_irecv_placed(e, m, peer, at, bytes, &requests[i])
                                    : pm_queue_in(e, m, peer, at, bytes, &requests[i]));
  }
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- requests */

static inline int pm_done(const struct pm_ends* m, np_request* r) {
  if (r->word[PM_DONE] != 0 || r->word[PM_KIND] != PM_AWAITS_EVENT) return r->word[PM_DONE] != 0;
  if (pm_read(pm_here(m, (size_t)r->word[PM_PEER] * PM_LINE)) < r->word[PM_MOVED]) return 0;
  pm_bring((void*)(uintptr_t)r->word[PM_DATA], (const char*)(uintptr_t)r->word[PM_WHERE], r->word[PM_BYTES]);
  r->word[PM_DONE] = 1;
  return 1;
}

static inline np_status pm_test(np_endpoint* e, struct pm_ends* m, np_request* r) {
  if (pm_done(m, r)) return NP_OK;
  pm_progress(e);
  PM_TRY(pm_move_all(e, m));
  return pm_done(m, r) ? NP_OK : NP_PENDING;
}

static inline np_status pm_wait(np_endpoint* e, struct pm_ends* m, np_request* requests, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    for (uint64_t looks = 1; !pm_done(m, &requests[i]); ++looks) {
      PM_TRY(pm_move_all(e, m));
      if (pm_done(m, &requests[i])) break;
      PM_TRY(pm_pause(e, m, looks));
    }
  }
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- signals */

/* A signal is a word of the ring: the lower half of the value, and above it the lower half of its number, from 1. */
static inline np_status pm_signal_room(np_endpoint* e, const struct pm_ends* m, int peer) {
  const uint64_t* const taken = pm_here(m, pm_credits_at(m) + (size_t)peer * PM_LINE);
  for (uint64_t looks = 1; m->peers[peer].signals_out - pm_read(taken) >= PM_SIGNALS; ++looks) {
    PM_TRY(pm_pause(e, m, looks));
  }
  return NP_OK;
}

static inline size_t pm_signal_at(const struct pm_ends* m, int sender, uint64_t number) {
  return pm_signals_at(m) + ((size_t)sender * PM_SIGNALS + number % PM_SIGNALS) * sizeof(uint64_t);
}

static inline uint64_t pm_signal_word(uint64_t number, uint64_t value) {
  return (number + 1) << 32 | (value & UINT32_MAX);
}

static inline np_status pm_await_signal(np_endpoint* e, struct pm_ends* m, int peer, uint64_t* value) {
  struct pm_peer* const p = &m->peers[peer];
  const uint64_t* const word = pm_here(m, pm_signal_at(m, peer, p->signals_in));
  uint64_t seen = pm_read(word);
  for (uint64_t looks = 1; seen >> 32 != ((p->signals_in + 1) & UINT32_MAX); ++looks, seen = pm_read(word)) {
    PM_TRY(pm_pause(e, m, looks));
  }
  *value = seen & UINT32_MAX;
  if (++p->signals_in % (PM_SIGNALS / 2) != 0) return NP_OK;
  const size_t mine = pm_credits_at(m) + (size_t)m->rank * PM_LINE;
  return pm_word(e, peer, (uint64_t*)pm_far(e, m, peer, mine), p->signals_in);
}

#endif
