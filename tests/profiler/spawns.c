/* SPDX-License-Identifier: Apache-2.0
 *
 * Spawns itself on two ranks, with the profiler, and sends one of them a message: spawns FOLDER.
 */
#include "expect.h"

static char* variable(const char* name) {
  const size_t room = 8192;
  char* const text = malloc(room);
  const char* const value = getenv(name);
  if (text == NULL || value == NULL) exit(4);
  snprintf(text, room, "%s=%s", name, value);
  return text;
}

int main(int argc, char** argv) {
  int value = 7, rank;
  MPI_Comm parent, children;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) {
    if (rank == 1) MPI_Recv(&value, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
  }
  if (argc < 2) return 2;
  char* words[] = {variable("LD_PRELOAD"), variable("NETPIPE_PROFILE"), argv[0], NULL};
  MPI_Comm_spawn("env", words, 2, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
  MPI_Send(&value, 1, MPI_INT, 1, 0, children);
  expect("Send", 4, NONE);
  write_expected(argv[1], rank);
  MPI_Finalize();
  return 0;
}
