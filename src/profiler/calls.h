/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of MPI that are counted, each with what it does. The table is written into every part (part.h), so that
 * who reads a profile needs no second one. A call with MPI_Count (MPI_Send_c) is counted as the one without, and
 * MPI_Pready_range and MPI_Pready_list as MPI_Pready.
 */
#ifndef NETPIPE_PROFILER_CALLS_H
#define NETPIPE_PROFILER_CALLS_H

enum {
  SENDS = 1,        /* a message, or its part of a collective, leaves this rank */
  RECEIVES = 2,     /* a message is received; its size is that of the posted buffer */
  COLLECTIVE = 4,   /* all ranks of a communicator take part */
  STARTS = 8,       /* returns before the transfer is done; a call that COMPLETES waits for it */
  COMPLETES = 16,   /* waits or looks for transfers that were started */
  ONE_SIDED = 32,   /* reads or writes the memory of another rank */
  SETS_UP = 64,     /* makes something that later calls use: a communicator, a window, a persistent request */
  NO_DATA = 128,    /* a collective that moves none: a barrier */
  PERSISTENT = 256, /* starts requests that were set up before */
  HALF = 512        /* the receiving half of a call that is counted by its sending half; it has no time of its own */
};

#define CALLS(X)                                                                                 \
  X(Send, SENDS)                                                                                 \
  X(Ssend, SENDS)                                                                                \
  X(Bsend, SENDS)                                                                                \
  X(Rsend, SENDS)                                                                                \
  X(Recv, RECEIVES)                                                                              \
  X(Mrecv, RECEIVES)                                                                             \
  X(Sendrecv, SENDS)                                                                             \
  X(Sendrecv_recv, RECEIVES | HALF)                                                              \
  X(Sendrecv_replace, SENDS)                                                                     \
  X(Isend, SENDS | STARTS)                                                                       \
  X(Issend, SENDS | STARTS)                                                                      \
  X(Ibsend, SENDS | STARTS)                                                                      \
  X(Irsend, SENDS | STARTS)                                                                      \
  X(Irecv, RECEIVES | STARTS)                                                                    \
  X(Imrecv, RECEIVES | STARTS)                                                                   \
  X(Isendrecv, SENDS | STARTS)                                                                   \
  X(Isendrecv_replace, SENDS | STARTS)                                                           \
  X(Send_init, SETS_UP)                                                                          \
  X(Ssend_init, SETS_UP)                                                                         \
  X(Bsend_init, SETS_UP)                                                                         \
  X(Rsend_init, SETS_UP)                                                                         \
  X(Recv_init, SETS_UP)                                                                          \
  X(Psend_init, SETS_UP)                                                                         \
  X(Precv_init, SETS_UP)                                                                         \
  X(Collective_init, SETS_UP | COLLECTIVE | NO_DATA) /* MPI_Bcast_init and all others like it */ \
  X(Start_send, SENDS | STARTS | PERSISTENT)                                                     \
  X(Start_recv, RECEIVES | STARTS | PERSISTENT)                                                  \
  X(Start_collective, COLLECTIVE | STARTS | PERSISTENT)                                          \
  X(Wait, COMPLETES)                                                                             \
  X(Waitall, COMPLETES)                                                                          \
  X(Waitany, COMPLETES)                                                                          \
  X(Waitsome, COMPLETES)                                                                         \
  X(Test, COMPLETES)                                                                             \
  X(Testall, COMPLETES)                                                                          \
  X(Testany, COMPLETES)                                                                          \
  X(Testsome, COMPLETES)                                                                         \
  X(Probe, COMPLETES)                                                                            \
  X(Iprobe, COMPLETES)                                                                           \
  X(Mprobe, COMPLETES)                                                                           \
  X(Improbe, COMPLETES)                                                                          \
  X(Request_get_status, COMPLETES)                                                               \
  X(Parrived, COMPLETES)                                                                         \
  X(Pready, 0)                                                                                   \
  X(Cancel, 0)                                                                                   \
  X(Barrier, COLLECTIVE | NO_DATA)                                                               \
  X(Bcast, COLLECTIVE)                                                                           \
  X(Reduce, COLLECTIVE)                                                                          \
  X(Allreduce, COLLECTIVE)                                                                       \
  X(Reduce_scatter, COLLECTIVE)                                                                  \
  X(Reduce_scatter_block, COLLECTIVE)                                                            \
  X(Scan, COLLECTIVE)                                                                            \
  X(Exscan, COLLECTIVE)                                                                          \
  X(Gather, COLLECTIVE)                                                                          \
  X(Gatherv, COLLECTIVE)                                                                         \
  X(Scatter, COLLECTIVE)                                                                         \
  X(Scatterv, COLLECTIVE)                                                                        \
  X(Allgather, COLLECTIVE)                                                                       \
  X(Allgatherv, COLLECTIVE)                                                                      \
  X(Alltoall, COLLECTIVE)                                                                        \
  X(Alltoallv, COLLECTIVE)                                                                       \
  X(Alltoallw, COLLECTIVE)                                                                       \
  X(Neighbor_allgather, COLLECTIVE)                                                              \
  X(Neighbor_allgatherv, COLLECTIVE)                                                             \
  X(Neighbor_alltoall, COLLECTIVE)                                                               \
  X(Neighbor_alltoallv, COLLECTIVE)                                                              \
  X(Neighbor_alltoallw, COLLECTIVE)                                                              \
  X(Ibarrier, COLLECTIVE | STARTS | NO_DATA)                                                     \
  X(Ibcast, COLLECTIVE | STARTS)                                                                 \
  X(Ireduce, COLLECTIVE | STARTS)                                                                \
  X(Iallreduce, COLLECTIVE | STARTS)                                                             \
  X(Ireduce_scatter, COLLECTIVE | STARTS)                                                        \
  X(Ireduce_scatter_block, COLLECTIVE | STARTS)                                                  \
  X(Iscan, COLLECTIVE | STARTS)                                                                  \
  X(Iexscan, COLLECTIVE | STARTS)                                                                \
  X(Igather, COLLECTIVE | STARTS)                                                                \
  X(Igatherv, COLLECTIVE | STARTS)                                                               \
  X(Iscatter, COLLECTIVE | STARTS)                                                               \
  X(Iscatterv, COLLECTIVE | STARTS)                                                              \
  X(Iallgather, COLLECTIVE | STARTS)                                                             \
  X(Iallgatherv, COLLECTIVE | STARTS)                                                            \
  X(Ialltoall, COLLECTIVE | STARTS)                                                              \
  X(Ialltoallv, COLLECTIVE | STARTS)                                                             \
  X(Ialltoallw, COLLECTIVE | STARTS)                                                             \
  X(Ineighbor_allgather, COLLECTIVE | STARTS)                                                    \
  X(Ineighbor_allgatherv, COLLECTIVE | STARTS)                                                   \
  X(Ineighbor_alltoall, COLLECTIVE | STARTS)                                                     \
  X(Ineighbor_alltoallv, COLLECTIVE | STARTS)                                                    \
  X(Ineighbor_alltoallw, COLLECTIVE | STARTS)                                                    \
  X(Put, ONE_SIDED | SENDS)                                                                      \
  X(Get, ONE_SIDED | RECEIVES)                                                                   \
  X(Accumulate, ONE_SIDED | SENDS)                                                               \
  X(Get_accumulate, ONE_SIDED | SENDS)                                                           \
  X(Fetch_and_op, ONE_SIDED | SENDS)                                                             \
  X(Compare_and_swap, ONE_SIDED | SENDS)                                                         \
  X(Rput, ONE_SIDED | SENDS | STARTS)                                                            \
  X(Rget, ONE_SIDED | RECEIVES | STARTS)                                                         \
  X(Raccumulate, ONE_SIDED | SENDS | STARTS)                                                     \
  X(Rget_accumulate, ONE_SIDED | SENDS | STARTS)                                                 \
  X(Win_fence, ONE_SIDED | COLLECTIVE | NO_DATA)                                                 \
  X(Win_lock, ONE_SIDED | COMPLETES)                                                             \
  X(Win_unlock, ONE_SIDED | COMPLETES)                                                           \
  X(Win_lock_all, ONE_SIDED | COMPLETES)                                                         \
  X(Win_unlock_all, ONE_SIDED | COMPLETES)                                                       \
  X(Win_flush, ONE_SIDED | COMPLETES)                                                            \
  X(Win_flush_all, ONE_SIDED | COMPLETES)                                                        \
  X(Win_flush_local, ONE_SIDED | COMPLETES)                                                      \
  X(Win_flush_local_all, ONE_SIDED | COMPLETES)                                                  \
  X(Win_post, ONE_SIDED | COMPLETES)                                                             \
  X(Win_start, ONE_SIDED | COMPLETES)                                                            \
  X(Win_complete, ONE_SIDED | COMPLETES)                                                         \
  X(Win_wait, ONE_SIDED | COMPLETES)                                                             \
  X(Win_test, ONE_SIDED | COMPLETES)                                                             \
  X(Win_create, ONE_SIDED | SETS_UP | COLLECTIVE | NO_DATA)                                      \
  X(Win_allocate, ONE_SIDED | SETS_UP | COLLECTIVE | NO_DATA)                                    \
  X(Win_allocate_shared, ONE_SIDED | SETS_UP | COLLECTIVE | NO_DATA)                             \
  X(Win_create_dynamic, ONE_SIDED | SETS_UP | COLLECTIVE | NO_DATA)                              \
  X(Win_free, ONE_SIDED | SETS_UP | COLLECTIVE | NO_DATA)                                        \
  X(Comm_dup, SETS_UP | COLLECTIVE | NO_DATA)                                                    \
  X(Comm_dup_with_info, SETS_UP | COLLECTIVE | NO_DATA)                                          \
  X(Comm_idup, SETS_UP | COLLECTIVE | NO_DATA | STARTS)                                          \
  X(Comm_split, SETS_UP | COLLECTIVE | NO_DATA)                                                  \
  X(Comm_split_type, SETS_UP | COLLECTIVE | NO_DATA)                                             \
  X(Comm_create, SETS_UP | COLLECTIVE | NO_DATA)                                                 \
  X(Comm_create_group, SETS_UP | COLLECTIVE | NO_DATA)                                           \
  X(Intercomm_create, SETS_UP | COLLECTIVE | NO_DATA)                                            \
  X(Intercomm_merge, SETS_UP | COLLECTIVE | NO_DATA)                                             \
  X(Cart_create, SETS_UP | COLLECTIVE | NO_DATA)                                                 \
  X(Cart_sub, SETS_UP | COLLECTIVE | NO_DATA)                                                    \
  X(Graph_create, SETS_UP | COLLECTIVE | NO_DATA)                                                \
  X(Dist_graph_create, SETS_UP | COLLECTIVE | NO_DATA)                                           \
  X(Dist_graph_create_adjacent, SETS_UP | COLLECTIVE | NO_DATA)

#define CALL_NUMBER(name, does) CALL_##name,
enum { CALLS(CALL_NUMBER) CALL_COUNT };
#undef CALL_NUMBER

#endif
