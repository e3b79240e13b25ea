/* SPDX-License-Identifier: Apache-2.0
 *
 * What anybody would write to time operations on the memory of another rank over an MPI, in a window that the library
 * allocates or that it is given: the loops of osu_fop_latency, osu_cas_latency and osu_acc_latency with a flush after
 * each, and of IMB's Sendrecv with requests.
 *
 *     mpirun -n 2 words FILE SECONDS BYTES fetch_and_op|compare_and_swap|accumulate|get_accumulate|ring allocate|create
 */
#define _GNU_SOURCE
#include "samples.h"

static char *out, *in;
static MPI_Win win;

static void fetch_and_op(int rounds) {
  const uint64_t one = 1;
  uint64_t before = 0;
  for (int i = 0; i < rounds && rank == 0; i++) {
    MPI_Fetch_and_op(&one, &before, MPI_UINT64_T, 1, 0, MPI_SUM, win);
    MPI_Win_flush(1, win);
  }
}

static void compare_and_swap(int rounds) {
  static uint64_t last;
  for (int i = 0; i < rounds && rank == 0; i++) {
    const uint64_t next = last + 1;
    uint64_t before = 0;
    MPI_Compare_and_swap(&next, &last, &before, MPI_UINT64_T, 1, 0, win);
    MPI_Win_flush(1, win);
    last = before == last ? next : before;
  }
}

static void accumulate(int rounds) {
  const int count = bytes / (int)sizeof(double);
  for (int i = 0; i < rounds && rank == 0; i++) {
    MPI_Accumulate(out, count, MPI_DOUBLE, 1, 0, count, MPI_DOUBLE, MPI_SUM, win);
    MPI_Win_flush(1, win);
  }
}

/* What was there comes to where the other rank's sums would arrive, as in netpipe. */
static void get_accumulate(int rounds) {
  const int count = bytes / (int)sizeof(double);
  for (int i = 0; i < rounds && rank == 0; i++) {
    MPI_Get_accumulate(out, count, MPI_DOUBLE, in, count, MPI_DOUBLE, 1, 0, count, MPI_DOUBLE, MPI_SUM, win);
    MPI_Win_flush(1, win);
  }
}

static void ring(int rounds) {
  MPI_Request requests[2];
  for (int i = 0; i < rounds; i++) {
    MPI_Irecv(in, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  }
}

static void (*chosen(const char* name))(int) {
  if (strcmp(name, "fetch_and_op") == 0) return fetch_and_op;
  if (strcmp(name, "compare_and_swap") == 0) return compare_and_swap;
  if (strcmp(name, "get_accumulate") == 0) return get_accumulate;
  return strcmp(name, "accumulate") == 0 ? accumulate : ring;
}

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  begin(argv);
  char* given = NULL;
  const MPI_Aint room = ((MPI_Aint)bytes + 4095) / 4096 * 4096;
  out = pages((size_t)bytes);
  if (argv[5][0] == 'a') {
    MPI_Win_allocate(room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &in, &win);
    memset(in, 0, (size_t)room);
  } else {
    in = given = pages((size_t)bytes);
    memset(in, 0, (size_t)bytes);
    MPI_Win_create(in, room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, win);
  sample(chosen(argv[4]), 1);
  MPI_Win_unlock_all(win);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_free(&win);
  free(out), free(given);
  return end();
}
