/* SPDX-License-Identifier: Apache-2.0
 *
 * One-sided communication. A window has the number of the communicator of which it was made. Bytes are those of the
 * buffer of this rank, also for Get.
 */
#include "record.h"

#if MPI_VERSION >= 2

static inline uint16_t window_index(MPI_Win window) {
  const uintptr_t bits = BITS_OF(window);
  const struct known* const known = known_slot(bits);
  return (uint16_t)(LIKELY(known->handle == bits) ? known->index : profiler_add_window(window));
}

/* A call that accesses the memory of `to`, with at most two buffers of this rank. */
ONCE void accessed(int call, const void* first, const void* second, uint64_t bytes, int to, MPI_Win window,
                   const MPI_Request* request, uint64_t begin, uint64_t end) {
  const uint16_t communicator = window_index(window);
  const int32_t peer = peer_of(communicator, to);
  const uint32_t entry = count(call, communicator, peer, bytes, begin, end);
  const uint64_t number =
      request == NULL
          ? 0
          : started(*request,
                    (struct transfer){.entry = entry, .bytes = bytes, .peer = peer, .communicator = communicator});
  trace(call, communicator, peer, 0, bytes, begin, end, number);
  touch(first, bytes);
  touch(second, bytes);
}

#define ACCESS(Name, declared, given, bytes, first, second, request)                \
  WRAPPER(Name) declared {                                                          \
    const uint64_t begin = enter();                                                 \
    const int result = REAL(Name) given;                                            \
    const uint64_t end = begin != 0 ? returned() : 0;                               \
    if (counts(begin, result) && lock_profile()) {                                  \
      accessed(CALL_##Name, first, second, bytes, to, window, request, begin, end); \
      unlock_profile();                                                             \
    }                                                                               \
    leave();                                                                        \
    return result;                                                                  \
  }
/* The blocking call, and the one with a request. */
#define BOTH(Name, RName, D, G, bytes, first, second)              \
  ACCESS(Name, (UNPACK D), (UNPACK G), bytes, first, second, NULL) \
  WITH_REQUEST(RName, D, G, bytes, first, second)
#if MPI_VERSION >= 3
#define WITH_REQUEST(RName, D, G, bytes, first, second) \
  ACCESS(RName, (UNPACK D, MPI_Request * request), (UNPACK G, request), bytes, first, second, request)
#else
#define WITH_REQUEST(RName, D, G, bytes, first, second)
#endif

#define OURS COUNT n, MPI_Datatype type
#define THEIRS int to, MPI_Aint at, COUNT their_n, MPI_Datatype their_type
#define BYTES bytes_of((uint64_t)n, type)
BOTH(Put, Rput, (IN void* buffer, OURS, THEIRS, MPI_Win window), (buffer, n, type, to, at, their_n, their_type, window),
     BYTES, buffer, NULL)
BOTH(Get, Rget, (void* buffer, OURS, THEIRS, MPI_Win window), (buffer, n, type, to, at, their_n, their_type, window),
     BYTES, buffer, NULL)
BOTH(Accumulate, Raccumulate, (IN void* buffer, OURS, THEIRS, MPI_Op op, MPI_Win window),
     (buffer, n, type, to, at, their_n, their_type, op, window), BYTES, buffer, NULL)
#if MPI_VERSION >= 3
/* With MPI_NO_OP it gives nothing, and only reads. */
BOTH(Get_accumulate, Rget_accumulate,
     (const void* buffer, OURS, void* found, COUNT found_n, MPI_Datatype found_type, THEIRS, MPI_Op op, MPI_Win window),
     (buffer, n, type, found, found_n, found_type, to, at, their_n, their_type, op, window),
     bytes_of((uint64_t)found_n, found_type), buffer, found)
#endif

#define SETS_UP_WINDOW(Name, declared, given)                         \
  WRAPPER(Name) declared {                                            \
    const uint64_t begin = enter();                                   \
    const int result = REAL(Name) given;                              \
    const uint64_t end = begin != 0 ? returned() : 0;                 \
    if (counts(begin, result) && lock_profile()) {                    \
      const uint16_t communicator = index_of(comm);                   \
      record(CALL_##Name, communicator, PEER_NONE, 0, 0, begin, end); \
      profiler_know(BITS_OF(*window), communicator);                  \
      unlock_profile();                                               \
    }                                                                 \
    leave();                                                          \
    return result;                                                    \
  }
SETS_UP_WINDOW(Win_create,
               (void* memory, MPI_Aint size, DISPLACEMENT unit, MPI_Info info, MPI_Comm comm, MPI_Win* window),
               (memory, size, unit, info, comm, window))
#if MPI_VERSION >= 3
#define ALLOCATED (MPI_Aint size, DISPLACEMENT unit, MPI_Info info, MPI_Comm comm, void* memory, MPI_Win* window)
SETS_UP_WINDOW(Win_allocate, ALLOCATED, (size, unit, info, comm, memory, window))
SETS_UP_WINDOW(Win_allocate_shared, ALLOCATED, (size, unit, info, comm, memory, window))
#endif

#ifndef LARGE
#if MPI_VERSION >= 3
SETS_UP_WINDOW(Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win* window), (info, comm, window))

ACCESS(Fetch_and_op,
       (const void* buffer, void* found, MPI_Datatype type, int to, MPI_Aint at, MPI_Op op, MPI_Win window),
       (buffer, found, type, to, at, op, window), bytes_of(1, type), buffer, found, NULL)
ACCESS(Compare_and_swap,
       (const void* buffer, const void* compared, void* found, MPI_Datatype type, int to, MPI_Aint at, MPI_Win window),
       (buffer, compared, found, type, to, at, window), bytes_of(1, type), buffer, found, NULL)
#endif

/* Synchronization: with one rank, or with all or a group, which is no peer. */
ONCE void synchronized(int call, int with, MPI_Win window, uint64_t begin, uint64_t end) {
  if (!lock_profile()) return;
  const uint16_t communicator = window_index(window);
  record(call, communicator, peer_of(communicator, with), 0, 0, begin, end);
  unlock_profile();
}

#define SYNCHRONIZES(Name, declared, given, with)                                          \
  WRAPPER(Name) declared {                                                                 \
    const uint64_t begin = enter();                                                        \
    const int result = REAL(Name) given;                                                   \
    if (counts(begin, result)) synchronized(CALL_##Name, with, window, begin, returned()); \
    leave();                                                                               \
    return result;                                                                         \
  }
SYNCHRONIZES(Win_fence, (int assert, MPI_Win window), (assert, window), MPI_PROC_NULL)
SYNCHRONIZES(Win_post, (MPI_Group group, int assert, MPI_Win window), (group, assert, window), MPI_PROC_NULL)
SYNCHRONIZES(Win_start, (MPI_Group group, int assert, MPI_Win window), (group, assert, window), MPI_PROC_NULL)
SYNCHRONIZES(Win_complete, (MPI_Win window), (window), MPI_PROC_NULL)
SYNCHRONIZES(Win_wait, (MPI_Win window), (window), MPI_PROC_NULL)
SYNCHRONIZES(Win_test, (MPI_Win window, int* flag), (window, flag), MPI_PROC_NULL)
SYNCHRONIZES(Win_lock, (int kind, int rank, int assert, MPI_Win window), (kind, rank, assert, window), rank)
SYNCHRONIZES(Win_unlock, (int rank, MPI_Win window), (rank, window), rank)
#if MPI_VERSION >= 3
SYNCHRONIZES(Win_lock_all, (int assert, MPI_Win window), (assert, window), MPI_PROC_NULL)
SYNCHRONIZES(Win_unlock_all, (MPI_Win window), (window), MPI_PROC_NULL)
SYNCHRONIZES(Win_flush, (int rank, MPI_Win window), (rank, window), rank)
SYNCHRONIZES(Win_flush_all, (MPI_Win window), (window), MPI_PROC_NULL)
SYNCHRONIZES(Win_flush_local, (int rank, MPI_Win window), (rank, window), rank)
SYNCHRONIZES(Win_flush_local_all, (MPI_Win window), (window), MPI_PROC_NULL)
#endif

WRAPPER(Win_free)(MPI_Win* window) {
  const uint64_t begin = enter();
  uint16_t communicator = 0;
  if (begin != 0 && lock_profile()) {
    communicator = window_index(*window);
    profiler_forget_window(BITS_OF(*window));
    unlock_profile();
  }
  const int result = PMPI_Win_free(window);
  const uint64_t end = begin != 0 ? returned() : 0;
  if (counts(begin, result) && lock_profile()) {
    record(CALL_Win_free, communicator, PEER_NONE, 0, 0, begin, end);
    unlock_profile();
  }
  leave();
  return result;
}
#endif

#endif
