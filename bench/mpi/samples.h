/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs in this folder share: both ranks on the processor of their number, and a file of samples that grows
 * while they run, so that another program can stop and continue them (bench/slices.py) and know what was measured when.
 * A line is a batch: the time of one operation in nanoseconds, of each sample, as rank 0 had it. Arguments that all
 * have: the file, the seconds to go on at most, the message in bytes.
 */
#ifndef NETPIPE_BENCH_MPI_SAMPLES_H
#define NETPIPE_BENCH_MPI_SAMPLES_H

#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef SAMPLES_IN_A_LINE
#define SAMPLES_IN_A_LINE 50
#endif
enum { kBatch = SAMPLES_IN_A_LINE };
#ifndef SAMPLES_THREAD_LEVEL
#define SAMPLES_THREAD_LEVEL MPI_THREAD_SINGLE
#endif
static const double kSampleNs = 20000; /* a sample of short operations is as many as last this long */

static int rank, bytes;
static int64_t until_ns;
static double batch[kBatch];
static FILE* samples;

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void begin(char** argv) {
  int given = MPI_THREAD_SINGLE;
  MPI_Init_thread(NULL, NULL, SAMPLES_THREAD_LEVEL, &given);
  if (given < SAMPLES_THREAD_LEVEL) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((unsigned)rank, &set);
  sched_setaffinity(0, sizeof set, &set);
  samples = fopen(rank == 0 ? argv[1] : "/dev/null", "w");
  if (samples == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  until_ns = now_ns() + (int64_t)(atof(argv[2]) * 1e9);
  bytes = atoi(argv[3]);
}

/* At least one place of `size` bytes, each page touched. */
static char* pages(size_t size) {
  const size_t room = (size + 4096) / 4096 * 4096;
  char* const place = aligned_alloc(4096, room);
  if (place == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  return memset(place, 1, room);
}

/* Writes the batch down and says whether another follows, outside of anything timed. Where two messages share a cache
 * line, as in the shared memory of Open MPI, it makes a difference of 15 % to messages in both directions whether the
 * two ranks begin a line at once, and that stays as it is while both send as many. So rank 0 is now a message ahead and
 * now not, and batches of both kinds are seen. */
static int another(void) {
  static int batches;
  for (int i = 0; i < kBatch; i++) fprintf(samples, "%.2f%c", batch[i], i + 1 < kBatch ? ' ' : '\n');
  fflush(samples);
  int more = now_ns() < until_ns;
  if (rank == 0) MPI_Send(&more, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(&more, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = batches++ % 2 * 2, heard = 0; i > 0; i--) {
    if (rank == 1) MPI_Send(&more, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    if (rank == 0) MPI_Recv(&heard, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  return more;
}

/* Samples of work(rounds), which is `operations` operations a round. All ranks carry it out together. */
static inline void sample(void (*work)(int rounds), int operations) {
  work(50);
  const int64_t first = now_ns();
  work(50);
  int mine = (int)(kSampleNs * 50 / (double)(now_ns() - first)) + 1, rounds = 0;
  MPI_Allreduce(&mine, &rounds, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  do {
    for (int i = 0; i < kBatch; i++) {
      const int64_t start = now_ns();
      work(rounds);
      batch[i] = (double)(now_ns() - start) / rounds / operations;
    }
  } while (another());
}

static int end(void) {
  fclose(samples);
  MPI_Finalize();
  return 0;
}

#endif
