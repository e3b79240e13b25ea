/* SPDX-License-Identifier: Apache-2.0
 *
 * What anybody would write to time many messages at once over an MPI, between two ranks. "window": rank 0 starts COUNT
 * sends, rank 1 as many receives, and answers with one byte when all have come; the time is that of one message.
 * "bidirectional": each rank posts a receive, starts a send and waits for both; the time is that of the exchange. As in
 * netpipe sends start from one place and receives that are under way together have places of their own.
 *
 *     mpirun -n 2 window FILE SECONDS BYTES window|bidirectional [COUNT]
 */
#define _GNU_SOURCE
#include "samples.h"

enum { kMaxCount = 1024 };

static MPI_Request requests[kMaxCount];
static char *out, *in;
static size_t stride;
static int count = 1;

static void window(int rounds) {
  char answer = 0;
  for (int k = 0; k < rounds; k++) {
    for (int i = 0; i < count; i++) {
      char* const place = in + (size_t)i * stride;
      if (rank == 0) MPI_Isend(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[i]);
      if (rank == 1) MPI_Irecv(place, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < count; i++) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    if (rank == 0) MPI_Recv(&answer, 1, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(&answer, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  }
}

static void bidirectional(int rounds) {
  for (int k = 0; k < rounds; k++) {
    MPI_Irecv(in, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  }
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const int windows = argv[4][0] == 'w';
  if (windows && argc == 6) count = atoi(argv[5]);
  if (count < 1 || count > kMaxCount) return 2;
  begin(argv);
  stride = ((size_t)bytes + 127) / 64 * 64; /* as netpipe lays them */
  out = pages(stride), in = pages(stride * (size_t)count);
  sample(windows ? window : bidirectional, count);
  free(out), free(in);
  return end();
}
