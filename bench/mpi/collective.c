/* SPDX-License-Identifier: Apache-2.0
 *
 * What anybody would write to time a collective operation by its slowest rank, on one host: the ranks meet in a
 * barrier, rank 0 broadcasts a moment ahead by three times what meeting takes, all wait for it, carry out the
 * operation, and the latest end is found by a reduction. Each rank is pinned to the processor of its number. Printed by
 * rank 0: one JSON object with the median time of one operation in nanoseconds.
 *
 *     mpirun -n 2 collective seconds bytes allreduce|alltoall|bcast
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kMaxSamples = 20000 };

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  int rank = 0, ranks = 0, more = 1, samples = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((unsigned)rank, &set);
  sched_setaffinity(0, sizeof set, &set);
  const double seconds = atof(argv[1]);
  const int bytes = atoi(argv[2]);
  const char what = argv[3][2];
  const size_t room = ((size_t)bytes * (size_t)ranks + 4095) / 4096 * 4096;
  char *const out = aligned_alloc(4096, room), *const in = aligned_alloc(4096, room);
  memset(out, 0, room), memset(in, 0, room);
  double* const taken = malloc(kMaxSamples * sizeof *taken);
  double ahead = 0;
  for (int i = 0; i < 1000; i++) {
    if (i == 900) ahead = now_ns();
    double moment = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(&moment, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  }
  ahead = 3 * (now_ns() - ahead) / 100;
  const double until = now_ns() + seconds * 1e9;
  do { /* rank 0 says after each batch whether another follows, outside the timed region */
    for (int i = 0; i < 54 && samples < kMaxSamples; i++) {
      MPI_Barrier(MPI_COMM_WORLD);
      double moment = now_ns() + ahead, longest = 0;
      MPI_Bcast(&moment, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
      while (now_ns() < moment) continue;
      if (what == 'l') MPI_Allreduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
      if (what == 'a') MPI_Bcast(rank == 0 ? out : in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
      if (what == 't') MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
      const double mine = now_ns() - moment;
      MPI_Reduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
      if (i >= 4) taken[samples++] = longest;
    }
    more = now_ns() < until && samples < kMaxSamples;
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  } while (more);
  qsort(taken, (size_t)samples, sizeof *taken, by_value);
  if (rank == 0) {
    printf("{\"bytes\": %d, \"operation_ns\": %.1f, \"samples\": %d}\n", bytes, taken[samples / 2], samples);
  }
  free(out), free(in), free(taken);
  MPI_Finalize();
  return 0;
}
