/* SPDX-License-Identifier: Apache-2.0
 *
 * Collective calls. Their bytes are what this rank gives: count times size for Bcast, Reduce, Allreduce, Scan and
 * Allgather, all that it sends for the all-to-all ones, all that it gets for Scatter. Buffers in place are described by
 * what is received. The peer is the root where there is one, else PEER_NONE. On an intercommunicator the root is
 * MPI_ROOT, and MPI_PROC_NULL on the ranks beside it, which take no part: both are negative, which no other root is.
 */
#include "record.h"

ONCE uint64_t sum_of(uint64_t n, const COUNT* counts) {
  uint64_t sum = 0;
  for (uint64_t i = 0; counts != NULL && i < n; ++i) sum += (uint64_t)counts[i];
  return sum;
}

#if MPI_VERSION >= 2
/* Every part has a type of its own. */
ONCE uint64_t sum_of_all(uint64_t n, const COUNT* counts, const MPI_Datatype* types) {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < n; ++i) bytes += bytes_of((uint64_t)counts[i], types[i]);
  return bytes;
}
#endif

static inline uint64_t size_of(uint16_t communicator, MPI_Comm comm) {
  const uint64_t size = profiler.communicators[communicator].size;
  return LIKELY(size != 0) ? size : profiler_size_now(comm);
}

static inline uint64_t local_size_of(uint16_t communicator, MPI_Comm comm) {
  const uint64_t size = profiler.beside[communicator].local_size;
  return LIKELY(size != 0) ? size : profiler_size_now(comm);
}

static inline int rank_of(uint16_t communicator) { return profiler.communicators[communicator].rank; }

static inline uint64_t degree_of(uint16_t communicator, MPI_Comm comm) {
  struct beside* const beside = &profiler.beside[communicator];
  if (beside->local_size == 0) return profiler_degree(comm);
  if (UNLIKELY(beside->degree < 0)) beside->degree = (int32_t)profiler_degree(comm);
  return (uint64_t)beside->degree;
}

ONCE void gathered(int call, uint16_t communicator, int32_t root, uint64_t bytes, const void* first, const void* second,
                   const MPI_Request* request, uint64_t begin, uint64_t end) {
  if (request == NULL) {
    record(call, communicator, root, 0, bytes, begin, end);
  } else if (call == CALL_Collective_init) {
    const struct transfer transfer = {.start = CALL_Start_collective,
                                      .bytes = bytes,
                                      .peer = root,
                                      .communicator = communicator,
                                      .buffer = first == MPI_IN_PLACE ? second : first};
    profiler_set_up(call, transfer, *request, begin, end);
    return;
  } else {
    const uint32_t entry = count(call, communicator, root, bytes, begin, end);
    const uint64_t number = started(
        *request, (struct transfer){.entry = entry, .bytes = bytes, .peer = root, .communicator = communicator});
    trace(call, communicator, root, 0, bytes, begin, end, number);
  }
  if (first != NULL && first != MPI_IN_PLACE) touch(first, bytes);
  if (second != NULL && second != MPI_IN_PLACE) touch(second, bytes);
}

/* After the call: C is the communicator's number, `size` an expression for the bytes, which may use C, and `root` one
 * for the peer. With the address of a request the call is one that starts. */
#define COLLECTIVE_OF(Name, as, declared, given, size, root, first, second, request) \
  WRAPPER(Name) declared {                                                           \
    const uint64_t begin = enter();                                                  \
    const int result = REAL(Name) given;                                             \
    const uint64_t end = begin != 0 ? returned() : 0;                                \
    if (counts(begin, result) && lock_profile()) {                                   \
      const uint16_t C = index_of(comm);                                             \
      const uint64_t bytes = (size);                                                 \
      gathered(CALL_##as, C, (root), bytes, first, second, request, begin, end);     \
      unlock_profile();                                                              \
    }                                                                                \
    leave();                                                                         \
    return result;                                                                   \
  }

/* A blocking call, the one that starts the same, and the one that sets it up. */
#define ALL(Name, IName, D, G, ...) \
  BLOCKING(Name, D, G, __VA_ARGS__) STARTED(IName, D, G, __VA_ARGS__) SET_UP(Name, D, G, __VA_ARGS__)
#define BLOCKING(Name, D, G, ...) COLLECTIVE_OF(Name, Name, (UNPACK D), (UNPACK G), __VA_ARGS__, NULL)
#if MPI_VERSION >= 3
#define STARTED(IName, D, G, ...) \
  COLLECTIVE_OF(IName, IName, (UNPACK D, MPI_Request * request), (UNPACK G, request), __VA_ARGS__, request)
#else
#define STARTED(IName, D, G, ...)
#endif
#if HAS_MPI_4
#define SET_UP(Name, D, G, ...)                                                                 \
  COLLECTIVE_OF(Name##_init, Collective_init, (UNPACK D, MPI_Info info, MPI_Request * request), \
                (UNPACK G, info, request), __VA_ARGS__, request)
#else
#define SET_UP(Name, D, G, ...)
#endif

#define N (uint64_t)n
#define IN_N (uint64_t)in_n

#ifndef LARGE
ALL(Barrier, Ibarrier, (MPI_Comm comm), (comm), 0, PEER_NONE, NULL, NULL)
#endif
ALL(Bcast, Ibcast, (void* data, COUNT n, MPI_Datatype type, int root, MPI_Comm comm), (data, n, type, root, comm),
    root == MPI_PROC_NULL ? 0 : bytes_of(N, type), peer_of(C, root), data, NULL)

#define REDUCED IN void *in, void *out, COUNT n, MPI_Datatype type, MPI_Op op
ALL(Reduce, Ireduce, (REDUCED, int root, MPI_Comm comm), (in, out, n, type, op, root, comm),
    root == MPI_PROC_NULL ? 0 : bytes_of(N, type), peer_of(C, root), in, out)
ALL(Allreduce, Iallreduce, (REDUCED, MPI_Comm comm), (in, out, n, type, op, comm), bytes_of(N, type), PEER_NONE, in,
    out)
ALL(Scan, Iscan, (REDUCED, MPI_Comm comm), (in, out, n, type, op, comm), bytes_of(N, type), PEER_NONE, in, out)
ALL(Reduce_scatter, Ireduce_scatter, (IN void* in, void* out, IN COUNT* n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
    (in, out, n, type, op, comm), bytes_of(sum_of(local_size_of(C, comm), n), type), PEER_NONE, in, out)
#if MPI_VERSION >= 2
ALL(Exscan, Iexscan, (REDUCED, MPI_Comm comm), (in, out, n, type, op, comm), bytes_of(N, type), PEER_NONE, in, out)
#endif
#if MPI_VERSION >= 3
ALL(Reduce_scatter_block, Ireduce_scatter_block, (REDUCED, MPI_Comm comm), (in, out, n, type, op, comm),
    bytes_of(N* local_size_of(C, comm), type), PEER_NONE, in, out)
#endif

#define EVEN IN void *out, COUNT n, MPI_Datatype type, void *in, COUNT in_n, MPI_Datatype in_type
#define EVEN_GIVEN out, n, type, in, in_n, in_type
#define GIVEN (out == MPI_IN_PLACE ? bytes_of(IN_N, in_type) : bytes_of(N, type))
ALL(Gather, Igather, (EVEN, int root, MPI_Comm comm), (EVEN_GIVEN, root, comm), root < 0 ? 0 : GIVEN, peer_of(C, root),
    out, NULL)
ALL(Scatter, Iscatter, (EVEN, int root, MPI_Comm comm), (EVEN_GIVEN, root, comm),
    root < 0             ? 0
    : in == MPI_IN_PLACE ? bytes_of(N, type)
                         : bytes_of(IN_N, in_type),
    peer_of(C, root), NULL, in)
ALL(Allgather, Iallgather, (EVEN, MPI_Comm comm), (EVEN_GIVEN, comm), GIVEN, PEER_NONE, out, in)
ALL(Alltoall, Ialltoall, (EVEN, MPI_Comm comm), (EVEN_GIVEN, comm), GIVEN* size_of(C, comm), PEER_NONE, out, in)

#define EVEN_UNEVEN \
  IN void *out, COUNT n, MPI_Datatype type, void *in, IN COUNT *in_n, IN DISPLACEMENT *at, MPI_Datatype in_type
#define EVEN_UNEVEN_GIVEN out, n, type, in, in_n, at, in_type
#define GIVEN_UNEVEN (out == MPI_IN_PLACE ? bytes_of((uint64_t)in_n[rank_of(C)], in_type) : bytes_of(N, type))
ALL(Gatherv, Igatherv, (EVEN_UNEVEN, int root, MPI_Comm comm), (EVEN_UNEVEN_GIVEN, root, comm),
    root < 0 ? 0 : GIVEN_UNEVEN, peer_of(C, root), out, NULL)
ALL(Scatterv, Iscatterv,
    (IN void* out, IN COUNT* n, IN DISPLACEMENT* at, MPI_Datatype type, void* in, COUNT in_n, MPI_Datatype in_type,
     int root, MPI_Comm comm),
    (out, n, at, type, in, in_n, in_type, root, comm),
    root < 0             ? 0
    : in == MPI_IN_PLACE ? bytes_of((uint64_t)n[rank_of(C)], type)
                         : bytes_of(IN_N, in_type),
    peer_of(C, root), NULL, in)
ALL(Allgatherv, Iallgatherv, (EVEN_UNEVEN, MPI_Comm comm), (EVEN_UNEVEN_GIVEN, comm), GIVEN_UNEVEN, PEER_NONE, out, in)

#define UNEVEN                                                                                  \
  (IN void* out, IN COUNT* n, IN DISPLACEMENT* at, MPI_Datatype type, void* in, IN COUNT* in_n, \
   IN DISPLACEMENT* in_at, MPI_Datatype in_type, MPI_Comm comm)
#define UNEVEN_GIVEN (out, n, at, type, in, in_n, in_at, in_type, comm)
ALL(Alltoallv, Ialltoallv, UNEVEN, UNEVEN_GIVEN,
    out == MPI_IN_PLACE ? bytes_of(sum_of(size_of(C, comm), in_n), in_type)
                        : bytes_of(sum_of(size_of(C, comm), n), type),
    PEER_NONE, out, in)

#define TYPED(Place)                                                                                           \
  (IN void* out, IN COUNT* n, IN Place* at, IN MPI_Datatype* types, void* in, IN COUNT* in_n, IN Place* in_at, \
   IN MPI_Datatype* in_types, MPI_Comm comm)
#define TYPED_GIVEN (out, n, at, types, in, in_n, in_at, in_types, comm)
#if MPI_VERSION >= 2
ALL(Alltoallw, Ialltoallw, TYPED(DISPLACEMENT), TYPED_GIVEN,
    out == MPI_IN_PLACE ? sum_of_all(size_of(C, comm), in_n, in_types) : sum_of_all(size_of(C, comm), n, types),
    PEER_NONE, out, in)
#endif

#if MPI_VERSION >= 3
ALL(Neighbor_allgather, Ineighbor_allgather, (EVEN, MPI_Comm comm), (EVEN_GIVEN, comm), bytes_of(N, type), PEER_NONE,
    out, in)
ALL(Neighbor_allgatherv, Ineighbor_allgatherv, (EVEN_UNEVEN, MPI_Comm comm), (EVEN_UNEVEN_GIVEN, comm),
    bytes_of(N, type), PEER_NONE, out, in)
ALL(Neighbor_alltoall, Ineighbor_alltoall, (EVEN, MPI_Comm comm), (EVEN_GIVEN, comm),
    bytes_of(N* degree_of(C, comm), type), PEER_NONE, out, in)
ALL(Neighbor_alltoallv, Ineighbor_alltoallv, UNEVEN, UNEVEN_GIVEN, bytes_of(sum_of(degree_of(C, comm), n), type),
    PEER_NONE, out, in)
ALL(Neighbor_alltoallw, Ineighbor_alltoallw, TYPED(MPI_Aint), TYPED_GIVEN, sum_of_all(degree_of(C, comm), n, types),
    PEER_NONE, out, in)
#endif
