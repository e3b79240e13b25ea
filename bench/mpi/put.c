/* SPDX-License-Identifier: Apache-2.0
 *
 * What anybody would write to time a put and its flush over an MPI, between two ranks, in a window that the library
 * allocates or that it is given.
 *
 *     mpirun -n 2 put FILE SECONDS BYTES allocate|create
 */
#define _GNU_SOURCE
#include "samples.h"

static char* out;
static MPI_Win win;

static void put(int rounds) {
  if (rank != 0) return;
  for (int i = 0; i < rounds; i++) {
    MPI_Put(out, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, win);
    MPI_Win_flush(1, win);
  }
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  begin(argv);
  char *given = NULL, *in = NULL;
  const MPI_Aint room = ((MPI_Aint)bytes + 4095) / 4096 * 4096;
  out = pages((size_t)bytes);
  if (argv[4][0] == 'a') {
    MPI_Win_allocate(room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &in, &win);
    memset(in, 1, (size_t)room);
  } else {
    given = pages((size_t)bytes);
    MPI_Win_create(given, room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, win);
  sample(put, 1);
  MPI_Win_unlock_all(win);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_free(&win);
  free(out), free(given);
  return end();
}
