/* SPDX-License-Identifier: Apache-2.0
 *
 * Partitioned messages between two ranks, each way at once: their partitions are made ready in all ways, and each is
 * looked for. FOLDER is its argument.
 */
#include "expect.h"

#define W MPI_COMM_WORLD

enum { PARTITIONS = 4, EACH = 3, TIMES = 3 };

int main(int argc, char** argv) {
  int rank, ranks, out[PARTITIONS * EACH], in[PARTITIONS * EACH], list[] = {3, 0, 2, 1};
  const long long bytes = sizeof out;
  MPI_Request requests[2];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(W, &rank);
  MPI_Comm_size(W, &ranks);
  if (argc < 2 || ranks != 2) return 2;
  const int other = 1 - rank;
  MPI_Psend_init(out, PARTITIONS, EACH, MPI_INT, other, 5, W, MPI_INFO_NULL, &requests[0]);
  expect("Psend_init", bytes, other);
  MPI_Precv_init(in, PARTITIONS, EACH, MPI_INT, other, 5, W, MPI_INFO_NULL, &requests[1]);
  expect("Precv_init", bytes, other);
  for (int time = 0; time < TIMES; ++time) {
    MPI_Startall(2, requests);
    expect("Start_send", bytes, other);
    expect("Start_recv", bytes, other);
    for (int i = 0; i < PARTITIONS * EACH; ++i) out[i] = 1000 * time + 100 * rank + i;
    if (time == 0) {
      for (int i = 0; i < PARTITIONS; ++i) MPI_Pready(i, requests[0]);
      expect_times("Pready", 0, other, PARTITIONS);
    } else if (time == 1) {
      MPI_Pready_range(0, PARTITIONS - 1, requests[0]);
      expect("Pready", 0, other);
    } else {
      MPI_Pready_list(PARTITIONS, list, requests[0]);
      expect("Pready", 0, other);
    }
    for (int i = 0; i < PARTITIONS; ++i) {
      for (int there = 0; !there;) {
        MPI_Parrived(requests[1], i, &there);
        expect("Parrived", 0, other);
      }
    }
    for (int i = 0; i < 2; ++i) {
      for (int done = 0; !done;) {
        MPI_Request_get_status(requests[i], &done, MPI_STATUS_IGNORE);
        expect("Request_get_status", 0, other);
      }
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect("Waitall", 2 * bytes, NONE);
    for (int i = 0; i < PARTITIONS * EACH; ++i)
      if (in[i] != 1000 * time + 100 * other + i) return 3;
  }
  int done = 0;
  MPI_Request_get_status(requests[0], &done, MPI_STATUS_IGNORE); /* it is not started */
  expect("Request_get_status", 0, NONE);
  if (!done) return 4;
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  write_expected(argv[1], rank);
  MPI_Finalize();
  return 0;
}
