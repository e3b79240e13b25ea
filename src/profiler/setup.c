/* SPDX-License-Identifier: Apache-2.0
 *
 * Where MPI starts and ends, phases, and communicators and datatypes as they come and go.
 */
#include "record.h"

WRAPPER(Init)(int* argc, char*** argv) {
  profiler_thread.inside++;
  const int fits = profiler_fits();
  const int result = PMPI_Init(argc, argv);
  if (result == MPI_SUCCESS && fits) profiler_open(MPI_THREAD_SINGLE);
  leave();
  return result;
}

WRAPPER(Init_thread)(int* argc, char*** argv, int required, int* provided) {
  profiler_thread.inside++;
  const int fits = profiler_fits();
  const int result = PMPI_Init_thread(argc, argv, required, provided);
  if (result == MPI_SUCCESS && fits) profiler_open(*provided);
  leave();
  return result;
}

WRAPPER(Finalize)(void) {
  profiler_thread.inside++;
  profiler_close(PART_ENDED, 0);
  const int result = PMPI_Finalize();
  leave();
  return result;
}

WRAPPER(Abort)(MPI_Comm comm, int code) {
  profiler_thread.inside++;
  profiler_close(PART_ABORTED, code);
  const int result = PMPI_Abort(comm, code);
  leave();
  return result;
}

/* MPI_Pcontrol(N) begins phase N; 0 turns counting off, and any other number on again. */
EXPORT int MPI_Pcontrol(const int level, ...) {
  if (profiler.part == NULL) {
    profiler.phase = level;
  } else if (lock_profile()) {
    const uint64_t now = ticks(profiler.counter);
    profiler_computed(now);
    if (profiler.phase == 0) profiler.resumed = now;
    profiler.phase = level;
    unlock_profile();
  }
  return MPI_SUCCESS;
}

WRAPPER(Type_free)(MPI_Datatype* type) {
  profiler_thread.inside++;
  if (profiler.part != NULL && lock_profile()) {
    struct known_type* const known = type_slot(type_bits(*type));
    if (known->handle == type_bits(*type)) known->handle = 0;
    unlock_profile();
  }
  const int result = PMPI_Type_free(type);
  leave();
  return result;
}

static inline void forget_communicator(MPI_Comm comm) {
  if (profiler.part == NULL || !lock_profile()) return;
  profiler_forget(comm_bits(comm), 1);
  unlock_profile();
}

WRAPPER(Comm_free)(MPI_Comm* comm) {
  profiler_thread.inside++;
  forget_communicator(*comm);
  const int result = PMPI_Comm_free(comm);
  leave();
  return result;
}

#if MPI_VERSION >= 2
WRAPPER(Comm_disconnect)(MPI_Comm* comm) {
  profiler_thread.inside++;
  forget_communicator(*comm);
  const int result = PMPI_Comm_disconnect(comm);
  leave();
  return result;
}
#endif

/* A communicator was made of `comm`. */
static void made(int call, const char* by, MPI_Comm comm, MPI_Comm fresh, uint64_t begin, uint64_t end) {
  if (!lock_profile()) return;
  const uint16_t parent = index_of(comm);
  record(call, parent, PEER_NONE, 0, 0, begin, end);
  if (fresh != profiler.no_communicator) profiler_add_communicator(fresh, by, parent);
  unlock_profile();
}

/* `by` has at most 19 characters (part.h). */
#define MAKES(Name, by, declared, given)                                                      \
  WRAPPER(Name) declared {                                                                    \
    const uint64_t begin = enter();                                                           \
    const int result = PMPI_##Name given;                                                     \
    if (counts(begin, result)) made(CALL_##Name, "MPI_" by, comm, *fresh, begin, returned()); \
    leave();                                                                                  \
    return result;                                                                            \
  }
MAKES(Comm_dup, "Comm_dup", (MPI_Comm comm, MPI_Comm* fresh), (comm, fresh))
MAKES(Comm_split, "Comm_split", (MPI_Comm comm, int color, int key, MPI_Comm* fresh), (comm, color, key, fresh))
MAKES(Comm_create, "Comm_create", (MPI_Comm comm, MPI_Group group, MPI_Comm* fresh), (comm, group, fresh))
MAKES(Cart_create, "Cart_create",
      (MPI_Comm comm, int count, IN int* sizes, IN int* periods, int reorder, MPI_Comm* fresh),
      (comm, count, sizes, periods, reorder, fresh))
MAKES(Cart_sub, "Cart_sub", (MPI_Comm comm, IN int* kept, MPI_Comm* fresh), (comm, kept, fresh))
MAKES(Graph_create, "Graph_create",
      (MPI_Comm comm, int nodes, IN int* index, IN int* edges, int reorder, MPI_Comm* fresh),
      (comm, nodes, index, edges, reorder, fresh))
MAKES(Intercomm_create, "Intercomm",
      (MPI_Comm comm, int leader, MPI_Comm peers, int their_leader, int tag, MPI_Comm* fresh),
      (comm, leader, peers, their_leader, tag, fresh))
MAKES(Intercomm_merge, "Intercomm_merge", (MPI_Comm comm, int high, MPI_Comm* fresh), (comm, high, fresh))
#if MPI_VERSION >= 3
MAKES(Comm_split_type, "Comm_split_type", (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* fresh),
      (comm, type, key, info, fresh))
MAKES(Comm_dup_with_info, "Comm_dup", (MPI_Comm comm, MPI_Info info, MPI_Comm* fresh), (comm, info, fresh))
MAKES(Comm_create_group, "Comm_create", (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* fresh),
      (comm, group, tag, fresh))
MAKES(Dist_graph_create, "Dist_graph",
      (MPI_Comm comm, int count, const int* from, const int* degrees, const int* to, const int* weights, MPI_Info info,
       int reorder, MPI_Comm* fresh),
      (comm, count, from, degrees, to, weights, info, reorder, fresh))
MAKES(Dist_graph_create_adjacent, "Dist_graph",
      (MPI_Comm comm, int in, const int* from, const int* in_weights, int out, const int* to, const int* out_weights,
       MPI_Info info, int reorder, MPI_Comm* fresh),
      (comm, in, from, in_weights, out, to, out_weights, info, reorder, fresh))

/* There is no communicator until the request is complete. */
#define MAKES_LATER(Name, declared, given)                                                                             \
  WRAPPER(Name) declared {                                                                                             \
    const uint64_t begin = enter();                                                                                    \
    const int result = PMPI_##Name given;                                                                              \
    const uint64_t end = begin != 0 ? returned() : 0;                                                                  \
    if (counts(begin, result) && lock_profile()) {                                                                     \
      const uint16_t communicator = index_of(comm);                                                                    \
      const uint32_t entry = count(CALL_Comm_idup, communicator, PEER_NONE, 0, begin, end);                            \
      const uint64_t number =                                                                                          \
          started(*request,                                                                                            \
                  (struct transfer){.entry = entry, .peer = PEER_NONE, .communicator = communicator, .fresh = fresh}); \
      trace(CALL_Comm_idup, communicator, PEER_NONE, 0, 0, begin, end, number);                                        \
      unlock_profile();                                                                                                \
    }                                                                                                                  \
    leave();                                                                                                           \
    return result;                                                                                                     \
  }
MAKES_LATER(Comm_idup, (MPI_Comm comm, MPI_Comm* fresh, MPI_Request* request), (comm, fresh, request))
#if HAS_MPI_4
MAKES_LATER(Comm_idup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm* fresh, MPI_Request* request),
            (comm, info, fresh, request))
#endif
#endif
