/* SPDX-License-Identifier: Apache-2.0
 *
 * Ways in which a program ends: ends FOLDER WAY. Rank 1 goes first; rank 0 has made five calls by then.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

int main(int argc, char** argv) {
  int rank, value = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 3) return 2;
  if (argc > 3 && (argc != 5 || strcmp(argv[3], "two words") != 0 || argv[4][0] != '\0')) return 4;
  for (int i = 0; i < 5; ++i) MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
  expect_times("Bcast", 4, 0, 5);
  if (strcmp(argv[2], "fork") == 0) {
    /* The child is no rank: what it calls is not counted, and it ends in its own way. */
    const pid_t child = fork();
    if (child == 0) {
      MPI_Pcontrol(3);
      exit(5);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 5) return 4;
    MPI_Barrier(MPI_COMM_WORLD);
    expect("Barrier", 0, NONE);
  }
  write_expected(argv[1], rank);
  if (strcmp(argv[2], "abort") == 0 && rank == 1) MPI_Abort(MPI_COMM_WORLD, 7);
  if (strcmp(argv[2], "kill") == 0 && rank == 1) raise(SIGKILL);
  if (strcmp(argv[2], "abort") == 0 || strcmp(argv[2], "kill") == 0) pause(); /* the launcher ends this rank */
  if (strcmp(argv[2], "exit") == 0) exit(6);
  if (strcmp(argv[2], "full") == 0) {
    /* From now on no file grows beyond 3 MiB: as on a full disk, there is no room for all events. */
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){3 << 20, 3 << 20});
    for (int i = 0; i < 100000; ++i) MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    expect_times("Send", 4, NONE, 100000);
    write_expected(argv[1], rank);
  }
  MPI_Finalize();
  return 0;
}
