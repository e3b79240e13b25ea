/* SPDX-License-Identifier: Apache-2.0
 *
 * What anybody would write to time an MPI: MPI_Send and MPI_Recv of MPI_BYTE between two ranks, each pinned to the
 * processor of its rank. Rank 0 sends from one buffer and receives in another, rank 1 sends back what came, as in
 * netpipe: where a message of 1 MiB lies makes a difference of some percent. Printed by rank 0 for each size: one JSON
 * object with the median one-way time in nanoseconds. bench/compare.py builds it with each library's own compiler.
 *
 *     mpirun -n 2 pingpong seconds bytes...
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxSamples = 20000 };

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void bounce(const char* out, char* in, int bytes, int rounds, int rank) {
  for (int i = 0; i < rounds; i++) {
    if (rank == 0) MPI_Send(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(in, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  }
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
  double* const us = malloc(kMaxSamples * sizeof *us);
  for (int a = 2; a < argc; a++) {
    const int bytes = atoi(argv[a]), rounds = bytes > 4096 ? 1 : 20;
    const size_t room = ((size_t)bytes + 4095) / 4096 * 4096;
    char *const out = aligned_alloc(4096, room), *const in = aligned_alloc(4096, room);
    memset(out, 1, room), memset(in, 1, room);
    bounce(out, in, bytes, 50, rank);
    const double end = MPI_Wtime() + seconds;
    int samples = 0;
    do { /* rank 0 says after each batch whether another follows, outside the timed region */
      for (int i = 0; i < 50 && samples < kMaxSamples; i++) {
        const double begin = MPI_Wtime();
        bounce(out, in, bytes, rounds, rank);
        us[samples++] = (MPI_Wtime() - begin) * 1e6 / (2 * rounds);
      }
      more = MPI_Wtime() < end && samples < kMaxSamples;
      MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    } while (more);
    qsort(us, (size_t)samples, sizeof *us, by_value);
    if (rank == 0)
      printf("{\"bytes\": %d, \"oneway_ns\": %.1f, \"samples\": %d}\n", bytes, us[samples / 2] * 1e3, samples);
    free(out), free(in);
  }
  free(us);
  MPI_Finalize();
  return 0;
}
