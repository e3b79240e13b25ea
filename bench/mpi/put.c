/* SPDX-License-Identifier: Apache-2.0
 *
 * What anybody would write to time MPI_Put: rank 0 locks the window once, then puts and flushes; rank 1 waits in a
 * barrier. Each rank is pinned to the processor of its number. As in netpipe the message starts from one buffer and
 * lands in one place of a window of the library's memory ("allocate") or of ours ("create"). Printed by rank 0: one
 * JSON object with the median time of a put and its flush in nanoseconds.
 *
 *     mpirun -n 2 put seconds bytes allocate|create
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxSamples = 20000 };

static void put(const char* out, int bytes, int rounds, MPI_Win win) {
  for (int i = 0; i < rounds; i++) {
    MPI_Put(out, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, win);
    MPI_Win_flush(1, win);
  }
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((unsigned)rank, &set);
  sched_setaffinity(0, sizeof set, &set);
  const double seconds = atof(argv[1]);
  const int bytes = atoi(argv[2]), rounds = bytes > 4096 ? 1 : 200;
  const size_t room = ((size_t)bytes + 4095) / 4096 * 4096;
  char* const out = aligned_alloc(4096, room);
  char* in = NULL;
  MPI_Win win;
  if (argv[3][0] == 'a') {
    MPI_Win_allocate((MPI_Aint)room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &in, &win);
  } else {
    in = aligned_alloc(4096, room);
    MPI_Win_create(in, (MPI_Aint)room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  }
  memset(out, 1, room), memset(in, 1, room);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    double* const us = malloc(kMaxSamples * sizeof *us);
    int samples = 0;
    MPI_Win_lock_all(0, win);
    put(out, bytes, 50, win);
    const double end = MPI_Wtime() + seconds;
    while (MPI_Wtime() < end && samples < kMaxSamples) {
      const double begin = MPI_Wtime();
      put(out, bytes, rounds, win);
      us[samples++] = (MPI_Wtime() - begin) * 1e6 / rounds;
    }
    MPI_Win_unlock_all(win);
    qsort(us, (size_t)samples, sizeof *us, by_value);
    printf("{\"bytes\": %d, \"operation_ns\": %.2f, \"samples\": %d}\n", bytes, us[samples / 2] * 1e3, samples);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_free(&win);
  MPI_Finalize();
  return 0;
}
