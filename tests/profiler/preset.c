/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters that are about to need a 33rd bit: preset FOLDER. The program has only a few calls, and sets in its own part
 * (src/profiler/part.h) what it would have after very many.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../src/profiler/part.h"
#include "expect.h"

static char buffer[8];

static void send(int times) {
  for (int i = 0; i < times; ++i) MPI_Send(buffer, 8, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  char path[4096];
  struct stat status;
  MPI_Init(&argc, &argv);
  if (argc < 2) return 2;
  send(1);
  snprintf(path, sizeof path, "%s/0.part", argv[1]);
  const int file = open(path, O_RDWR);
  if (file < 0 || fstat(file, &status) != 0) return 4;
  char* const memory = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return 4;
  struct part* const part = (struct part*)memory;
  struct entry* const entries = (struct entry*)(memory + part->entry_offset);
  for (uint32_t i = 0; i < part->entry_capacity; ++i)
    if (entries[i].calls != 0) entries[i].calls = entries[i].ticks = entries[i].most_ticks = UINT32_MAX;
  part->calls = part->mpi_ticks = part->compute_ticks = UINT32_MAX;
  part->reuse.accesses = part->reuse.again = part->reuse.bytes = part->reuse.bytes_again = UINT32_MAX;
  send(3);
  expect_times("Send", 8, NONE, UINT32_MAX + 3LL);
  write_expected(argv[1], 0);
  MPI_Finalize();
  return 0;
}
