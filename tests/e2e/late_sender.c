/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank 0 sleeps before each message that it sends to rank 1, which waits for it. Two barriers tell how far the clocks
 * of two hosts are apart, which messages in one direction do not.
 */
#include <mpi.h>
#include <unistd.h>

enum { MESSAGES = 10, LATE_US = 20000 };

int main(int argc, char** argv) {
  int rank, number = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < MESSAGES; ++i) {
    if (rank == 0) {
      usleep(LATE_US);
      MPI_Send(&number, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    } else if (rank == 1) {
      MPI_Recv(&number, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
