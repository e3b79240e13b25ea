/* SPDX-License-Identifier: Apache-2.0
 *
 * What this MPI has. The versions of the standard are no certain guide: Open MPI 5 says 3.1 and has partitioned
 * messages, LAM says 2.0 and has no const. All that differs between the libraries at compile time is decided here.
 */
#ifndef NETPIPE_MPI_API_H
#define NETPIPE_MPI_API_H

#include <mpi.h>

#if defined(OMPI_MAJOR_VERSION)
#define OPEN_MPI_MAJOR OMPI_MAJOR_VERSION
#else
#define OPEN_MPI_MAJOR 0
#endif

/* MPI_Ibcast and the others, MPI_Get_library_version, MPI_Comm_split_type, MPI_Win_allocate */
#define HAVE_MPI_3 (MPI_VERSION >= 3)
/* MPI_Send_c: counts beyond an int */
#define HAVE_COUNTS (MPI_VERSION >= 4)
/* MPI_Psend_init, MPI_Bcast_init and the others */
#define HAVE_PARTITIONED (MPI_VERSION >= 4 || OPEN_MPI_MAJOR >= 5)
#define HAVE_PERSISTENT_COLLECTIVES (MPI_VERSION >= 4 || OPEN_MPI_MAJOR >= 5)

/* MPI_T, and MPI_Neighbor_alltoall and the others: SimGrid says 3.1 and has neither */
#if defined(SMPI_H)
#define HAVE_TOOLS 0
#define HAVE_NEIGHBORS 0
#else
#define HAVE_TOOLS HAVE_MPI_3
#define HAVE_NEIGHBORS HAVE_MPI_3
#endif

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define COLD __attribute__((cold, noinline))

/* Called through the address that the loader has filled in, without the detour of a stub. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(MPI_Send) && !defined(MPI_Recv)
extern __typeof__(MPI_Send) MPI_Send __attribute__((noplt));
extern __typeof__(MPI_Recv) MPI_Recv __attribute__((noplt));
extern __typeof__(MPI_Isend) MPI_Isend __attribute__((noplt));
extern __typeof__(MPI_Irecv) MPI_Irecv __attribute__((noplt));
extern __typeof__(MPI_Wait) MPI_Wait __attribute__((noplt));
#endif

/* The prototypes of MPI-2 take no const, those of MPI-3 do: without it both are content. */
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
