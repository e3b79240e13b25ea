/* SPDX-License-Identifier: Apache-2.0
 *
 * Very many calls on one rank: many FOLDER CALLS. Among them are messages, requests that are freed, and
 * communicators that come and go. The exit code is 5 if the process has grown by more than 4 MiB meanwhile.
 */
#include <unistd.h>

#include "expect.h"

enum { MOST_BYTES = 4 << 20, EVERY = 1000 };

static long resident(void) {
  long pages = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) exit(4);
  fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

static void messages(int size) {
  static char out[64], in[64];
  MPI_Request requests[2];
  MPI_Comm copy;
  MPI_Irecv(in, size, MPI_BYTE, 0, 1, MPI_COMM_SELF, &requests[0]);
  MPI_Isend(out, size, MPI_BYTE, 0, 1, MPI_COMM_SELF, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Irecv(in, size, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_SELF, &requests[0]);
  MPI_Request_free(&requests[0]);
  MPI_Comm_dup(MPI_COMM_SELF, &copy);
  MPI_Comm_free(&copy);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 3) return 2;
  const long long calls = atoll(argv[2]);
  long before = 0;
  int found = 0;
  for (long long i = 0; i < calls; ++i) {
    MPI_Iprobe(MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_SELF, &found, MPI_STATUS_IGNORE);
    if (i % EVERY == 0) messages(8);
    if (i == calls / 10) before = resident(); /* what MPI itself allocates on first use is there */
  }
  const long grown = resident() - before;
  const long long times = (calls + EVERY - 1) / EVERY;
  expect_times("Iprobe", 0, NONE, calls);
  expect_times("Irecv", 8, 0, times);
  expect_times("Isend", 8, 0, times);
  expect_times("Waitall", 16, NONE, times);
  expect_times("Irecv", 8, NONE, times);
  expect_times("Comm_dup", 0, NONE, times);
  write_expected(argv[1], 0);
  MPI_Finalize();
  return grown > MOST_BYTES ? 5 : 0;
}
