/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows: the memory that other ranks put to and get from. A window belongs to all ranks of MPI_COMM_WORLD. It is
 * made when netpipe asks for the memory of its messages (alloc), and its memory starts at a page on every rank.
 *
 * Beside them there is one small window of the same kind. It is made when the endpoint is opened, so a kind that the
 * library lacks is refused there. It holds the two counters by which a rank tells another that something has completed,
 * where the synchronisation itself does not tell; and a few transfers through it show what carries them.
 */
#ifndef NETPIPE_MPI_WINDOWS_H
#define NETPIPE_MPI_WINDOWS_H

#include <sys/mman.h>

#include "mpi_found.h"
#include "mpi_shapes.h"

#define PAGE UINT64_C(4096)
/* The small window: the counters, more than a cache line apart, then room for the transfers that are observed. */
#define FLAG_DISTANCE 128
#define FLAGS_ROOM PAGE
#define FLAGS_BYTES (FLAGS_ROOM + FOUND_BYTES)

/* What a window has behind the memory of messages, for mpi_words.h. */
static inline uint64_t signals_room(const np_endpoint* e) {
  return ((uint64_t)e->nranks * SIGNALS_BYTES + PAGE - 1) / PAGE * PAGE;
}

static inline int passive(const np_endpoint* e) { return e->sync >= SYNC_LOCK; }

/* ---------------------------------------------------------------------------------------------- begin and end */

static inline void* map_memory(size_t bytes) {
  void* const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

#if HAVE_MPI_3
static int allocate_shared(const np_endpoint* e, uint64_t bytes, char** memory, MPI_Win* win) {
  MPI_Info info;
  int code = MPI_Info_create(&info);
  if (code != MPI_SUCCESS) return code;
  /* Each rank's memory where it is best for that rank, not contiguous. */
  code = MPI_Info_set(info, "alloc_shared_noncontig", "true");
  if (code == MPI_SUCCESS) code = MPI_Win_allocate_shared((MPI_Aint)bytes, 1, info, e->comm, (void*)memory, win);
  MPI_Info_free(&info);
  return code;
}
#endif

/* Over the memory in w, if it has some; that starts at a page. *call: what was called, for the sentence. */
static int begin_window(const np_endpoint* e, struct window* w, const char** call) {
  if (w->memory == NULL) w->all_bytes = w->bytes + PAGE; /* the library may start anywhere in a page */
  switch (e->window_kind) {
#if HAVE_MPI_3
    case WINDOW_ALLOCATE:
      *call = "MPI_Win_allocate";
      return MPI_Win_allocate((MPI_Aint)w->all_bytes, 1, MPI_INFO_NULL, e->comm, (void*)&w->memory, &w->win);
    case WINDOW_SHARED: *call = "MPI_Win_allocate_shared"; return allocate_shared(e, w->all_bytes, &w->memory, &w->win);
    case WINDOW_DYNAMIC: {
      *call = "MPI_Win_create_dynamic";
      if (w->memory == NULL) w->mapped = w->memory = map_memory(w->all_bytes);
      if (w->memory == NULL) return MPI_ERR_NO_MEM;
      const int code = MPI_Win_create_dynamic(MPI_INFO_NULL, e->comm, &w->win);
      if (code != MPI_SUCCESS) return code;
      w->begun = 1;
      *call = "MPI_Win_attach";
      return MPI_Win_attach(w->win, w->memory, (MPI_Aint)w->all_bytes);
    }
#endif
    default:
      *call = "MPI_Win_create";
      if (w->memory == NULL) w->mapped = w->memory = map_memory(w->all_bytes);
      if (w->memory == NULL) return MPI_ERR_NO_MEM;
      return MPI_Win_create(w->memory, (MPI_Aint)w->all_bytes, 1, MPI_INFO_NULL, e->comm, &w->win);
  }
}

/* Collective. How a peer names the first byte of this rank's part: by its offset in the window, or by its address. */
static int exchange_bases(np_endpoint* e, struct window* w) {
  MPI_Aint address = (MPI_Aint)(w->base - w->memory);
#if HAVE_MPI_3
  if (e->window_kind == WINDOW_DYNAMIC) {
    const int code = MPI_Get_address(w->base, &address);
    if (code != MPI_SUCCESS) return code;
  }
#endif
  long long own = (long long)address;
  return MPI_Allgather(&own, 1, MPI_LONG_LONG_INT, w->far_base, 1, MPI_LONG_LONG_INT, e->comm);
}

/* memory: existing memory of messages, or NULL. */
static np_status make_window(np_endpoint* e, struct window* w, uint64_t bytes, void* memory) {
  const char* call = "";
  memset(w, 0, sizeof *w);
  w->bytes = w->all_bytes = bytes;
  w->memory = memory;
  w->far_base = calloc((size_t)e->nranks, sizeof *w->far_base);
  w->signals = calloc((size_t)e->nranks, sizeof *w->signals);
  if (w->far_base == NULL || w->signals == NULL) {
    return fail(e->context, NP_NO_MEMORY, "no memory for a window of %d ranks", e->nranks);
  }
  int code = begin_window(e, w, &call);
  if (code != MPI_SUCCESS) {
    e->broken = 1; /* a rank that succeeded cannot free it alone */
    return failed(e, code, call);
  }
  w->begun = 1;
  if ((e->library.quirks & FREES_WINDOW_ERROR_HANDLERS) == 0) code = MPI_Win_set_errhandler(w->win, MPI_ERRORS_RETURN);
  if (code != MPI_SUCCESS) return failed(e, code, "MPI_Win_set_errhandler");
  const uint64_t start = (uint64_t)(uintptr_t)w->memory;
  w->base = w->memory + ((start + PAGE - 1) / PAGE * PAGE - start);
  if (memory == NULL) memset(w->base, 0, bytes);
  return outcome(e, exchange_bases(e, w), "MPI_Allgather");
}

/* As make_window, with room for signals behind it, in a free place of the table: the same one on all ranks, which make
 * and free windows in one order. */
static np_status add_window(np_endpoint* e, uint64_t bytes, void* memory, struct window** added) {
  int place = 0;
  while (place < e->nwindows && e->windows[place].begun) ++place;
  if (place == WINDOWS) return fail(e->context, NP_UNSUPPORTED, "more than %d windows at a time", WINDOWS);
  const np_status status = make_window(e, &e->windows[place], bytes + signals_room(e), memory);
  if (status != NP_OK) return status;
  e->windows[place].signals_at = bytes;
  if (place == e->nwindows) ++e->nwindows;
  *added = &e->windows[place];
  return NP_OK;
}

/* Collective, like everything that frees a window. */
static np_status end_epoch(np_endpoint* e, struct window* w) {
  if (!w->in_epoch) return NP_OK;
  w->in_epoch = 0;
#if HAVE_MPI_3
  if (w == &e->flags || e->sync >= SYNC_LOCK_ALL) return outcome(e, MPI_Win_unlock_all(w->win), "MPI_Win_unlock_all");
#endif
  return outcome(e, MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win), "MPI_Win_fence");
}

/* Opens the epoch in which every transfer then starts, if the way of synchronising has one. */
static np_status begin_epoch(np_endpoint* e, struct window* w) {
  if (w->in_epoch || e->sync == SYNC_PSCW || (w != &e->flags && e->sync == SYNC_LOCK)) return NP_OK;
  w->in_epoch = 1;
#if HAVE_MPI_3
  if (passive(e)) {
    int code = MPI_Win_lock_all(0, w->win);
    /* A lock is granted inside MPI, so nobody may leave MPI before all have theirs. */
    if (code == MPI_SUCCESS) code = MPI_Barrier(e->comm);
    return outcome(e, code, "MPI_Win_lock_all");
  }
#endif
  return outcome(e, MPI_Win_fence(0, w->win), "MPI_Win_fence");
}

/* Ends the epoch of a pattern that puts or gets. A fence is collective; a lock is released by the rank that holds it,
 * while its targets are in MPI. */
static np_status leave_epoch(np_endpoint* e, struct window* w) {
  const int epoch = w->epoch;
  w->epoch = EPOCH_NONE;
#if HAVE_MPI_3
  if (epoch == EPOCH_LOCKED) return outcome(e, MPI_Win_unlock_all(w->win), "MPI_Win_unlock_all");
#endif
  return epoch == EPOCH_FENCED ? outcome(e, MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win), "MPI_Win_fence") : NP_OK;
}

static void free_window(np_endpoint* e, struct window* w) {
  if (!w->begun || *e->context->abort != 0) e->broken = 1;
  /* After a failure the other ranks may not come, and the library may still write there. */
  if (e->broken || end_epoch(e, w) != NP_OK || leave_epoch(e, w) != NP_OK) return;
#if HAVE_MPI_3
  if (e->window_kind == WINDOW_DYNAMIC) {
    /* Not before all ranks have ended their epochs. */
    if (MPI_Barrier(e->comm) == MPI_SUCCESS) MPI_Win_detach(w->win, w->memory);
  }
#endif
  if (MPI_Win_free(&w->win) != MPI_SUCCESS) e->broken = 1;
  if (w->mapped != NULL && !e->broken) munmap(w->mapped, w->all_bytes);
  free(w->far_base);
  free(w->signals);
  memset(w, 0, sizeof *w);
}

/* ---------------------------------------------------------------------------------------------- one transfer */

#if HAVE_COUNTS
#define ONE_SIDED(call, data, shape, peer, place, ...)                                                            \
  (UNLIKELY((shape).count > INT_MAX) ? call##_c(PLAIN(data), (MPI_Count)(shape).count, (shape).type, peer, place, \
                                                (MPI_Count)(shape).count, (shape).type, __VA_ARGS__)              \
                                     : call(PLAIN(data), (int)(shape).count, (shape).type, peer, place,           \
                                            (int)(shape).count, (shape).type, __VA_ARGS__))
#else
#define ONE_SIDED(call, data, shape, peer, place, ...) \
  call(PLAIN(data), (int)(shape).count, (shape).type, peer, place, (int)(shape).count, (shape).type, __VA_ARGS__)
#endif

static inline int transfer(const np_endpoint* e, MPI_Win win, int peer, const void* data, MPI_Aint place,
                           const struct shape* shape) {
  if (e->op == OP_GET) return ONE_SIDED(MPI_Get, data, *shape, peer, place, win);
  if (e->op == OP_ACCUMULATE) return ONE_SIDED(MPI_Accumulate, data, *shape, peer, place, MPI_REPLACE, win);
  return ONE_SIDED(MPI_Put, data, *shape, peer, place, win);
}

/* ---------------------------------------------------------------------------------------------- when it is opened */

static np_status look_at_transfers(np_endpoint* e) {
  const struct shape shape = {FOUND_BYTES, MPI_BYTE};
  const int right = (e->rank + 1) % e->nranks;
  const MPI_Aint there = (MPI_Aint)(e->flags.far_base[right] + (long long)FLAGS_ROOM);
  struct memory {
    struct socket_bytes before, after;
    char data[FOUND_BYTES];
  }* const memory = calloc(1, sizeof *memory);
  if (memory == NULL) return fail(e->context, NP_NO_MEMORY, "no memory for %zu bytes", sizeof *memory);
  int code = MPI_Win_fence(0, e->flags.win);
  for (int i = 0; i <= FOUND_MESSAGES && code == MPI_SUCCESS; ++i) {
    code = transfer(e, e->flags.win, right, memory->data, there, &shape);
    if (code == MPI_SUCCESS) code = MPI_Win_fence(0, e->flags.win);
    if (i == 0) read_sockets(&memory->before); /* the first one may connect */
  }
  if (code == MPI_SUCCESS) code = MPI_Win_fence(MPI_MODE_NOSUCCEED, e->flags.win);
  read_sockets(&memory->after);
  const int two_sided = e->found.transport;
  e->found.connections = 0;
  e->found.transport = FOUND_NOTHING;
  compare_sockets(&e->found, &memory->before, &memory->after);
  if (e->found.transport == FOUND_NOTHING) e->found.transport = two_sided == FOUND_TCP ? FOUND_SHM : two_sided;
  free(memory);
  return outcome(e, code, "the first one-sided transfer");
}

#if HAVE_MPI_3
static np_status check_one_host(np_endpoint* e) {
  MPI_Comm near;
  int here = 0, fewest = 0;
  int code = MPI_Comm_split_type(e->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
  if (code == MPI_SUCCESS) code = MPI_Comm_size(near, &here);
  if (code == MPI_SUCCESS) code = MPI_Comm_free(&near);
  if (code == MPI_SUCCESS) code = MPI_Allreduce(&here, &fewest, 1, MPI_INT, MPI_MIN, e->comm);
  if (code != MPI_SUCCESS) return failed(e, code, "MPI_Comm_split_type");
  if (fewest == e->nranks) return NP_OK;
  return fail(e->context, NP_USAGE,
              "window=shared: %s sees only %d of %d ranks share memory with these settings; choose window=allocate",
              e->library.version, fewest, e->nranks);
}

static np_status find_memory_model(np_endpoint* e) {
  int* model = NULL;
  int known = 0;
  if ((e->library.quirks & SIMULATES) != 0) return NP_OK; /* the ranks are one process */
  const int code = MPI_Win_get_attr(e->flags.win, MPI_WIN_MODEL, (void*)&model, &known);
  if (code != MPI_SUCCESS) return failed(e, code, "MPI_Win_get_attr");
  e->separate = !known || *model != MPI_WIN_UNIFIED;
  return NP_OK;
}
#endif

static np_status make_groups(np_endpoint* e) {
  MPI_Group all;
  e->groups = calloc((size_t)e->nranks, sizeof(MPI_Group));
  if (e->groups == NULL) return fail(e->context, NP_NO_MEMORY, "no memory for %d groups", e->nranks);
  int code = MPI_Comm_group(e->comm, &all);
  for (int rank = 0; rank < e->nranks && code == MPI_SUCCESS; ++rank) {
    code = MPI_Group_incl(all, 1, &rank, &e->groups[rank]);
  }
  if (code == MPI_SUCCESS) code = MPI_Group_free(&all);
  return outcome(e, code, "MPI_Group_incl");
}

/* Collective. Also finds out what carries the transfers, which is not always what carries messages. */
static np_status open_one_sided(np_endpoint* e) {
  np_status status = NP_OK;
#if HAVE_MPI_3
  if (e->window_kind == WINDOW_SHARED) status = check_one_host(e);
#else
  e->separate = 1;
#endif
  e->far = calloc((size_t)e->nranks, sizeof *e->far);
  if (status == NP_OK && e->far == NULL) {
    return fail(e->context, NP_NO_MEMORY, "no memory for the places of %d ranks", e->nranks);
  }
  if (status == NP_OK) status = make_window(e, &e->flags, FLAGS_BYTES, NULL);
  if (status == NP_OK && e->nranks > 1) status = look_at_transfers(e);
#if HAVE_MPI_3
  if (status == NP_OK) status = find_memory_model(e);
#endif
  if (status == NP_OK && e->sync == SYNC_PSCW) status = make_groups(e);
  return status;
}

static void close_one_sided(np_endpoint* e) {
  if (!e->one_sided) return;
  free_window(e, &e->flags);
  for (int rank = 0; e->groups != NULL && rank < e->nranks && !e->broken; ++rank) MPI_Group_free(&e->groups[rank]);
  if (e->broken) return;
  free(e->groups);
  free(e->far);
}

/* memory=cuda: refuses, with this status, windows over memory of a device that do not work. */
static np_status check_device_windows(np_endpoint* e, np_status otherwise) {
  if (!e->on_device || look_beneath(e, e->found.transport, 1) != THROUGH_UCX) return NP_OK;
  return fail(e->context, otherwise,
              "memory=cuda: the windows of %s go through UCX with these settings, which Open MPI's documentation "
              "excludes for memory of a device: choose another transport",
              e->library.version);
}

/* ---------------------------------------------------------------------------------------------- message memory */

/* Two-sided messages get the memory that netpipe would allocate itself. */
static np_status mpi_alloc(np_endpoint* e, size_t bytes, void** memory) {
  if (!e->window_memory) {
    *memory = map_memory(bytes + signals_room(e));
    return *memory != NULL ? NP_OK : fail(e->context, NP_NO_MEMORY, "no memory for %zu bytes", bytes);
  }
  struct window* w = NULL;
  const np_status status = add_window(e, bytes, NULL, &w);
  if (status == NP_OK) *memory = w->base;
  return status;
}

static struct window* window_of(np_endpoint* e, const char* memory) {
  for (int i = 0; i < e->nwindows; ++i) {
    struct window* const w = &e->windows[i];
    if (w->begun && memory >= w->base && memory < w->base + w->bytes) return w;
  }
  return NULL;
}

static void mpi_free(np_endpoint* e, void* memory, size_t bytes) {
  struct window* const w = e->window_memory ? window_of(e, memory) : NULL;
  if (w != NULL) free_window(e, w);
  if (!e->window_memory) munmap(memory, bytes + signals_room(e));
}

#endif
