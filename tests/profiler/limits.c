/* SPDX-License-Identifier: Apache-2.0
 *
 * More of everything than the profiler's tables hold, on one rank. FOLDER is its argument.
 */
#include "expect.h"

enum { IN_TURN = 2000, AT_ONCE = 1100, SIZES = 20000, PHASES = 5000, TRANSFERS = 3000 };

static char buffer[2 * SIZES], other[8];
static MPI_Comm copies[AT_ONCE];
static MPI_Request requests[2 * TRANSFERS];

int main(int argc, char** argv) {
  int value = 0, sum;
  MPI_Comm copy;
  MPI_Init(&argc, &argv);
  if (argc < 2) return 2;
  /* One after the other: each is known, and they share a row. */
  for (int i = 0; i < IN_TURN; ++i) {
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Bcast(&value, 1, MPI_INT, 0, copy);
    MPI_Comm_free(&copy);
  }
  expect_times("Comm_dup", 0, NONE, IN_TURN);
  expect_times("Bcast", 4, 0, IN_TURN);
  /* All at once: more than there are rows. */
  for (int i = 0; i < AT_ONCE; ++i) MPI_Comm_dup(MPI_COMM_SELF, &copies[i]);
  expect_times("Comm_dup", 0, NONE, AT_ONCE);
  for (int i = 0; i < AT_ONCE; ++i) MPI_Allgather(&value, 2, MPI_BYTE, &sum, 2, MPI_BYTE, copies[i]);
  expect_times("Allgather", 2, NONE, AT_ONCE);
  for (int i = 0; i < AT_ONCE; ++i) MPI_Alltoall(&value, 3, MPI_BYTE, &sum, 3, MPI_BYTE, copies[i]);
  expect_times("Alltoall", 3, NONE, AT_ONCE);
  for (int i = 0; i < AT_ONCE; ++i) MPI_Comm_free(&copies[i]);
  /* Many transfers at once, completed in another order. */
  for (int i = 0; i < TRANSFERS; ++i) {
    MPI_Irecv(other, i % 5 + 1, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
    expect("Irecv", i % 5 + 1, 0);
  }
  for (int i = 0; i < TRANSFERS; ++i) {
    MPI_Isend(buffer, i % 5 + 1, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[TRANSFERS + i]);
    expect("Isend", i % 5 + 1, 0);
  }
  for (int i = TRANSFERS - 1; i >= 0; --i) {
    MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    expect("Wait", i % 5 + 1, 0);
  }
  MPI_Waitall(TRANSFERS, requests + TRANSFERS, MPI_STATUSES_IGNORE);
  expect("Waitall", 3 * TRANSFERS, NONE);
  /* More sizes and buffers than there is room for: counted by powers of two, and as untracked. */
  for (int i = 1; i <= SIZES; ++i) MPI_Send(buffer + i, i, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
  expect_times("Send", -1, NONE, SIZES); /* -1: of all sizes together */
  for (int i = 0; i < PHASES; ++i) {
    MPI_Pcontrol(2 + i);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  expect_times("Barrier", 0, NONE, PHASES);
  write_expected(argv[1], 0);
  MPI_Finalize();
  return 0;
}
