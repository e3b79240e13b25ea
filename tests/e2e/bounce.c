/* SPDX-License-Identifier: Apache-2.0
 *
 * The ping-pong of a beginner's book, for test_smpi.py: prints the time of half a round trip, in nanoseconds.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  enum { TIMES = 100 };
  static char message[1 << 20];
  int rank = 0;
  const int bytes = argc > 1 ? atoi(argv[1]) : 8;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const double begin = MPI_Wtime();
  for (int i = 0; i < TIMES; ++i) {
    if (rank == 0) MPI_Send(message, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(message, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(message, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  }
  if (rank == 0) printf("%.3f\n", (MPI_Wtime() - begin) * 1e9 / (2 * TIMES));
  MPI_Finalize();
  return 0;
}
