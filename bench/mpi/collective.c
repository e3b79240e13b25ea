/* SPDX-License-Identifier: Apache-2.0
 *
 * What anybody would write to time a collective operation by its slowest rank, on one host: the ranks meet in a
 * barrier, rank 0 broadcasts a moment ahead by three times what meeting takes, all wait for it, carry out the
 * operation, and the latest end is found by a reduction.
 *
 *     mpirun -n 2 collective FILE SECONDS BYTES allreduce|alltoall|bcast
 */
#define _GNU_SOURCE
#include "samples.h"

static double to_meet(void) {
  double since = 0, moment = 0;
  for (int i = 0; i < 1000; i++) {
    if (i == 900) since = now_ns();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(&moment, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  }
  return (now_ns() - since) / 100;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  begin(argv);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char what = argv[4][2];
  const size_t room = (size_t)bytes * (size_t)ranks;
  char *const out = pages(room), *const in = pages(room);
  memset(out, 0, room), memset(in, 0, room); /* numbers that can be added */
  const double ahead = 3 * to_meet();
  do {
    for (int i = -4; i < kBatch; i++) { /* the first of a batch see what writing the last one left in the caches */
      MPI_Barrier(MPI_COMM_WORLD);
      double moment = now_ns() + ahead, longest = 0;
      MPI_Bcast(&moment, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
      while (now_ns() < moment) continue;
      if (what == 'l') MPI_Allreduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
      if (what == 'a') MPI_Bcast(rank == 0 ? out : in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
      if (what == 't') MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
      const double mine = now_ns() - moment;
      MPI_Reduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
      if (i >= 0) batch[i] = longest;
    }
  } while (another());
  free(out), free(in);
  return end();
}
