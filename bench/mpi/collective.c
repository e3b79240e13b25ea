/* SPDX-License-Identifier: Apache-2.0
 *
 * What anybody would write to time a collective operation by its slowest rank, on one host: the ranks tell each other
 * in an allreduce whether one was late, rank 0 broadcasts a moment ahead, all wait for it, carry out the operation, and
 * note when they were done; the latest end of each is found by a reduction after the batch.
 *
 * How far ahead the moment lies decides what is measured: a broadcast of 8 bytes over Open MPI and shared memory takes
 * 1.19 times as long when it lies twice as far ahead. So the rule is netpipe's (agreed_start.h): three times the
 * fastest agreement of this batch so far, and twice what was too little for the rest of it. With a barrier instead of
 * the allreduce a broadcast takes a tenth longer: what was sent before matters that much.
 *
 * "own" is the way of the OSU benchmarks: a barrier before each operation, and the mean over the ranks of the time that
 * each needs from its own start to its own end. Numbers that are added are then floats.
 *
 *     mpirun -n 2 collective FILE SECONDS BYTES allreduce|alltoall|bcast [own]
 */
#define _GNU_SOURCE
#include "samples.h"

static int64_t fastest; /* agreement of this batch */

/* The moment to begin at. */
static int64_t agree(double late, int64_t* least, int64_t wander) {
  double any_late = 0;
  const int64_t since = now_ns();
  MPI_Allreduce(&late, &any_late, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  const int64_t usual = fastest < INT64_MAX ? 3 * fastest : 20000;
  if (any_late > 0 && *least < 5000000) *least = 2 * (usual > *least ? usual : *least);
  int64_t moment = now_ns() + (usual > *least ? usual : *least) + wander;
  MPI_Bcast(&moment, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  const int64_t took = now_ns() - since;
  if (took < fastest) fastest = took;
  return moment;
}

int main(int argc, char** argv) {
  const int own = argc == 6 && strcmp(argv[5], "own") == 0;
  if (argc != 5 && !own) return 2;
  const int allreduce = strcmp(argv[4], "allreduce") == 0, bcast = strcmp(argv[4], "bcast") == 0;
  const int alltoall = strcmp(argv[4], "alltoall") == 0;
  if (allreduce + bcast + alltoall != 1) return 2;
  begin(argv);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const size_t room = (size_t)bytes * (size_t)ranks;
  char *const out = pages(room), *const in = pages(room);
  memset(out, 0, room), memset(in, 0, room); /* numbers that can be added */
  const MPI_Datatype number = own ? MPI_FLOAT : MPI_DOUBLE;
  const int numbers = bytes / (own ? 4 : 8);
  double mine[kBatch];
  do {
    double late = 0;
    int64_t least = 2000;
    fastest = INT64_MAX;
    for (int i = -8; i < kBatch; i++) { /* the first of a batch see what writing the last one left in the caches */
      int64_t moment;
      if (own) {
        MPI_Barrier(MPI_COMM_WORLD);
        moment = now_ns();
      } else {
        moment = agree(late, &least, i + 8); /* nowhere in particular between two steps of the clock */
        late = now_ns() > moment;
        while (now_ns() < moment) continue;
      }
      if (allreduce) MPI_Allreduce(out, in, numbers, number, MPI_SUM, MPI_COMM_WORLD);
      if (bcast) MPI_Bcast(rank == 0 ? out : in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
      if (alltoall) MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
      if (i >= 0) mine[i] = (double)(now_ns() - moment);
    }
    MPI_Reduce(mine, batch, kBatch, MPI_DOUBLE, own ? MPI_SUM : MPI_MAX, 0, MPI_COMM_WORLD);
    for (int i = 0; i < kBatch && own; i++) batch[i] /= ranks;
  } while (another());
  free(out), free(in);
  return end();
}
