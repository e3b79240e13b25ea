/* SPDX-License-Identifier: Apache-2.0
 *
 * What anybody would write to time a message over an MPI, between two ranks: half a round trip. As in netpipe a message
 * leaves from where the last one landed: where a message of 1 MiB lies makes a difference of some percent.
 *
 *     mpirun -n 2 pingpong FILE SECONDS BYTES
 */
#define _GNU_SOURCE
#include "samples.h"

static char* in;

static void bounce(int rounds) {
  for (int i = 0; i < rounds; i++) {
    if (rank == 0) MPI_Send(in, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(in, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  }
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  begin(argv);
  in = pages((size_t)bytes);
  sample(bounce, 2);
  free(in);
  return end();
}
