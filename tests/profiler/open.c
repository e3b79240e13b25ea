/* SPDX-License-Identifier: Apache-2.0
 *
 * More transfers under way at once than the profiler follows, on one rank; then one message, which it follows again.
 * FOLDER is its argument.
 */
#include "expect.h"

enum { TRANSFERS = 20000 };

static int values[TRANSFERS], sent;
static MPI_Request requests[2 * TRANSFERS];

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 2) return 2;
  for (int i = 0; i < TRANSFERS; ++i) MPI_Irecv(&values[i], 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[i]);
  expect_times("Irecv", 4, 0, TRANSFERS);
  for (int i = 0; i < TRANSFERS; ++i) MPI_Isend(&sent, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[TRANSFERS + i]);
  expect_times("Isend", 4, 0, TRANSFERS);
  MPI_Waitall(2 * TRANSFERS, requests, MPI_STATUSES_IGNORE);
  expect("Waitall", -1, NONE); /* -1: of those that were followed */
  MPI_Irecv(&values[0], 2, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[0]);
  expect("Irecv", 8, 0);
  MPI_Send(&values[2], 2, MPI_INT, 0, 1, MPI_COMM_WORLD);
  expect("Send", 8, 0);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  expect("Wait", 8, 0);
  write_expected(argv[1], 0);
  MPI_Finalize();
  return 0;
}
