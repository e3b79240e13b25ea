/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of MPI that move nothing, and their processor time: what is put around a call shows in it, and other programs
 * on the machine do not. At the end the memory of the rank, after calls of very many kinds.
 *
 *     mpirun -n 1 calls FILE CALLS
 *
 * FILE gets lines "NAME NUMBER": for each kind the nanoseconds of a call (median of BATCHES batches of CALLS calls),
 * and `resident`, the bytes of the rank in memory.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 9, SIZES = 1 << 16, COPIES = 256 };

static char buffer[2 * SIZES];

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int probe(int calls) {
  int found = 0;
  for (int i = 0; i < calls; i++) MPI_Iprobe(MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
  return calls;
}

static int send(int calls) {
  for (int i = 0; i < calls; i++) MPI_Send(buffer, 8, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
  return calls;
}

static int isend_and_wait(int calls) {
  MPI_Request request;
  for (int i = 0; i < calls; i++) {
    MPI_Isend(buffer, 8, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  return 2 * calls;
}

static int less(const void* a, const void* b) {
  const double one = *(const double*)a, other = *(const double*)b;
  return (one > other) - (one < other);
}

/* Nanoseconds of a call. */
static double took(int (*make)(int calls), int calls) {
  double ns[BATCHES];
  make(calls / 10);
  for (int i = 0; i < BATCHES; i++) {
    const double before = now_ns();
    const int made = make(calls);
    ns[i] = (now_ns() - before) / made;
  }
  qsort(ns, BATCHES, sizeof ns[0], less);
  return ns[BATCHES / 2];
}

/* Every size and another buffer each time, over many communicators: more than a table of kinds has room for. */
static void many_kinds(void) {
  static MPI_Comm copies[COPIES];
  memset(buffer, 1, sizeof buffer);
  for (int i = 0; i < COPIES; i++) {
    MPI_Comm_dup(MPI_COMM_SELF, &copies[i]);
    MPI_Barrier(copies[i]);
  }
  for (int size = 0; size < SIZES; size++)
    MPI_Send(buffer + size, size, MPI_BYTE, MPI_PROC_NULL, 0, copies[size % COPIES]);
  for (int i = 0; i < COPIES; i++) MPI_Comm_free(&copies[i]);
}

static double resident(void) {
  long pages = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) exit(4);
  fclose(file);
  return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3 || atoi(argv[2]) < 10) return 2;
  const int calls = atoi(argv[2]);
  FILE* const file = fopen(argv[1], "w");
  if (file == NULL) return 4;
  fprintf(file, "Iprobe %.3f\n", took(probe, calls));
  fprintf(file, "Send %.3f\n", took(send, calls));
  fprintf(file, "Isend+Wait %.3f\n", took(isend_and_wait, calls));
  many_kinds();
  fprintf(file, "resident %.0f\n", resident());
  fclose(file);
  MPI_Finalize();
  return 0;
}
