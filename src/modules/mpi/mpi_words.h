/* SPDX-License-Identifier: Apache-2.0
 *
 * Patterns that operate on words of another rank's memory: atomic operations (MPI_Fetch_and_op, MPI_Compare_and_swap,
 * MPI_Accumulate), sums of doubles (MPI_Accumulate, MPI_Get_accumulate), and a put that tells the target of it.
 * mpi_reach.h has the epochs that these run in.
 *
 * MPI has no put with a signal. So the bytes are put and flushed, and then a word is put behind them, into a place of
 * the same window that the target polls. Behind the memory of messages a window has such places for each rank, a ring
 * of SIGNALS words: a target that is late sees all values, in their order. Now and then it tells how far it has come,
 * by a put of its own.
 */
#ifndef NETPIPE_MPI_WORDS_H
#define NETPIPE_MPI_WORDS_H

#include "mpi_one_sided.h"
#include "mpi_reach.h"

#if HAVE_MPI_3

/* MPI takes operands by address and may read them until a flush. A rank that flushes seldom is stopped once a lap. */
static inline np_status keep_operand(np_endpoint* e, int peer, uint64_t operand, uint64_t** kept) {
  uint64_t* const place = &e->told[e->tellings % TOLD];
  if (UNLIKELY(e->tellings++ % TOLD == 0)) {
    MPI_OR_RETURN(e, MPI_Win_flush_local(peer, e->active->win), "MPI_Win_flush_local");
  }
  *place = operand;
  *kept = place;
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- atomic operations */

static inline np_status fetch_word(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t operand,
                                   uint64_t* fetched, MPI_Op op) {
  ENTER_OR_RETURN(e, target, offset, sizeof operand);
  const MPI_Win win = e->active->win;
  const MPI_Aint place = (MPI_Aint)(target->word[REGION_FAR_BASE] + offset);
  if (LIKELY(e->atomics == ATOMICS_FETCH_AND_OP)) {
    MPI_OR_RETURN(e, MPI_Fetch_and_op(&operand, fetched, MPI_UINT64_T, peer, place, op, win), "MPI_Fetch_and_op");
  } else {
    MPI_OR_RETURN(
        e,
        MPI_Get_accumulate(&operand, 1, MPI_UINT64_T, fetched, 1, MPI_UINT64_T, peer, place, 1, MPI_UINT64_T, op, win),
        "MPI_Get_accumulate");
  }
  return complete(e, peer, win);
}

static np_status mpi_fetch_add(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t operand,
                               uint64_t compare, uint64_t* fetched) {
  (void)compare;
  return fetch_word(e, peer, target, offset, operand, fetched, MPI_SUM);
}
static np_status mpi_swap(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t operand,
                          uint64_t compare, uint64_t* fetched) {
  (void)compare;
  return fetch_word(e, peer, target, offset, operand, fetched, MPI_REPLACE);
}
static np_status mpi_fetch(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t operand,
                           uint64_t compare, uint64_t* fetched) {
  (void)compare;
  return fetch_word(e, peer, target, offset, operand, fetched, MPI_NO_OP);
}

static np_status mpi_compare_swap(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t operand,
                                  uint64_t compare, uint64_t* fetched) {
  ENTER_OR_RETURN(e, target, offset, sizeof operand);
  const MPI_Aint place = (MPI_Aint)(target->word[REGION_FAR_BASE] + offset);
  MPI_OR_RETURN(e, MPI_Compare_and_swap(&operand, &compare, fetched, MPI_UINT64_T, peer, place, e->active->win),
                "MPI_Compare_and_swap");
  return complete(e, peer, e->active->win);
}

static inline np_status change_word(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t operand,
                                    MPI_Op op) {
  uint64_t* kept = NULL;
  ENTER_OR_RETURN(e, target, offset, sizeof operand);
  const MPI_Aint place = (MPI_Aint)(target->word[REGION_FAR_BASE] + offset);
  const np_status status = keep_operand(e, peer, operand, &kept);
  if (UNLIKELY(status != NP_OK)) return status;
  return outcome(e, MPI_Accumulate(kept, 1, MPI_UINT64_T, peer, place, 1, MPI_UINT64_T, op, e->active->win),
                 "MPI_Accumulate");
}

static np_status mpi_add(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t operand,
                         uint64_t compare, uint64_t* fetched) {
  (void)compare, (void)fetched;
  return change_word(e, peer, target, offset, operand, MPI_SUM);
}
static np_status mpi_set(np_endpoint* e, int peer, const np_region* target, size_t offset, uint64_t operand,
                         uint64_t compare, uint64_t* fetched) {
  (void)compare, (void)fetched;
  return change_word(e, peer, target, offset, operand, MPI_REPLACE);
}

/* What cannot be had with these settings is refused on all ranks: none of them may wait for another. */
static np_status whole_words(np_endpoint* e) {
  if (e->on_device) {
    return fail(e->context, NP_UNSUPPORTED,
                "memory=cuda: no library promises MPI_Accumulate or atomic operations for memory of a device");
  }
  if (e->type == TYPE_BYTES) return NP_OK;
  return fail(e->context, NP_UNSUPPORTED,
              "type=%s: these operations are on whole numbers, and not on a derived datatype",
              text_of(&e->settings, "type"));
}

static np_atomic_call mpi_atomic(np_endpoint* e, np_atomic what) {
  const int fetches = what == NP_ATOMIC_FETCH_ADD || what == NP_ATOMIC_SWAP || what == NP_ATOMIC_FETCH;
  if (whole_words(e) != NP_OK) return NULL;
  if (!fetches && e->atomics == ATOMICS_GET_ACCUMULATE) {
    fail(e->context, NP_UNSUPPORTED, "atomics=get_accumulate has op=fetch_add, swap and fetch");
    return NULL;
  }
  switch (what) {
    case NP_ATOMIC_ADD: return mpi_add;
    case NP_ATOMIC_FETCH_ADD: return mpi_fetch_add;
    case NP_ATOMIC_SWAP: return mpi_swap;
    case NP_ATOMIC_COMPARE_SWAP: return mpi_compare_swap;
    case NP_ATOMIC_FETCH: return mpi_fetch;
    case NP_ATOMIC_SET: return mpi_set;
  }
  return NULL;
}

/* ---------------------------------------------------------------------------------------------- sums */

/* A count of 0 only says whether there can be any. */
static np_status mpi_accumulate(np_endpoint* e, int peer, const double* source, const np_region* target, size_t offset,
                                size_t count) {
  if (UNLIKELY(count == 0 || e->type != TYPE_BYTES)) return whole_words(e);
  ENTER_OR_RETURN(e, target, offset, count * sizeof *source);
  const MPI_Aint place = (MPI_Aint)(target->word[REGION_FAR_BASE] + offset);
#if HAVE_COUNTS
  if (UNLIKELY(count > INT_MAX)) {
    return outcome(e,
                   MPI_Accumulate_c(source, (MPI_Count)count, MPI_DOUBLE, peer, place, (MPI_Count)count, MPI_DOUBLE,
                                    MPI_SUM, e->active->win),
                   "MPI_Accumulate");
  }
#else
  if (UNLIKELY(count > INT_MAX)) return fail(e->context, NP_UNSUPPORTED, "%zu doubles: more than an int counts", count);
#endif
  return outcome(e,
                 MPI_Accumulate(PLAIN(source), (int)count, MPI_DOUBLE, peer, place, (int)count, MPI_DOUBLE, MPI_SUM,
                                e->active->win),
                 "MPI_Accumulate");
}

/* A count of 0 as above. */
static np_status mpi_fetch_accumulate(np_endpoint* e, int peer, const double* source, double* result,
                                      const np_region* target, size_t offset, size_t count) {
  if (UNLIKELY(count == 0 || e->type != TYPE_BYTES)) return whole_words(e);
  ENTER_OR_RETURN(e, target, offset, count * sizeof *source);
  const MPI_Aint place = (MPI_Aint)(target->word[REGION_FAR_BASE] + offset);
#if HAVE_COUNTS
  if (UNLIKELY(count > INT_MAX)) {
    const MPI_Count many = (MPI_Count)count;
    return outcome(e,
                   MPI_Get_accumulate_c(source, many, MPI_DOUBLE, result, many, MPI_DOUBLE, peer, place, many,
                                        MPI_DOUBLE, MPI_SUM, e->active->win),
                   "MPI_Get_accumulate");
  }
#else
  if (UNLIKELY(count > INT_MAX)) return fail(e->context, NP_UNSUPPORTED, "%zu doubles: more than an int counts", count);
#endif
  return outcome(e,
                 MPI_Get_accumulate(source, (int)count, MPI_DOUBLE, result, (int)count, MPI_DOUBLE, peer, place,
                                    (int)count, MPI_DOUBLE, MPI_SUM, e->active->win),
                 "MPI_Get_accumulate");
}

/* For more doubles than an int can count. Each sum takes so long that calls between two of them do not matter. */
static COLD np_status large_accumulate_each(np_endpoint* e, int peer, const char* source, size_t near_stride,
                                            char* back, const np_region* target, size_t offset, size_t far_stride,
                                            size_t count, size_t times) {
  for (size_t i = 0; i < times; ++i) {
    const double* const from = (const double*)(source + i * near_stride);
    const size_t to = offset + i * far_stride;
    np_status status = back == NULL
                           ? mpi_accumulate(e, peer, from, target, to, count)
                           : mpi_fetch_accumulate(e, peer, from, (double*)(back + i * far_stride), target, to, count);
    if (status == NP_OK) status = complete(e, peer, e->active->win);
    if (status != NP_OK) return status;
  }
  return NP_OK;
}

/* As a program writes them, one after the other. A flush that waits for all stores also waits for whatever a pattern
 * does between two calls, so there is a loop for each call, and no test in it of which of them to make. */
#define EACH_SUM(call, name, advance)                                                         \
  for (; times > 0; --times, source += near_stride, place += (MPI_Aint)far_stride, advance) { \
    MPI_OR_RETURN(e, call, name);                                                             \
    const np_status completed = complete(e, peer, win);                                       \
    if (UNLIKELY(completed != NP_OK)) return completed;                                       \
  }                                                                                           \
  return NP_OK

static np_status mpi_accumulate_each(np_endpoint* e, int peer, const double* near, size_t near_stride, double* result,
                                     const np_region* target, size_t offset, size_t far_stride, size_t count,
                                     size_t times) {
  const char* source = (const char*)near;
  char* back = (char*)result;
  if (UNLIKELY(count > INT_MAX))
    return large_accumulate_each(e, peer, source, near_stride, back, target, offset, far_stride, count, times);
  if (UNLIKELY(e->type != TYPE_BYTES)) return whole_words(e);
  ENTER_OR_RETURN(e, target, offset, count * sizeof *near);
  ENTER_OR_RETURN(e, target, offset + (times - 1) * far_stride, count * sizeof *near);
  const MPI_Win win = e->active->win;
  const int many = (int)count;
  MPI_Aint place = (MPI_Aint)(target->word[REGION_FAR_BASE] + offset);
  if (back != NULL) {
    EACH_SUM(MPI_Get_accumulate(source, many, MPI_DOUBLE, back, many, MPI_DOUBLE, peer, place, many, MPI_DOUBLE,
                                MPI_SUM, win),
             "MPI_Get_accumulate", back += far_stride);
  }
  EACH_SUM(MPI_Accumulate(PLAIN(source), many, MPI_DOUBLE, peer, place, many, MPI_DOUBLE, MPI_SUM, win),
           "MPI_Accumulate", (void)0);
}

/* ---------------------------------------------------------------------------------------------- put and tell */

#if HAVE_PASSIVE_TARGET

static np_status can_signal(np_endpoint* e) {
  if (e->active == NULL) return fail(e->context, NP_UNSUPPORTED, "a signal in a visit that does not put");
  if (e->on_device) {
    return fail(e->context, NP_UNSUPPORTED, "memory=cuda: a signal would be a word in memory that nobody can poll");
  }
  if (e->has_signals) return NP_OK;
  return fail(e->context, NP_UNSUPPORTED,
              "flush=local does not tell when the bytes are there, so no signal can follow them");
}

/* Puts a word into the places that `to` has for this rank. Local completion is enough: the other rank waits for it. */
static inline np_status put_word(np_endpoint* e, struct window* w, int to, size_t at, uint64_t word) {
  uint64_t* kept = NULL;
  const MPI_Aint place = (MPI_Aint)((uint64_t)w->far_base[to] + w->signals_at + (uint64_t)e->rank * SIGNALS_BYTES + at);
  const np_status status = keep_operand(e, to, word, &kept);
  if (UNLIKELY(status != NP_OK)) return status;
  MPI_OR_RETURN(e, MPI_Put(kept, 1, MPI_UINT64_T, to, place, 1, MPI_UINT64_T, w->win), "putting the signal");
  return outcome(e, MPI_Win_flush_local(to, w->win), "MPI_Win_flush_local");
}

/* What `from` has put there for this rank. */
static inline const volatile uint64_t* word_of(const struct window* w, int from, size_t at) {
  return (const volatile uint64_t*)(const void*)(w->base + w->signals_at + (uint64_t)from * SIGNALS_BYTES + at);
}

static COLD np_status await_room(np_endpoint* e, struct window* w, int peer, struct signals* with) {
  for (uint64_t looks = 1; with->sent - with->taken >= SIGNALS; ++looks) {
    const np_status status = look_again(e, peer, w->win, looks);
    if (status != NP_OK) return status;
    with->taken = *word_of(w, peer, SIGNALS * sizeof(uint64_t));
  }
  return NP_OK;
}

static np_status mpi_put_signal(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset,
                                size_t bytes, uint64_t value) {
  SHAPE_OR_RETURN(e, bytes, shape);
  if (UNLIKELY(!e->has_signals || e->active == NULL)) return can_signal(e);
  ENTER_OR_RETURN(e, target, offset, bytes);
  struct window* const w = e->active;
  struct signals* const with = &w->signals[peer];
  if (UNLIKELY(with->sent - with->taken >= SIGNALS)) {
    const np_status status = await_room(e, w, peer, with);
    if (status != NP_OK) return status;
  }
  const MPI_Aint place = (MPI_Aint)(target->word[REGION_FAR_BASE] + offset);
  MPI_OR_RETURN(e, ONE_SIDED(MPI_Put, source, shape, peer, place, w->win), "MPI_Put");
  const np_status status = complete(e, peer, w->win);
  if (UNLIKELY(status != NP_OK)) return status;
  const uint64_t number = with->sent++;
  return put_word(e, w, peer, number % SIGNALS * sizeof(uint64_t), (number + 1) << 32 | (value & UINT32_MAX));
}

static np_status mpi_await_signal(np_endpoint* e, int peer, uint64_t* value) {
  struct window* const w = e->active;
  if (UNLIKELY(!e->has_signals || w == NULL)) return can_signal(e);
  if (UNLIKELY(w->epoch != EPOCH_LOCKED)) { /* memory may be looked at in an epoch only */
    const np_status status = lock_window(e, w);
    if (status != NP_OK) return status;
  }
  struct signals* const with = &w->signals[peer];
  const volatile uint64_t* const word = word_of(w, peer, with->received % SIGNALS * sizeof(uint64_t));
  const uint64_t number = (with->received + 1) & UINT32_MAX;
  for (uint64_t looks = 1; *word >> 32 != number; ++looks) {
    const np_status status = look_again(e, peer, w->win, looks);
    if (UNLIKELY(status != NP_OK)) return status;
  }
  MPI_OR_RETURN(e, MPI_Win_sync(w->win), "MPI_Win_sync"); /* nothing of the message is read earlier */
  *value = *word & UINT32_MAX;
  if (++with->received % (SIGNALS / 2) != 0) return NP_OK;
  return put_word(e, w, peer, SIGNALS * sizeof(uint64_t), with->received);
}
#endif

#endif
#endif
