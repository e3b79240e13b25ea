/* SPDX-License-Identifier: Apache-2.0
 *
 * What the wrappers of all calls share: the state of this rank, and the few functions that count a call. They are
 * inline because they belong to every call of the application: two readings of the clock, a look into two or three
 * small tables and, with a trace, 48 bytes written in a row.
 *
 * A wrapper is
 *     const uint64_t begin = enter();
 *     const int result = PMPI_X(...);
 *     if (counts(begin, result)) { ... count(...) ...; }
 *     leave();
 * A call is not counted inside another call of MPI, before MPI_Init, after MPI_Finalize, in a process forked from a
 * rank, or if it failed. In phase 0 (MPI_Pcontrol(0)) nothing is counted, but requests and communicators are followed,
 * so that they are known afterwards.
 */
#ifndef NETPIPE_PROFILER_RECORD_H
#define NETPIPE_PROFILER_RECORD_H

#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "calls.h"
#include "part.h"
#include "ticks.h"

#if MPI_VERSION >= 3
#define IN const /* of MPI's own prototypes */
#else
#define IN
#endif
/* The calls of MPI 4 but those with MPI_Count. Open MPI 5 has them too, and says that it is MPI 3.1. */
#define HAS_MPI_4 (MPI_VERSION >= 4 || HAS_OPEN_MPI_5)
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5
#define HAS_OPEN_MPI_5 1
#else
#define HAS_OPEN_MPI_5 0
#endif
#ifndef MPI_IN_PLACE
#define MPI_IN_PLACE ((void*)-1) /* MPI 1 has none, and no buffer is there */
#endif
#define EXPORT __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define COLD __attribute__((cold, noinline))
#define ONCE \
  static __attribute__((noinline)) /* compiled once for many wrappers: a call more, of calls that take long */

/* Files with calls that have a count are compiled twice: as they are, and in large.c for the calls with MPI_Count. */
#ifdef LARGE
#define COUNT MPI_Count
#define DISPLACEMENT MPI_Aint
#define PUBLIC(Name) MPI_##Name##_c
#define REAL(Name) PMPI_##Name##_c
#define OFTEN ONCE
#else
#define COUNT int
#define DISPLACEMENT int
#define PUBLIC(Name) MPI_##Name
#define REAL(Name) PMPI_##Name
#define OFTEN static inline
#endif

/* This library is loaded into every process that a launcher starts, shells too, so it needs no MPI library: all that it
 * calls of one is weak, and none of its data are named (`profiler` has their addresses, from MPI_Init on). */
#define WEAK(symbol) DIRECTIVE(weak symbol)
#define DIRECTIVE(text) _Pragma(#text)

#define UNPACK(...) __VA_ARGS__ /* takes the parentheses off */

/* Begins the definition of MPI_Name, which calls REAL(Name). */
#define WRAPPER(Name) WEAK(REAL(Name)) EXPORT int PUBLIC(Name)

enum { ENTRIES = 1 << 14, COMMUNICATORS = 1 << 10, MEMBERS = 1 << 16, BUFFERS = 1 << 14, KNOWN = 1 << 12, TYPES = 16 };

/* A transfer that was started. */
struct transfer {
  uintptr_t handle; /* 0: a free slot */
  uint64_t number;  /* of the trace: from 1 on */
  uint64_t bytes;
  const void* buffer; /* of a persistent one */
  MPI_Comm* fresh;    /* a communicator that is made by then */
  int32_t peer, tag;
  uint32_t entry;      /* of the call that started it; NO_ENTRY for one that was not counted */
  uint32_t next, last; /* others with this handle, oldest first: places in profiler.more; 0: none */
  uint16_t communicator;
  uint8_t start;  /* of a persistent one: the call as which its start is counted; else 0 */
  uint8_t active; /* it goes on; 0: a persistent one that is not started */
};
#define NO_ENTRY UINT32_MAX

/* Where the number of a communicator or a window is found. */
struct known {
  uintptr_t handle; /* 0: free */
  uint32_t index;
};

/* Of a communicator, what the part does not hold. */
struct beside {
  uint32_t local_size; /* of an intercommunicator: its other side is `size`; else the same as `size` */
  int32_t degree;      /* neighbours to which this rank sends in neighbourhood collectives; -1: not looked up yet */
  int exists;          /* 0: it was freed, and the next one with its members takes its number */
};

struct known_type {
  uintptr_t handle;
  uint64_t bytes;
};

struct state {
  struct part* part; /* NULL: nothing is counted */
  struct entry* entries;
  struct communicator* communicators;
  int32_t* members;
  int counter;      /* the processor's counter is the clock */
  int locked;       /* threads may call at once */
  int tracing;      /* there is a trace, or there was one that ended for want of room */
  int32_t phase;    /* 0: MPI_Pcontrol turned counting off */
  int partitioned;  /* there is a partitioned message */
  uint64_t resumed; /* ticks when it was turned on the last time */
  uintptr_t last_communicator;
  uint32_t last_index;
  struct event *next_event, *last_event;  /* in the window that is mapped; equal: a new one is needed */
  struct transfer* transfers;             /* an open table; the oldest of each handle */
  uint64_t transfer_mask, transfer_count; /* its slots - 1, and how many are used */
  struct transfer* more;                  /* transfers whose handle another one has, too; from 1 on */
  uint32_t more_slots, more_free;
  uint64_t transfer_number;
  MPI_Comm world, no_communicator;
  MPI_Request no_request;
  pthread_mutex_t lock;
  struct known_type types[TYPES];
  uintptr_t buffers[BUFFERS]; /* an open table of addresses; 0: free */
  uint32_t buffer_count;
  struct known known[KNOWN];
  uint32_t known_count, others; /* others: the number of all communicators for which there is no room; 0: not needed */
  struct beside beside[COMMUNICATORS];
};

/* Of this thread. */
struct thread_state {
  int inside;         /* how many calls of MPI deep */
  uint64_t last_left; /* ticks at the end of the last one; 0: none yet */
};

extern struct state profiler HIDDEN;
extern __thread struct thread_state profiler_thread __attribute__((visibility("hidden"), tls_model("initial-exec")));

/* In open.c. */
void profiler_open(int thread_level) HIDDEN;
void profiler_close(int state, int exit_code) HIDDEN;
void profiler_moment(void) HIDDEN;
void profiler_computed(uint64_t until) HIDDEN; /* since the last call of this thread */
int profiler_window(void) HIDDEN;              /* 0: there is room for one more event */

/* In foreign.c and fortran.c. */
int profiler_fits(void) HIDDEN; /* to be called before MPI_Init; 0: this is no library for this program */
void profiler_attach_fortran(void) HIDDEN;

/* In handles.c. The first three return a number. */
#define NO_PARENT UINT32_MAX
uint32_t profiler_add_communicator(MPI_Comm comm, const char* made_by, uint32_t parent) HIDDEN;
#if MPI_VERSION >= 2
uint32_t profiler_add_window(MPI_Win window) HIDDEN;
void profiler_forget_window(uintptr_t handle) HIDDEN;
#endif
uint32_t profiler_others(void) HIDDEN;
void profiler_know(uintptr_t handle, uint32_t index) HIDDEN;
void profiler_forget(uintptr_t handle, int freed) HIDDEN; /* freed: its number may be given again */
uint64_t profiler_size_now(MPI_Comm comm) HIDDEN;
uint64_t profiler_degree(MPI_Comm comm) HIDDEN;
void profiler_look_up_communicator(MPI_Comm comm) HIDDEN; /* sets profiler.last_index */
void profiler_look_up_type(MPI_Datatype type, struct known_type* known) HIDDEN;

/* In probes.c. A message that was probed for and can be received. */
struct probed {
  uintptr_t handle;
  int from, tag; /* as they were asked for */
  uint16_t communicator;
};
struct probed profiler_take_probed(uintptr_t handle) HIDDEN;

/* In persistent.c. Counts a call that sets a request up. */
void profiler_set_up(int call, struct transfer transfer, MPI_Request request, uint64_t begin, uint64_t end) HIDDEN;

/* In transfers.c: what is rare of the functions below. */
void profiler_prepare_transfers(void) HIDDEN;
void profiler_add_transfer(const struct transfer* transfer) HIDDEN;
void profiler_drop_transfer(struct transfer* transfer) HIDDEN;

/* A handle as a number, which is never 0. */
#define BITS_OF(handle)                                    \
  ({                                                       \
    uintptr_t bits_ = 0;                                   \
    memcpy(&bits_, &(handle), sizeof(__typeof__(handle))); \
    bits_;                                                 \
  })
static inline uintptr_t comm_bits(MPI_Comm comm) { return BITS_OF(comm); }
static inline uintptr_t type_bits(MPI_Datatype type) { return BITS_OF(type); }
static inline uintptr_t request_bits(MPI_Request request) { return BITS_OF(request); }

static inline uint64_t mixed(uint64_t x) {
  x *= UINT64_C(0x9e3779b97f4a7c15);
  return x ^ x >> 29;
}

/* Returns 0 where nothing is counted any more: another thread called MPI_Abort. */
static inline int lock_profile(void) {
  if (UNLIKELY(profiler.locked)) {
    pthread_mutex_lock(&profiler.lock);
    if (UNLIKELY(profiler.part == NULL)) {
      pthread_mutex_unlock(&profiler.lock);
      return 0;
    }
  }
  return 1;
}
static inline void unlock_profile(void) {
  if (UNLIKELY(profiler.locked)) pthread_mutex_unlock(&profiler.lock);
}

/* ------------------------------------------------------------------------------------------------ around a call */

/* Returns 0 for a call that is not counted. */
static inline uint64_t enter(void) {
  if (profiler_thread.inside++ > 0 || UNLIKELY(profiler.part == NULL)) return 0;
  return ticks(profiler.counter);
}

static inline void leave(void) { --profiler_thread.inside; }

static inline int counts(uint64_t begin, int result) { return begin != 0 && LIKELY(result == MPI_SUCCESS); }

/* The end of a counted call. To be called at once when it returns, and before anything is counted. */
static inline uint64_t returned(void) { return ticks(profiler.counter); }

/* ------------------------------------------------------------------------------------------------------- tables */

static inline struct known_type* type_slot(uintptr_t handle) {
  return &profiler.types[mixed(handle) >> 7 & (TYPES - 1)];
}

/* Bytes of `count` elements of a type. */
static inline uint64_t bytes_of(uint64_t count, MPI_Datatype type) {
  const uintptr_t bits = type_bits(type);
  struct known_type* const known = type_slot(bits);
  if (UNLIKELY(known->handle != bits)) profiler_look_up_type(type, known);
  return count * known->bytes;
}

/* The slot of a handle, or the free one where it belongs. */
static inline struct known* known_slot(uintptr_t handle) {
  uint64_t at = mixed(handle) % KNOWN;
  while (profiler.known[at].handle != 0 && profiler.known[at].handle != handle) at = (at + 1) % KNOWN;
  return &profiler.known[at];
}

/* The number of a communicator in this part. */
static inline uint16_t index_of(MPI_Comm comm) {
  if (UNLIKELY(comm_bits(comm) != profiler.last_communicator)) profiler_look_up_communicator(comm);
  return (uint16_t)profiler.last_index;
}

/* The rank in MPI_COMM_WORLD of a rank of a communicator. */
static inline int32_t peer_of(uint16_t communicator, int rank) {
  if (rank == MPI_PROC_NULL) return PEER_NONE;
  if (rank == MPI_ANY_SOURCE) return PEER_ANY;
  const struct communicator* c = &profiler.communicators[communicator];
  if (UNLIKELY(rank < 0 || (uint32_t)rank >= c->listed)) return rank >= 0 && c->listed == 0 ? PEER_MANY : PEER_NONE;
  return profiler.members[c->first + (uint32_t)rank];
}

/* One more access to a buffer. */
static inline void touch(const void* buffer, uint64_t bytes) {
  struct part* const part = profiler.part;
  const uintptr_t address = (uintptr_t)buffer;
  if (address == 0 || bytes == 0 || UNLIKELY(profiler.phase == 0)) return;
  part->reuse.accesses++;
  part->reuse.bytes += bytes;
  uint64_t at = mixed(address) % BUFFERS;
  while (profiler.buffers[at] != address) {
    if (profiler.buffers[at] == 0) {
      if (UNLIKELY(profiler.buffer_count >= BUFFERS / 4 * 3)) {
        part->untracked_buffers++;
      } else {
        profiler.buffers[at] = address;
        profiler.buffer_count++;
      }
      return;
    }
    at = (at + 1) % BUFFERS;
  }
  part->reuse.again++;
  part->reuse.bytes_again += bytes;
}

/* The next power of two. */
static inline uint64_t coarser(uint64_t bytes) {
  return bytes <= 1 ? bytes : UINT64_C(1) << (64 - __builtin_clzll(bytes - 1));
}

/* How many entries there may be at each degree of coarseness. A quarter of the table stays free, so that it stays
 * fast; the last degree has one entry a call, for which there is always room. */
static const uint32_t entry_limits[] = {ENTRIES / 64 * 40, ENTRIES / 64 * 44, ENTRIES / 64 * 46, ENTRIES / 64 * 47,
                                        ENTRIES};
_Static_assert(CALL_COUNT <= ENTRIES / 64, "the last degree of coarseness has room for every call");
_Static_assert(CALL_COUNT <= UINT8_MAX, "transfer.start");

/* The entry of calls of this kind; a new one if there was none. */
static inline uint32_t entry_of(int call, uint16_t communicator, int32_t peer, uint64_t bytes) {
  struct part* const part = profiler.part;
  int32_t phase = profiler.phase;
  for (uint32_t coarse = 0;; ++coarse) {
    const uint64_t key = bytes ^ (uint64_t)(uint32_t)peer << 40 ^ (uint64_t)call << 24 ^ (uint64_t)communicator << 50 ^
                         (uint64_t)(uint32_t)phase << 8;
    uint64_t at = mixed(key ^ coarse) % ENTRIES;
    for (;; at = (at + 1) % ENTRIES) {
      struct entry* const e = &profiler.entries[at];
      if (e->calls == 0) {
        if (UNLIKELY(part->entries >= entry_limits[coarse])) break;
        part->entries++;
        *e = (struct entry){.bytes = bytes,
                            .peer = peer,
                            .call = (uint16_t)call,
                            .communicator = communicator,
                            .phase = phase,
                            .coarse = coarse};
        return (uint32_t)at;
      }
      if (LIKELY(e->bytes == bytes && e->peer == peer && e->call == call && e->communicator == communicator &&
                 e->phase == phase && e->coarse == coarse))
        return (uint32_t)at;
    }
    switch (coarse) {
      case 0:
        part->coarse_calls++;
        bytes = coarser(bytes);
        break;
      case 1:
        if (peer >= 0) peer = PEER_MANY;
        break;
      case 2:
        communicator = (uint16_t)profiler_others();
        phase = PHASE_MANY;
        break;
      default: peer = PEER_MANY; bytes = 0;
    }
  }
}

/* ---------------------------------------------------------------------------------------------- counting a call */

/* Writes one event of the trace, if there is one and it has room. */
static inline void trace(int call, uint16_t communicator, int32_t peer, int tag, uint64_t bytes, uint64_t begin,
                         uint64_t end, uint64_t request) {
  if (LIKELY(!profiler.tracing) || UNLIKELY(profiler.phase == 0)) return;
  if (UNLIKELY(profiler.next_event == profiler.last_event) && profiler_window() != 0) return;
  *profiler.next_event++ = (struct event){.begin = begin,
                                          .end = end,
                                          .bytes = bytes,
                                          .request = request,
                                          .peer = peer,
                                          .tag = tag,
                                          .call = (uint16_t)call,
                                          .communicator = communicator,
                                          .phase = profiler.phase};
  profiler.part->events++;
}

/* Counts a call of this kind, and returns its entry. */
static inline uint32_t count(int call, uint16_t communicator, int32_t peer, uint64_t bytes, uint64_t begin,
                             uint64_t end) {
  struct part* const part = profiler.part;
  if (UNLIKELY(profiler.phase == 0)) return NO_ENTRY;
  const uint32_t at = entry_of(call, communicator, peer, bytes);
  struct entry* const e = &profiler.entries[at];
  /* The counters of two processors may be a little apart, and the thread may have moved to the other one. */
  const uint64_t took = LIKELY(end > begin) ? end - begin : 0, left = profiler_thread.last_left;
  e->calls++;
  e->ticks += took;
  if (took > e->most_ticks) e->most_ticks = took;
  part->mpi_ticks += took;
  if (LIKELY(left != 0)) {
    const uint64_t from = LIKELY(left > profiler.resumed) ? left : profiler.resumed;
    if (begin > from) part->compute_ticks += begin - from;
  }
  profiler_thread.last_left = end;
  const uint64_t calls = ++part->calls;
  if (UNLIKELY((calls & (calls - 1)) == 0)) profiler_moment();
  return at;
}

/* Counts and traces a call that is one event. */
static inline uint32_t record(int call, uint16_t communicator, int32_t peer, int tag, uint64_t bytes, uint64_t begin,
                              uint64_t end) {
  const uint32_t at = count(call, communicator, peer, bytes, begin, end);
  trace(call, communicator, peer, tag, bytes, begin, end, 0);
  return at;
}

/* ---------------------------------------------------------------------------------------------------- transfers */

/* Remembers a transfer until it is completed. Several may have one handle: libraries give all sends that are complete
 * at once the same. Returns its number. */
static inline uint64_t started(MPI_Request request, struct transfer transfer) {
  transfer.handle = request_bits(request);
  transfer.number = ++profiler.transfer_number;
  transfer.active = transfer.start == 0;
  if (UNLIKELY(request == profiler.no_request)) return transfer.number;
  struct transfer* const slot = &profiler.transfers[mixed(transfer.handle) & profiler.transfer_mask];
  if (LIKELY(slot->handle == 0 && 2 * profiler.transfer_count < profiler.transfer_mask)) {
    *slot = transfer;
    profiler.transfer_count++;
  } else {
    profiler_add_transfer(&transfer);
  }
  return transfer.number;
}

/* The oldest transfer of this handle, or NULL. */
static inline struct transfer* find_transfer(uintptr_t handle) {
  for (uint64_t at = mixed(handle);; ++at) {
    struct transfer* const slot = &profiler.transfers[at & profiler.transfer_mask];
    if (LIKELY(slot->handle == handle)) return slot;
    if (slot->handle == 0) return NULL;
  }
}

/* Takes the oldest transfer of a handle out of the table. */
static inline void drop_transfer(struct transfer* transfer) {
  const uint64_t behind = (uint64_t)(transfer - profiler.transfers + 1) & profiler.transfer_mask;
  if (LIKELY(transfer->next == 0 && profiler.transfers[behind].handle == 0)) {
    transfer->handle = 0;
    profiler.transfer_count--;
  } else {
    profiler_drop_transfer(transfer);
  }
}

/* A transfer that may be NULL was found complete by a call. Returns it as it was; without a handle if it is none that
 * was going on. */
static inline struct transfer completed(struct transfer* transfer, int was_done) {
  if (UNLIKELY(transfer == NULL || !transfer->active)) return (struct transfer){.handle = 0};
  if (LIKELY(transfer->entry != NO_ENTRY)) {
    struct entry* const e = &profiler.entries[transfer->entry];
    e->waited++;
    if (was_done) e->found_done++;
  }
  const struct transfer was = *transfer;
  if (was.start != 0) {
    transfer->active = 0;
  } else {
    drop_transfer(transfer);
  }
  if (UNLIKELY(was.fresh != NULL)) profiler_add_communicator(*was.fresh, "MPI_Comm_idup", was.communicator);
  return was;
}

#endif
