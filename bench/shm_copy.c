/* SPDX-License-Identifier: Apache-2.0
 *
 * What one copy allows: two pinned processes hand a message to and fro, and each copies it with one memcpy from the
 * buffer that the other has just written into its own. Nothing else moves a byte. This, and not a memcpy within one
 * process, whose data may stay in the cache of its own core, is the bound of a message that is copied once. The file
 * gets one-way times in nanoseconds, a line for each.
 *
 *     shm_copy --output FILE [--cpus a,b] [--seconds s] [--bytes n]
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  _Alignas(128) _Atomic uint64_t there;
  _Alignas(128) _Atomic uint64_t back;
} Flags;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void wait_for(_Atomic uint64_t* flag, uint64_t value) {
  while (atomic_load_explicit(flag, memory_order_acquire) != value) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

static int pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((unsigned)cpu, &set);
  return sched_setaffinity(0, sizeof set, &set);
}

static void* shared(size_t bytes) {
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    perror("shm_copy: mmap");
    exit(4);
  }
  memset(memory, 1, bytes);
  return memory;
}

static int usage(void) {
  fputs("usage: shm_copy --output FILE [--cpus a,b] [--seconds s] [--bytes n]\n", stderr);
  return 2;
}

int main(int argc, char** argv) {
  int cpu[2] = {0, 1};
  size_t bytes = 1 << 20;
  double seconds = 1;
  FILE* output = NULL;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return usage();
    int known = 0;
    if (strcmp(argv[i], "--cpus") == 0) known = sscanf(argv[i + 1], "%d,%d", &cpu[0], &cpu[1]) == 2;
    if (strcmp(argv[i], "--seconds") == 0) known = sscanf(argv[i + 1], "%lf", &seconds) == 1 && seconds > 0;
    if (strcmp(argv[i], "--bytes") == 0) known = sscanf(argv[i + 1], "%zu", &bytes) == 1 && bytes > 0;
    if (strcmp(argv[i], "--output") == 0) known = (output = fopen(argv[i + 1], "w")) != NULL;
    if (!known) return usage();
  }
  if (output == NULL) return usage();
  Flags* flags = shared(sizeof *flags);
  unsigned char* own[2] = {shared(bytes), shared(bytes)};
  atomic_store(&flags->there, 0);
  atomic_store(&flags->back, 0);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || pin(cpu[1]) != 0) _exit(4);
    for (uint64_t turn = 1;; turn++) { /* until it is killed */
      wait_for(&flags->there, turn);
      memcpy(own[1], own[0], bytes);
      atomic_store_explicit(&flags->back, turn, memory_order_release);
    }
  }
  if (child < 0 || pin(cpu[0]) != 0) {
    perror("shm_copy");
    return 4;
  }
  const int64_t end = now_ns() + (int64_t)(seconds * 1e9);
  for (uint64_t turn = 1; now_ns() < end; turn++) {
    const int64_t begin = now_ns();
    atomic_store_explicit(&flags->there, turn, memory_order_release);
    wait_for(&flags->back, turn);
    memcpy(own[0], own[1], bytes);
    fprintf(output, "%.1f\n", (double)(now_ns() - begin) / 2);
    fflush(output);
  }
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  return 0;
}
