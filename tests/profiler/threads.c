/* SPDX-License-Identifier: Apache-2.0
 *
 * Four threads of each of two ranks that communicate at once, each with sizes, a communicator and types of its own.
 */
#include <pthread.h>

#include "expect.h"

enum { THREADS = 4, TIMES = 300 };

static int rank;
static MPI_Comm own[THREADS];

static void* work(void* argument) {
  const int me = (int)(long)argument, width = me + 1, peer = 1 - rank;
  double out[4 * THREADS], in[4 * THREADS];
  memset(out, 0, sizeof out);
  for (int i = 0; i < TIMES; ++i) {
    MPI_Datatype type;
    MPI_Request requests[2];
    MPI_Comm copy;
    MPI_Type_vector(width, 1, 2, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    MPI_Irecv(in, 1, type, peer, me, own[me], &requests[0]);
    MPI_Isend(out, 1, type, peer, me, own[me], &requests[1]);
    MPI_Send(out, width, MPI_FLOAT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Type_free(&type);
    if (i % 50 == 0) {
      MPI_Comm_dup(own[me], &copy);
      MPI_Sendrecv(out, 1 + width, MPI_BYTE, peer, 0, in, 1 + width, MPI_BYTE, peer, 0, copy, MPI_STATUS_IGNORE);
      MPI_Comm_free(&copy);
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  int level;
  pthread_t threads[THREADS];
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  if (argc < 2) return 2;
  if (level != MPI_THREAD_MULTIPLE) return 3; /* not available */
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < THREADS; ++i) MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
  expect_times("Comm_dup", 0, NONE, THREADS);
  for (int i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, work, (void*)(long)i);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; ++i) {
    const int bytes = 8 * (i + 1), peer = 1 - rank;
    expect_times("Irecv", bytes, peer, TIMES);
    expect_times("Isend", bytes, peer, TIMES);
    expect_times("Wait", bytes, peer, 2 * TIMES);
    expect_times("Send", 4 * (i + 1), NONE, TIMES);
    expect_times("Comm_dup", 0, NONE, TIMES / 50);
    expect_times("Sendrecv", 2 + i, peer, TIMES / 50);
    expect_times("Sendrecv_recv", 2 + i, peer, TIMES / 50);
  }
  write_expected(argv[1], rank);
  MPI_Finalize();
  return 0;
}
