/* SPDX-License-Identifier: Apache-2.0
 *
 * A program to profile: rank 0 sends 10 messages of 100 bytes to rank 1 if there is one, and then what the first
 * argument says happens: end (MPI_Finalize), exit, abort, kill (rank 1 kills itself), code (the exit code is 3), twice
 * (forks a child that sends nothing), wait (rank 0 says so, and all sleep until they are ended), or nothing.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "end";
  char data[100] = "";
  int rank, ranks, code = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < 10 && ranks > 1; ++i) {
    if (rank == 0) MPI_Send(data, 100, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(data, 100, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(how, "exit") == 0) exit(0);
  if (strcmp(how, "abort") == 0 && rank == 0) MPI_Abort(MPI_COMM_WORLD, 7);
  if (strcmp(how, "kill") == 0 && rank == 1) raise(SIGKILL);
  if (strcmp(how, "twice") == 0) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
  }
  if (strcmp(how, "wait") == 0) {
    if (rank == 0) puts("waiting");
    fflush(stdout);
    for (;;) sleep(1);
  }
  if (strcmp(how, "code") == 0) code = 3;
  MPI_Finalize();
  return code;
}
