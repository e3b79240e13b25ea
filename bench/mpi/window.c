/* SPDX-License-Identifier: Apache-2.0
 *
 * What anybody would write to time many messages at once over an MPI, between two ranks, each pinned to the processor
 * of its rank. "window": rank 0 starts `count` sends, rank 1 as many receives, and answers with one byte when all have
 * come. "bidirectional": each rank posts a receive, starts a send and waits for both. As in netpipe sends start from
 * one buffer and receives that are under way together have places of their own. Printed by rank 0: one JSON object with
 * the median time of one message (window) or one exchange (bidirectional) in nanoseconds.
 *
 *     mpirun -n 2 window seconds bytes window|bidirectional count
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxSamples = 20000, kMaxCount = 1024 };

static MPI_Request requests[kMaxCount];
static char *out, *in;
static size_t stride;

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void window(int bytes, int count, int rank) {
  char answer = 0;
  for (int i = 0; i < count; i++) {
    if (rank == 0) MPI_Isend(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[i]);
    if (rank == 1) MPI_Irecv(in + (size_t)i * stride, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[i]);
  }
  for (int i = 0; i < count; i++) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  if (rank == 0) MPI_Recv(&answer, 1, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 1) MPI_Send(&answer, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
}

static void exchange(int bytes, int rank) {
  MPI_Irecv(in, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[1]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
  int rank = 0, more = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((unsigned)rank, &set);
  sched_setaffinity(0, sizeof set, &set);
  const double seconds = atof(argv[1]);
  const int bytes = atoi(argv[2]), windows = argv[3][0] == 'w', count = windows ? atoi(argv[4]) : 1;
  const int rounds = windows || bytes > 4096 ? 1 : 20;
  stride = ((size_t)bytes + 127) / 64 * 64; /* as netpipe lays them */
  out = aligned_alloc(4096, (stride + 4095) / 4096 * 4096);
  in = aligned_alloc(4096, (stride * (size_t)count + 4095) / 4096 * 4096);
  memset(out, 1, stride), memset(in, 1, stride * (size_t)count);
  double* const us = malloc(kMaxSamples * sizeof *us);
  int samples = 0;
  const double end = MPI_Wtime() + seconds;
  do { /* rank 0 says after each batch whether another follows, outside the timed region */
    if (windows)
      window(bytes, count, rank);
    else
      exchange(bytes, rank);
    for (int i = 0; i < 50 && samples < kMaxSamples; i++) {
      const double begin = MPI_Wtime();
      for (int k = 0; k < rounds; k++) {
        if (windows)
          window(bytes, count, rank);
        else
          exchange(bytes, rank);
      }
      us[samples++] = (MPI_Wtime() - begin) * 1e6 / (rounds * count);
    }
    more = MPI_Wtime() < end && samples < kMaxSamples;
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  } while (more);
  qsort(us, (size_t)samples, sizeof *us, by_value);
  if (rank == 0)
    printf("{\"bytes\": %d, \"operation_ns\": %.2f, \"samples\": %d}\n", bytes, us[samples / 2] * 1e3, samples);
  MPI_Finalize();
  return 0;
}
