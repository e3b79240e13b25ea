/* SPDX-License-Identifier: Apache-2.0
 *
 * What anybody would write to time OpenSHMEM between two ranks: a ping-pong of a put, shmem_fence, a put of a flag, and
 * shmem_uint64_wait_until; a put and shmem_quiet; a get. As in netpipe a message leaves from where the last one landed.
 *
 *     oshrun -n 2 by_hand FILE SECONDS BYTES pingpong|put|get
 *
 * Both ranks are on the processor of their number. The file grows while they run: a line is a batch of samples, each
 * the time of one operation in nanoseconds, as rank 0 had it. The library's own end crashes, so it ends by
 * shmem_global_exit.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kBatch = 50 };
static const double kSampleNs = 20000; /* a sample of short operations is as many as last this long */

static int rank;
static size_t bytes;
static uint64_t *flag, sent;
static char* place;
static int64_t* agreed; /* rank 0 tells in its turn: rounds, and whether another batch follows */

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void pingpong(int64_t rounds) {
  for (int64_t i = 0; i < rounds; i++) {
    ++sent;
    if (rank == 1) shmem_uint64_wait_until(flag, SHMEM_CMP_GE, sent);
    shmem_putmem(place, place, bytes, 1 - rank);
    shmem_fence();
    shmem_uint64_p(flag, sent, 1 - rank);
    if (rank == 0) shmem_uint64_wait_until(flag, SHMEM_CMP_GE, sent);
  }
}

static void put(int64_t rounds) {
  for (int64_t i = 0; i < rounds && rank == 0; i++) {
    shmem_putmem(place, place, bytes, 1);
    shmem_quiet();
  }
}

static void get(int64_t rounds) {
  for (int64_t i = 0; i < rounds && rank == 0; i++) {
    shmem_getmem(place, place, bytes, 1);
    shmem_quiet();
  }
}

/* What rank 0 says. */
static int64_t tell(int64_t value) {
  shmem_barrier_all();
  if (rank == 0) {
    *agreed = value;
    shmem_putmem(agreed, agreed, sizeof *agreed, 1);
  }
  shmem_barrier_all();
  return *agreed;
}

int main(int argc, char** argv) {
  double batch[kBatch];
  if (argc != 5) return 2;
  shmem_init();
  rank = shmem_my_pe();
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((unsigned)rank, &set);
  sched_setaffinity(0, sizeof set, &set);
  FILE* const samples = fopen(rank == 0 ? argv[1] : "/dev/null", "w");
  const int64_t until_ns = now_ns() + (int64_t)(atof(argv[2]) * 1e9);
  bytes = (size_t)atoll(argv[3]);
  void (*const work)(int64_t) = strcmp(argv[4], "put") == 0 ? put : strcmp(argv[4], "get") == 0 ? get : pingpong;
  const int operations = work == pingpong ? 2 : 1;
  flag = shmem_align(128, 128);
  agreed = shmem_align(128, 128);
  place = shmem_align(4096, bytes + 4096);
  if (samples == NULL || flag == NULL || agreed == NULL || place == NULL) shmem_global_exit(1);
  *flag = 0;
  memset(place, 1, bytes);
  shmem_barrier_all();
  work(50);
  const int64_t first = now_ns();
  work(50);
  const int64_t rounds = tell((int64_t)(kSampleNs * 50 / (double)(now_ns() - first)) + 1);
  do {
    for (int i = 0; i < kBatch; i++) {
      const int64_t start = now_ns();
      work(rounds);
      batch[i] = (double)(now_ns() - start) / (double)rounds / operations;
    }
    for (int i = 0; i < kBatch; i++) fprintf(samples, "%.2f%c", batch[i], i + 1 < kBatch ? ' ' : '\n');
    fflush(samples);
  } while (tell(now_ns() < until_ns));
  fclose(samples);
  shmem_global_exit(0);
  return 0;
}
