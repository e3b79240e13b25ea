/* SPDX-License-Identifier: Apache-2.0
 *
 * Patterns that put and get: MPI_Put and MPI_Get, or with requests MPI_Rput and MPI_Rget, into windows over the memory
 * of messages. These windows are made when netpipe exposes that memory, or together with it (window=allocate and
 * shared).
 *
 * A rank that flushes locks the window at all ranks (MPI_Win_lock_all) before its first transfer of a visit; its
 * targets do nothing and wait inside MPI for the end of the visit. The first fence of a visit begins an epoch of
 * MPI_Win_fence on all ranks. Both end when the next visit is prepared.
 */
#ifndef NETPIPE_MPI_REACH_H
#define NETPIPE_MPI_REACH_H

#include "mpi_messages.h"
#include "mpi_windows.h"

/* Words of an np_region: the window, and where the peer's part begins; of an own one, whether expose made it. */
enum { REGION_WINDOW, REGION_FAR_BASE, REGION_MADE };

/* ---------------------------------------------------------------------------------------------- making known */

/* Collective, once. Transfers into windows of this kind may be carried by something else than messages. */
static np_status look_at_windows(np_endpoint* e) {
  const struct found messages = e->found;
  np_status status = NP_OK;
  if (e->windows_found != FOUND_NOTHING) return status;
#if HAVE_MPI_3
  if (e->window_kind == WINDOW_SHARED) status = check_one_host(e);
#endif
  if (status == NP_OK) status = make_window(e, &e->flags, FLAGS_BYTES, NULL);
  if (status == NP_OK) status = look_at_transfers(e);
#if HAVE_MPI_3
  if (status == NP_OK) status = find_memory_model(e);
#else
  e->separate = 1;
#endif
  if (status == NP_OK) status = check_found(e);
  e->windows_found = e->found.transport;
  e->found = messages;
  if (status == NP_OK) free_window(e, &e->flags);
  if (status != NP_OK) e->broken = 1; /* the other ranks may have gone on */
  return status;
}

/* Collective. */
static np_status mpi_expose(np_endpoint* e, void* memory, size_t bytes, np_region* region) {
  if (e->one_sided) {
    return fail(e->context, NP_UNSUPPORTED,
                "op=%s makes a one-sided transfer of each message; a pattern that puts or gets itself needs op=send",
                text_of(&e->settings, "op"));
  }
  np_status status = look_at_windows(e);
  if (status == NP_OK) status = check_device_windows(e, NP_UNSUPPORTED);
  if (status != NP_OK) return status;
  struct window* w = window_of(e, memory);
  const int made = w == NULL;
  if (made) {
    status = add_window(e, bytes, memory, &w);
    if (status != NP_OK) return status;
  }
  const uint64_t window = (uint64_t)(w - e->windows);
  *region = (np_region){.base = memory, .bytes = bytes, .key_bytes = sizeof window};
  region->word[REGION_WINDOW] = window;
  region->word[REGION_MADE] = (uint64_t)made;
  memcpy(region->key, &window, sizeof window);
  return NP_OK;
}

static np_status mpi_attach(np_endpoint* e, int peer, np_region* region) {
  uint64_t window = WINDOWS;
  if (region->key_bytes == sizeof window) memcpy(&window, region->key, sizeof window);
  if (window >= (uint64_t)e->nwindows) {
    return fail(e->context, NP_FAILED, "rank %d names a window that rank %d does not have", peer, e->rank);
  }
  region->word[REGION_WINDOW] = window;
  region->word[REGION_FAR_BASE] = (uint64_t)e->windows[window].far_base[peer];
  region->word[REGION_MADE] = 0;
  return NP_OK;
}

/* Collective for what was exposed. Windows that were made with their memory are freed with it. */
static void mpi_withdraw(np_endpoint* e, np_region* region) {
  struct window* const w = &e->windows[region->word[REGION_WINDOW]];
  if (region->word[REGION_MADE] == 0) return;
  if (e->active == w) e->active = NULL;
  free_window(e, w);
}

/* ---------------------------------------------------------------------------------------------- epochs */

/* What local flushes have left on its way, before a barrier that says that it is there. */
static COLD np_status settle_reach(np_endpoint* e) {
#if HAVE_MPI_3
  const struct window* const w = e->active;
  if (w != NULL && w->epoch == EPOCH_LOCKED) return outcome(e, MPI_Win_flush_all(w->win), "MPI_Win_flush_all");
#else
  (void)e;
#endif
  return NP_OK;
}

/* Where the library keeps two copies: shows here what peers have put, and to peers what was stored here. */
static COLD np_status reconcile_reach(np_endpoint* e) {
#if HAVE_MPI_3
  struct window* const w = e->active;
  if (w == NULL || e->one_sided || w->epoch == EPOCH_FENCED) return NP_OK;
  if (w->epoch == EPOCH_LOCKED) return outcome(e, MPI_Win_sync(w->win), "MPI_Win_sync");
  MPI_OR_RETURN(e, MPI_Win_lock(MPI_LOCK_SHARED, e->rank, 0, w->win), "MPI_Win_lock");
  return outcome(e, MPI_Win_unlock(e->rank, w->win), "MPI_Win_unlock");
#else
  (void)e;
  return NP_OK;
#endif
}

/* Collective. There is one window for incoming and one for outgoing places, and a fence belongs to one window: the one
 * that this visit uses. */
static np_status prepare_reach(np_endpoint* e, const np_visit* visit) {
  struct window* const before = e->active;
  e->active = NULL;
  e->entered = NULL;
  if (before != NULL) {
    const np_status status = leave_epoch(e, before);
    if (status != NP_OK) return status;
    /* Most libraries release a lock only while the target is in MPI. */
    MPI_OR_RETURN(e, MPI_Barrier(e->comm), "MPI_Barrier");
  }
  if (visit->reach == NP_REACH_NONE) return NP_OK;
  e->active = window_of(e, visit->reach == NP_REACH_PUT ? visit->incoming.base : visit->outgoing.base);
  if (e->active == NULL) return fail(e->context, NP_UNSUPPORTED, "the messages of this visit are in no window");
  return UNLIKELY(e->separate) ? reconcile_reach(e) : NP_OK;
}

#if HAVE_MPI_3
static inline np_status lock_window(np_endpoint* e, struct window* w) {
  if (LIKELY(w->epoch == EPOCH_LOCKED)) return NP_OK;
  w->epoch = EPOCH_LOCKED;
  return outcome(e, MPI_Win_lock_all(0, w->win), "MPI_Win_lock_all");
}
#endif

/* Before the first transfer of a visit. Fails with the reason why there can be none. */
static COLD np_status enter_epoch(np_endpoint* e, const np_region* region, size_t offset, size_t bytes) {
  struct window* const w = &e->windows[region->word[REGION_WINDOW]];
  if (offset > region->bytes || bytes > region->bytes - offset) {
    return fail(e->context, NP_USAGE, "%zu bytes at offset %zu are not within the %llu bytes of the region", bytes,
                offset, (unsigned long long)region->bytes);
  }
  if (w != e->active) {
    return fail(e->context, NP_UNSUPPORTED, "a put or get into memory that was not announced for this visit");
  }
  e->entered = region;
  if (w->epoch != EPOCH_NONE) return NP_OK;
#if HAVE_MPI_3
  return lock_window(e, w);
#else
  e->entered = NULL;
  return fail(e->context, NP_UNSUPPORTED, "%s allows transfers only between two fences", e->library.version);
#endif
}

/* ---------------------------------------------------------------------------------------------- timed */

#define ENTER_OR_RETURN(e, region, at, much)                                                               \
  do {                                                                                                     \
    if (UNLIKELY((region) != (e)->entered || (at) > (region)->bytes || (much) > (region)->bytes - (at))) { \
      const np_status status_of_entering = enter_epoch(e, region, at, much);                               \
      if (status_of_entering != NP_OK) return status_of_entering;                                          \
    }                                                                                                      \
  } while (0)

static np_status mpi_put(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset,
                         size_t bytes) {
  SHAPE_OR_RETURN(e, bytes, shape);
  ENTER_OR_RETURN(e, target, offset, bytes);
  const MPI_Aint place = (MPI_Aint)(target->word[REGION_FAR_BASE] + offset);
  return outcome(e, ONE_SIDED(MPI_Put, source, shape, peer, place, e->active->win), "MPI_Put");
}

static np_status mpi_get(np_endpoint* e, int peer, void* target, const np_region* source, size_t offset, size_t bytes) {
  SHAPE_OR_RETURN(e, bytes, shape);
  ENTER_OR_RETURN(e, source, offset, bytes);
  const MPI_Aint place = (MPI_Aint)(source->word[REGION_FAR_BASE] + offset);
  return outcome(e, ONE_SIDED(MPI_Get, target, shape, peer, place, e->active->win), "MPI_Get");
}

static np_status mpi_fence(np_endpoint* e) {
  struct window* const w = e->active;
  if (UNLIKELY(w == NULL)) return fail(e->context, NP_UNSUPPORTED, "a fence in a visit that neither puts nor gets");
  if (UNLIKELY(w->epoch != EPOCH_FENCED)) {
    if (e->flush != FLUSH_TARGET) {
      return fail(e->context, NP_UNSUPPORTED, "flush=%s: this pattern fences and does not flush",
                  text_of(&e->settings, "flush"));
    }
    const np_status status = leave_epoch(e, w);
    if (status != NP_OK) return status;
    w->epoch = EPOCH_FENCED;
    e->entered = NULL;
  }
  return outcome(e, MPI_Win_fence(0, w->win), "MPI_Win_fence");
}

#if HAVE_MPI_3
/* One call, of one element of a datatype on each side. LAM ends a process that has a vector of a window. */
#define ALL_BLOCKS(call, name, near, region)                                                                       \
  const struct made_blocks* const blocks = e->blocks;                                                              \
  np_status made = find_blocks(e, shape->block_bytes, shape->blocks, shape->near_stride, &e->blocks[NEAR_BLOCKS]); \
  if (LIKELY(made == NP_OK)) {                                                                                     \
    made = find_blocks(e, shape->block_bytes, shape->blocks, shape->far_stride, &e->blocks[FAR_BLOCKS]);           \
  }                                                                                                                \
  if (UNLIKELY(made != NP_OK)) return made;                                                                        \
  ENTER_OR_RETURN(e, region, offset, (shape->blocks - 1) * shape->far_stride + shape->block_bytes);                \
  const MPI_Aint place = (MPI_Aint)((region)->word[REGION_FAR_BASE] + offset);                                     \
  return outcome(                                                                                                  \
      e, call(PLAIN(near), 1, blocks[NEAR_BLOCKS].type, peer, place, 1, blocks[FAR_BLOCKS].type, e->active->win),  \
      name)

static np_status mpi_put_strided(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset,
                                 const np_strided* shape) {
  ALL_BLOCKS(MPI_Put, "MPI_Put", source, target);
}

static np_status mpi_get_strided(np_endpoint* e, int peer, void* target, const np_region* source, size_t offset,
                                 const np_strided* shape) {
  ALL_BLOCKS(MPI_Get, "MPI_Get", target, source);
}

/* By the option flush. */
static inline np_status complete(np_endpoint* e, int peer, MPI_Win win) {
  if (LIKELY(e->flush == FLUSH_TARGET)) return outcome(e, MPI_Win_flush(peer, win), "MPI_Win_flush");
  if (e->flush == FLUSH_ALL) return outcome(e, MPI_Win_flush_all(win), "MPI_Win_flush_all");
  return outcome(e, MPI_Win_flush_local(peer, win), "MPI_Win_flush_local");
}

static np_status mpi_flush(np_endpoint* e, int peer) {
  const struct window* const w = e->active;
  if (UNLIKELY(w == NULL || w->epoch == EPOCH_NONE)) return NP_OK; /* nothing is in flight */
  if (UNLIKELY(w->epoch == EPOCH_FENCED)) return fail(e->context, NP_UNSUPPORTED, "a flush after a fence");
  return complete(e, peer, w->win);
}

/* As a program writes them, one after the other: through shared memory both calls together take 30 ns. */
#define EACH(call, name, near, region)                                                     \
  SHAPE_OR_RETURN(e, bytes, shape);                                                        \
  ENTER_OR_RETURN(e, region, offset, bytes);                                               \
  ENTER_OR_RETURN(e, region, offset + (count - 1) * far_stride, bytes);                    \
  const MPI_Win win = e->active->win;                                                      \
  MPI_Aint place = (MPI_Aint)((region)->word[REGION_FAR_BASE] + offset);                   \
  for (size_t i = 0; i < count; ++i, near += near_stride, place += (MPI_Aint)far_stride) { \
    MPI_OR_RETURN(e, ONE_SIDED(call, near, shape, peer, place, win), name);                \
    const np_status completed = complete(e, peer, win);                                    \
    if (UNLIKELY(completed != NP_OK)) return completed;                                    \
  }                                                                                        \
  return NP_OK

static np_status mpi_put_each(np_endpoint* e, int peer, const void* source, size_t near_stride, const np_region* target,
                              size_t offset, size_t far_stride, size_t bytes, size_t count) {
  const char* near = source;
  EACH(MPI_Put, "MPI_Put", near, target);
}

static np_status mpi_get_each(np_endpoint* e, int peer, void* target, size_t near_stride, const np_region* source,
                              size_t offset, size_t far_stride, size_t bytes, size_t count) {
  char* near = target;
  EACH(MPI_Get, "MPI_Get", near, source);
}

/* Not on a simulated machine: there a put leaves its source in no time, and a visit would never end. */
#if HAVE_PASSIVE_TARGET
/* Why transfers cannot be started with requests. Rank 0 alone starts some, so all ranks ask, by a batch of none. */
static COLD np_status lacks_requests(np_endpoint* e) {
  if (e->on_device) {
    return fail(e->context, NP_UNSUPPORTED,
                "memory=cuda: no library promises MPI_Rput and MPI_Rget for memory of a device");
  }
  if (e->flush == FLUSH_TARGET) return NP_OK;
  return fail(e->context, NP_UNSUPPORTED, "flush=%s: this pattern waits for requests and does not flush",
              text_of(&e->settings, "flush"));
}

/* MPI has these calls between a lock and its release only, and not between two fences. */
static COLD np_status between_fences(np_endpoint* e, const char* call) {
  return fail(e->context, NP_UNSUPPORTED, "%s after a fence", call);
}

#define START_ALL(call, name, near, region)                                                            \
  if (UNLIKELY(count == 0)) return lacks_requests(e);                                                  \
  SHAPE_OR_RETURN(e, bytes, shape);                                                                    \
  ENTER_OR_RETURN(e, region, offset, bytes);                                                           \
  ENTER_OR_RETURN(e, region, offset + (count - 1) * far_stride, bytes);                                \
  if (UNLIKELY(e->active->epoch != EPOCH_LOCKED)) return between_fences(e, name);                      \
  const MPI_Win win = e->active->win;                                                                  \
  MPI_Aint place = (MPI_Aint)((region)->word[REGION_FAR_BASE] + offset);                               \
  for (size_t i = 0; i < count; ++i, near += near_stride, place += (MPI_Aint)far_stride) {             \
    MPI_OR_RETURN(e, ONE_SIDED(call, near, shape, peer, place, win, own_request(&requests[i])), name); \
    requests[i].word[1] = OWN;                                                                         \
  }                                                                                                    \
  return NP_OK

/* When the request of a put has ended, its source may be used again; that of a get has ended when its bytes are here.
 */
static np_status mpi_iput(np_endpoint* e, int peer, const void* source, size_t near_stride, const np_region* target,
                          size_t offset, size_t far_stride, size_t bytes, np_request* requests, size_t count) {
  const char* near = source;
  START_ALL(MPI_Rput, "MPI_Rput", near, target);
}

static np_status mpi_iget(np_endpoint* e, int peer, void* target, size_t near_stride, const np_region* source,
                          size_t offset, size_t far_stride, size_t bytes, np_request* requests, size_t count) {
  char* near = target;
  START_ALL(MPI_Rget, "MPI_Rget", near, source);
}
#endif
#endif

#endif
