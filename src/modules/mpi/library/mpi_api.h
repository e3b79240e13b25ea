/* SPDX-License-Identifier: Apache-2.0
 *
 * What this MPI has. Every difference between libraries that is known at compile time is decided here, or by the flags
 * of the family: the version of the standard is no certain guide, as libraries claim less or more than they have.
 */
#ifndef NETPIPE_MPI_API_H
#define NETPIPE_MPI_API_H

#include <mpi.h>

/* A family whose mpi.h promises less or more than its library has says so with -DHAVE_...=0 or 1. */
#define HAVE_MPI_3 (MPI_VERSION >= 3)  /* MPI_Ibcast and the others, MPI_Get_library_version, MPI_Win_allocate */
#define HAVE_COUNTS (MPI_VERSION >= 4) /* MPI_Send_c: counts beyond an int */
#ifndef HAVE_PARTITIONED
#define HAVE_PARTITIONED (MPI_VERSION >= 4) /* MPI_Psend_init */
#endif
#ifndef HAVE_PERSISTENT_COLLECTIVES
#define HAVE_PERSISTENT_COLLECTIVES (MPI_VERSION >= 4) /* MPI_Bcast_init and the others */
#endif
#ifndef HAVE_TOOLS
#define HAVE_TOOLS HAVE_MPI_3 /* MPI_T */
#endif
#ifndef HAVE_NEIGHBORS
#define HAVE_NEIGHBORS HAVE_MPI_3 /* MPI_Neighbor_alltoall and the others */
#endif
#ifndef HAVE_PASSIVE_TARGET
#define HAVE_PASSIVE_TARGET HAVE_MPI_3 /* MPI_Win_lock, and a target that makes progress while it waits */
#endif
#define HAVE_THREADS HAVE_MPI_3 /* MPI_THREAD_MULTIPLE, if it is asked for */
#ifndef HAVE_SHARED_WINDOWS
#define HAVE_SHARED_WINDOWS HAVE_MPI_3 /* MPI_Win_allocate_shared */
#endif

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define COLD __attribute__((cold, noinline))

/* Call through the address that the loader filled in, not through a stub. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(MPI_Send) && !defined(MPI_Recv)
extern __typeof__(MPI_Send) MPI_Send __attribute__((noplt));
extern __typeof__(MPI_Recv) MPI_Recv __attribute__((noplt));
extern __typeof__(MPI_Isend) MPI_Isend __attribute__((noplt));
extern __typeof__(MPI_Irecv) MPI_Irecv __attribute__((noplt));
extern __typeof__(MPI_Wait) MPI_Wait __attribute__((noplt));
extern __typeof__(MPI_Sendrecv) MPI_Sendrecv __attribute__((noplt));
#if HAVE_MPI_3
extern __typeof__(MPI_Put) MPI_Put __attribute__((noplt));
extern __typeof__(MPI_Get) MPI_Get __attribute__((noplt));
extern __typeof__(MPI_Win_flush) MPI_Win_flush __attribute__((noplt));
#endif
#endif

/* Prototypes of MPI-2 take no const, those of MPI-3 do: a plain pointer fits both. */
#define PLAIN(pointer) ((void*)(uintptr_t)(pointer))

/* A call with a count: count and type are those of a struct shape. */
#if HAVE_COUNTS
#define COUNTED(call, data, shape, ...)                                                                           \
  (UNLIKELY((shape).count > INT_MAX) ? call##_c(PLAIN(data), (MPI_Count)(shape).count, (shape).type, __VA_ARGS__) \
                                     : call(PLAIN(data), (int)(shape).count, (shape).type, __VA_ARGS__))
#else
#define COUNTED(call, data, shape, ...) call(PLAIN(data), (int)(shape).count, (shape).type, __VA_ARGS__)
#endif

#endif
