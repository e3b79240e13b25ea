/* SPDX-License-Identifier: Apache-2.0
 *
 * Not MPI: it counts what a program of bench/mpi calls, so that a test can hold a comparison's peer against what it
 * says it does. Rank 0 of two, alone; nothing is moved. MPI_Finalize prints each call's number.
 */
#ifndef NETPIPE_TESTS_BENCH_MPI_MPI_H
#define NETPIPE_TESTS_BENCH_MPI_MPI_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int MPI_Comm, MPI_Datatype, MPI_Request, MPI_Win;
typedef long MPI_Aint;

static struct {
  const char* name;
  long calls;
} np_counted[32];

static inline int np_count(const char* name) {
  int i = 0;
  while (np_counted[i].name != NULL && strcmp(np_counted[i].name, name) != 0) i++;
  np_counted[i].name = name;
  np_counted[i].calls++;
  return 0;
}

static inline int np_print(void) {
  for (int i = 0; np_counted[i].name != NULL; i++) printf("%s %ld\n", np_counted[i].name, np_counted[i].calls);
  return 0;
}

enum { MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE };
enum { MPI_FLOAT, MPI_DOUBLE };
#define MPI_Init(...) 0
#define MPI_Init_thread(argc, argv, wanted, given) (*(given) = (wanted), 0)
#define MPI_Finalize() np_print()
#define MPI_Abort(comm, code) exit(code)
#define MPI_Comm_rank(comm, to) (*(to) = 0)
#define MPI_Comm_size(comm, to) (*(to) = 2)
#define MPI_Win_allocate(size, unit, info, comm, base, win) \
  (*(base) = calloc(1, (size_t)(size)), *(win) = 0, np_count("MPI_Win_allocate"))
#define MPI_Win_create(base, size, unit, info, comm, win) (*(win) = 0, np_count("MPI_Win_create"))
#define MPI_Win_free(win) 0
#define MPI_Win_lock_all(assert, win) 0
#define MPI_Win_unlock_all(win) 0
#define MPI_Isend(data, n, type, to, tag, comm, request) (*(request) = 0, np_count("MPI_Isend"))
#define MPI_Irecv(data, n, type, from, tag, comm, request) (*(request) = 0, np_count("MPI_Irecv"))
#define MPI_Wait(request, status) np_count("MPI_Wait")
#define MPI_Send(...) np_count("MPI_Send")
#define MPI_Recv(...) np_count("MPI_Recv")
#define MPI_Sendrecv(...) np_count("MPI_Sendrecv")
#define MPI_Waitall(n, requests, statuses) np_count("MPI_Waitall")
#define MPI_Iprobe(...) np_count("MPI_Iprobe")
#define MPI_Comm_dup(comm, copy) (*(copy) = 0, np_count("MPI_Comm_dup"))
#define MPI_Comm_free(comm) 0
#define MPI_Put(...) np_count("MPI_Put")
#define MPI_Win_flush(...) np_count("MPI_Win_flush")
#define MPI_Barrier(...) np_count("MPI_Barrier")
#define MPI_Allreduce(from, to, n, type, op, comm) (*(to) = *(from), np_count("MPI_Allreduce"))
#define MPI_Reduce(from, to, n, type, op, root, comm) (memcpy(to, from, sizeof *(from) * (n)), np_count("MPI_Reduce"))
#define MPI_Bcast(...) np_count("MPI_Bcast")
#define MPI_Alltoall(...) np_count("MPI_Alltoall")

#endif
