/* SPDX-License-Identifier: Apache-2.0
 *
 * The timed calls of one-sided transfers under patterns that send and receive. With put and accumulate the sender moves
 * the message to where the receiver wants it; with get the receiver fetches it from where the sender has it. Before
 * each visit the ranks exchange these places (prepare), so no address travels with a message.
 *
 * fence and pscw tell by themselves when a message has arrived. With a lock only the origin knows, so it puts a counter
 * behind the message, and the other rank polls its own counter until it changes. It polls inside MPI, because most
 * libraries move a transfer only while its target calls them.
 */
#ifndef NETPIPE_MPI_ONE_SIDED_H
#define NETPIPE_MPI_ONE_SIDED_H

#include <sched.h>

#include "mpi_messages.h"
#include "mpi_windows.h"

/* ---------------------------------------------------------------------------------------------- places */

/* Collective. Everything of the visit before must have arrived before the counters are reset. */
static np_status prepare_one_sided(np_endpoint* e, const np_visit* visit) {
  const np_places* const own = e->op == OP_GET ? &visit->outgoing : &visit->incoming;
  struct window* const w = window_of(e, own->base);
  if (w == NULL) {
    e->broken = 1;
    return fail(e->context, NP_UNSUPPORTED, "op=%s: the messages are in memory that is not of this module",
                text_of(&e->settings, "op"));
  }
  if (own->count == 0) {
    return fail(e->context, NP_UNSUPPORTED, "op=%s: with reuse the place of a message at its peer is not known",
                text_of(&e->settings, "op"));
  }
  np_status status = e->active != NULL ? end_epoch(e, e->active) : NP_OK;
#if HAVE_MPI_3
  if (status == NP_OK && passive(e)) status = outcome(e, MPI_Win_flush_all(e->flags.win), "MPI_Win_flush_all");
#endif
  if (status != NP_OK) return status;
  struct far_places mine = {.window = (int)(w - e->windows),
                            .base = own->base - w->base,
                            .stride = (long long)own->stride,
                            .count = (long long)own->count,
                            .next = (long long)own->next};
  MPI_OR_RETURN(e, MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, e->far, (int)sizeof mine, MPI_BYTE, e->comm),
                "MPI_Allgather");
  for (int rank = 0; rank < e->nranks; ++rank) {
    if (e->far[rank].window == mine.window) continue;
    e->broken = 1;
    return fail(e->context, NP_UNSUPPORTED,
                "op=%s: the messages of rank %d are in another window than those of rank %d",
                text_of(&e->settings, "op"), rank, e->rank);
  }
  e->active = w;
  e->met = -1;
  e->sent = e->received = 0;
  memset(e->flags.base, 0, FLAGS_ROOM);
#if HAVE_MPI_3
  if (passive(e)) MPI_OR_RETURN(e, MPI_Win_sync(e->flags.win), "MPI_Win_sync");
#endif
  return begin_epoch(e, w);
}

static COLD np_status meet(np_endpoint* e, int peer) {
  if (e->met >= 0) {
    return fail(e->context, NP_UNSUPPORTED,
                "op=%s: the transfers of one visit are between two ranks, and rank %d is asked for %d after %d",
                text_of(&e->settings, "op"), e->rank, peer, e->met);
  }
  e->met = peer;
  e->far_now = e->far[peer];
  e->far_now.base += e->active->far_base[peer];
  return NP_OK;
}

#define MEET_OR_RETURN(e, peer)                                 \
  do {                                                          \
    if (UNLIKELY((e)->met != (peer))) {                         \
      const np_status status_of_meeting = meet(e, peer);        \
      if (status_of_meeting != NP_OK) return status_of_meeting; \
    }                                                           \
  } while (0)

/* Starts the transfer of the next message; either rank may be its origin. */
static inline np_status transfer_next(np_endpoint* e, int peer, const void* data, size_t bytes) {
  SHAPE_OR_RETURN(e, bytes, shape);
  struct far_places* const far = &e->far_now;
  const MPI_Aint place = (MPI_Aint)(far->base + far->stride * far->next);
  if (++far->next >= far->count) far->next = 0;
  return outcome(e, transfer(e, e->active->win, peer, data, place, &shape), "a one-sided transfer");
}

/* ---------------------------------------------------------------------------------------------- active target */

static np_status origin_fence(np_endpoint* e, int peer, const void* data, size_t bytes) {
  MEET_OR_RETURN(e, peer);
  const np_status status = transfer_next(e, peer, data, bytes);
  if (UNLIKELY(status != NP_OK)) return status;
  return outcome(e, MPI_Win_fence(0, e->active->win), "MPI_Win_fence");
}

static np_status target_fence(np_endpoint* e, int peer) {
  MEET_OR_RETURN(e, peer);
  return outcome(e, MPI_Win_fence(0, e->active->win), "MPI_Win_fence");
}

static np_status origin_pscw(np_endpoint* e, int peer, const void* data, size_t bytes) {
  MEET_OR_RETURN(e, peer);
  MPI_OR_RETURN(e, MPI_Win_start(e->groups[peer], 0, e->active->win), "MPI_Win_start");
  const np_status status = transfer_next(e, peer, data, bytes);
  if (UNLIKELY(status != NP_OK)) return status;
  return outcome(e, MPI_Win_complete(e->active->win), "MPI_Win_complete");
}

static np_status target_pscw(np_endpoint* e, int peer) {
  MEET_OR_RETURN(e, peer);
  MPI_OR_RETURN(e, MPI_Win_post(e->groups[peer], 0, e->active->win), "MPI_Win_post");
  return outcome(e, MPI_Win_wait(e->active->win), "MPI_Win_wait");
}

/* ---------------------------------------------------------------------------------------------- passive target */

#if HAVE_MPI_3
/* Reconciles the two copies, what is stored here and what others read, where the library keeps both. */
static inline np_status reconcile(np_endpoint* e) {
  if (LIKELY(!e->separate)) return NP_OK;
  if (e->sync != SYNC_LOCK) return outcome(e, MPI_Win_sync(e->active->win), "MPI_Win_sync");
  MPI_OR_RETURN(e, MPI_Win_lock(MPI_LOCK_SHARED, e->rank, 0, e->active->win), "MPI_Win_lock");
  return outcome(e, MPI_Win_unlock(e->rank, e->active->win), "MPI_Win_unlock");
}

/* The transfer, complete at the target except with sync=none. */
static inline np_status transfer_passive(np_endpoint* e, int peer, const void* data, size_t bytes) {
  if (e->sync != SYNC_LOCK) {
    const np_status status = transfer_next(e, peer, data, bytes);
    if (UNLIKELY(status != NP_OK) || e->sync == SYNC_NONE) return status;
    return outcome(e, MPI_Win_flush(peer, e->active->win), "MPI_Win_flush");
  }
  const int lock = e->op == OP_PUT ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED;
  MPI_OR_RETURN(e, MPI_Win_lock(lock, peer, 0, e->active->win), "MPI_Win_lock");
  const np_status status = transfer_next(e, peer, data, bytes);
  if (UNLIKELY(status != NP_OK)) return status;
  return outcome(e, MPI_Win_unlock(peer, e->active->win), "MPI_Win_unlock");
}

/* Puts this rank's counter at the peer, behind what it counts. Local completion is enough: the peer sees it or waits.
 */
static inline np_status tell(np_endpoint* e, int peer, int flag, uint64_t value) {
  uint64_t* const from = &e->told[e->tellings++ % TOLD];
  const MPI_Aint place = (MPI_Aint)(e->flags.far_base[peer] + flag * FLAG_DISTANCE);
  *from = value;
  /* By the same operation as the message, which is more likely to keep the order without synchronisation. */
  const int code = e->op == OP_ACCUMULATE
                       ? MPI_Accumulate(from, 1, MPI_UINT64_T, peer, place, 1, MPI_UINT64_T, MPI_REPLACE, e->flags.win)
                       : MPI_Put(from, 1, MPI_UINT64_T, peer, place, 1, MPI_UINT64_T, e->flags.win);
  MPI_OR_RETURN(e, code, "putting the counter");
  /* The origin of a message without synchronisation must be able to use its buffer again, as after MPI_Send. */
  if (e->sync == SYNC_NONE) {
    MPI_OR_RETURN(e, MPI_Win_flush_local(peer, e->active->win), "MPI_Win_flush_local");
  }
  return outcome(e, MPI_Win_flush_local(peer, e->flags.win), "MPI_Win_flush_local");
}

/* Between two looks at memory that a peer puts to, inside MPI. */
static inline np_status look_again(np_endpoint* e, int peer, MPI_Win win, uint64_t looks) {
  int there = 0;
  MPI_OR_RETURN(e, MPI_Iprobe(peer, TAG_READY, e->comm, &there, MPI_STATUS_IGNORE), "MPI_Iprobe");
  MPI_OR_RETURN(e, MPI_Win_sync(win), "MPI_Win_sync");
  if (UNLIKELY(*e->context->abort != 0)) {
    e->broken = 1;
    return fail(e->context, NP_ABORTED, "gave up waiting for the counter of rank %d", peer);
  }
  if (e->yields && looks % 16 == 0) sched_yield();
  return NP_OK;
}

static inline np_status await(np_endpoint* e, int peer, int flag, uint64_t value) {
  const volatile uint64_t* const seen = (const volatile uint64_t*)(const void*)(e->flags.base + flag * FLAG_DISTANCE);
  for (uint64_t looks = 1; *seen < value; ++looks) {
    const np_status status = look_again(e, peer, e->flags.win, looks);
    if (UNLIKELY(status != NP_OK)) return status;
  }
  MPI_OR_RETURN(e, MPI_Win_sync(e->flags.win), "MPI_Win_sync"); /* nothing of the message is read earlier */
  return reconcile(e);
}
#endif

/* ---------------------------------------------------------------------------------------------- by op and sync */

static np_status send_one_sided(np_endpoint* e, int peer, const void* data, size_t bytes) {
  const int fetched = e->op == OP_GET;
  if (e->sync == SYNC_FENCE) return fetched ? target_fence(e, peer) : origin_fence(e, peer, data, bytes);
  if (e->sync == SYNC_PSCW) return fetched ? target_pscw(e, peer) : origin_pscw(e, peer, data, bytes);
#if HAVE_MPI_3
  MEET_OR_RETURN(e, peer);
  np_status status = fetched ? reconcile(e) : transfer_passive(e, peer, data, bytes);
  if (LIKELY(status == NP_OK)) status = tell(e, peer, FLAG_SENT, ++e->sent);
  /* Waits until the memory is the sender's again, and serves the get meanwhile. */
  if (fetched && LIKELY(status == NP_OK)) status = await(e, peer, FLAG_FETCHED, e->sent);
  return status;
#else
  return NP_UNSUPPORTED;
#endif
}

static np_status recv_one_sided(np_endpoint* e, int peer, void* data, size_t bytes) {
  const int fetches = e->op == OP_GET;
  if (e->sync == SYNC_FENCE) return fetches ? origin_fence(e, peer, data, bytes) : target_fence(e, peer);
  if (e->sync == SYNC_PSCW) return fetches ? origin_pscw(e, peer, data, bytes) : target_pscw(e, peer);
#if HAVE_MPI_3
  MEET_OR_RETURN(e, peer);
  np_status status = await(e, peer, FLAG_SENT, ++e->received);
  if (!fetches || UNLIKELY(status != NP_OK)) return status;
  status = transfer_passive(e, peer, data, bytes);
  if (LIKELY(status == NP_OK)) status = tell(e, peer, FLAG_FETCHED, e->received);
  return status;
#else
  return NP_UNSUPPORTED;
#endif
}

#endif
