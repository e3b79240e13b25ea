/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank of a job as its launcher sees it: it connects to who started the job, says who it is and what it found in its
 * environment, and stays until the connection ends. MPI-1 only, so that every MPI's compiler takes it.
 *
 * One line: secret job rank size pid uid cpus host
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int join(const char* where) {
  char host[64] = "";
  int port = 0;
  if (sscanf(where, "%63[0-9.]:%d", host, &port) != 2) return -1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1) return -1;
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  return connect(s, (struct sockaddr*)&address, sizeof address) == 0 ? s : -1;
}

/* LAM 7.1 sends a message whose address it never sets when there is nothing to send; what an earlier call has left on
 * the stack is then refused by the kernel as a bad address, or is not, as the length of the environment has it. */
static void __attribute__((noinline)) clear_stack(void) {
  char room[1 << 16];
  memset(room, 0, sizeof room);
  __asm__ volatile("" : : "r"(room) : "memory");
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "fail") == 0) {
    fprintf(stderr, "netpipe-worker: there is no such module\n");
    return 4;
  }
  clear_stack();
  MPI_Init(&argc, &argv);
  int rank = -1;
  int size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1 && strcmp(argv[1], "die") == 0 && rank == 1) abort();
  const char* where = getenv("NETPIPE_JOIN");
  const char* job = getenv("NETPIPE_JOB");
  const char* secret = getenv("NETPIPE_JOIN_SECRET");
  const int s = where != NULL ? join(where) : -1;
  if (s < 0 || job == NULL || secret == NULL) {
    fprintf(stderr, "netpipe-worker: rank %d cannot join\n", rank);
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  cpu_set_t cpus;
  sched_getaffinity(0, sizeof cpus, &cpus);
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  char line[1024];
  const int length = snprintf(line, sizeof line, "%s %s %d %d %d %d %d %s\n", secret, job, rank, size, (int)getpid(),
                              (int)getuid(), CPU_COUNT(&cpus), host);
  if (write(s, line, (size_t)length) != length) MPI_Abort(MPI_COMM_WORLD, 4);
  char end = 0;
  while (read(s, &end, 1) > 0) {
  }
  MPI_Finalize();
  return 0;
}
