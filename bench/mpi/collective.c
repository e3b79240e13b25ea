/* SPDX-License-Identifier: Apache-2.0
 *
 * What anybody would write to time a collective operation by its slowest rank, on one host: the ranks tell each other
 * in an allreduce whether one was late, rank 0 broadcasts a moment ahead by three times what that takes, all wait for
 * it, carry out the operation, and note when they were done; the latest end of each is found by a reduction after the
 * batch. With a barrier instead of the allreduce a broadcast of 8 bytes takes a tenth longer over Open MPI: what was
 * sent before matters that much.
 *
 *     mpirun -n 2 collective FILE SECONDS BYTES allreduce|alltoall|bcast
 */
#define _GNU_SOURCE
#include "samples.h"

static int64_t to_meet(void) {
  int64_t since = 0, moment = 0;
  double late = 0, any_late = 0;
  for (int i = 0; i < 1000; i++) {
    if (i == 900) since = now_ns();
    MPI_Allreduce(&late, &any_late, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Bcast(&moment, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  }
  return (now_ns() - since) / 100;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int allreduce = strcmp(argv[4], "allreduce") == 0, bcast = strcmp(argv[4], "bcast") == 0;
  const int alltoall = strcmp(argv[4], "alltoall") == 0;
  if (allreduce + bcast + alltoall != 1) return 2;
  begin(argv);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const size_t room = (size_t)bytes * (size_t)ranks;
  char *const out = pages(room), *const in = pages(room);
  memset(out, 0, room), memset(in, 0, room); /* numbers that can be added */
  int64_t ahead = 3 * to_meet();
  const int64_t most = 2 * ahead; /* who is stopped and continued (samples.h) is late each time */
  double mine[kBatch], late = 0, any_late = 0;
  do {
    for (int i = -4; i < kBatch; i++) { /* the first of a batch see what writing the last one left in the caches */
      MPI_Allreduce(&late, &any_late, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
      if (any_late > 0 && ahead < most) ahead = ahead + ahead / 8;
      int64_t moment = now_ns() + ahead + i; /* nowhere in particular between two steps of the clock */
      MPI_Bcast(&moment, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
      late = now_ns() > moment;
      while (now_ns() < moment) continue;
      if (allreduce) MPI_Allreduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
      if (bcast) MPI_Bcast(rank == 0 ? out : in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
      if (alltoall) MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
      if (i >= 0) mine[i] = (double)(now_ns() - moment);
    }
    MPI_Reduce(mine, batch, kBatch, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  } while (another());
  free(out), free(in);
  return end();
}
