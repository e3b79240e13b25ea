/* SPDX-License-Identifier: Apache-2.0
 *
 * The floor of every shared-memory message: a bare flag handed to and fro between two pinned processes.
 *
 * Two layouts: both flags in one cache line (the line itself travels, and an answer is written into the line that
 * brought the question), and each flag in a line of its own. Each is waited for with 0, 1 and 4 pause instructions
 * between two looks, because a look that comes too early takes the line away from the one who is about to write it.
 * Batches of the six are interleaved, so that a change of the machine under the run hits all alike. The file gets lines
 * of six one-way times in nanoseconds.
 *
 *     shm_bounce --output FILE [--cpus a,b] [--seconds s] [--bytes n]       n: 1 to 8, the width of the flag
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

enum { kRoundTrips = 200, kWays = 6 };

static const int kPauses[kWays] = {0, 1, 4, 0, 1, 4};

typedef struct {
  _Alignas(128) _Atomic uint64_t there; /* lines are fetched in pairs: 128 bytes keep the pairs apart */
  _Atomic uint64_t back_in_one_line;
  _Alignas(128) _Atomic uint64_t back_in_two_lines;
  _Alignas(128) _Atomic uint64_t batch; /* number of the batch; which way it goes is the number modulo kWays */
} Flags;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void relax(int times) {
  for (int i = 0; i < times; i++) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
  }
}

static void wait_for(_Atomic uint64_t* flag, uint64_t value, uint64_t mask, int pauses) {
  while ((atomic_load_explicit(flag, memory_order_acquire) & mask) != (value & mask)) relax(pauses);
}

static _Atomic uint64_t* answer_flag(Flags* flags, int way) {
  return way < kWays / 2 ? &flags->back_in_one_line : &flags->back_in_two_lines;
}

static void answer(Flags* flags, uint64_t mask) {
  uint64_t turn = 0;
  for (uint64_t batch = 1;; batch++) {
    while (atomic_load_explicit(&flags->batch, memory_order_acquire) < batch) relax(1);
    const int way = (int)(batch % kWays);
    _Atomic uint64_t* back = answer_flag(flags, way);
    for (int i = 0; i < kRoundTrips; i++) {
      wait_for(&flags->there, ++turn, mask, kPauses[way]);
      atomic_store_explicit(back, turn, memory_order_release);
    }
  }
}

/* One batch; the one-way time in nanoseconds. */
static double ask(Flags* flags, uint64_t batch, uint64_t* turn, uint64_t mask) {
  const int way = (int)(batch % kWays);
  _Atomic uint64_t* back = answer_flag(flags, way);
  atomic_store_explicit(&flags->batch, batch, memory_order_release);
  const int64_t begin = now_ns();
  for (int i = 0; i < kRoundTrips; i++) {
    atomic_store_explicit(&flags->there, ++*turn, memory_order_release);
    wait_for(back, *turn, mask, kPauses[way]);
  }
  return (double)(now_ns() - begin) / (2.0 * kRoundTrips);
}

static int pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((unsigned)cpu, &set);
  return sched_setaffinity(0, sizeof set, &set);
}

static int usage(void) {
  fputs("usage: shm_bounce --output FILE [--cpus a,b] [--seconds s] [--bytes 1..8]\n", stderr);
  return 2;
}

/* A number within the bounds at *text, which is moved behind it. */
static int number(const char** text, double least, double most, double* value) {
  char* end = NULL;
  *value = strtod(*text, &end);
  const int read = end != *text && *value >= least && *value <= most;
  *text = end;
  return read;
}

int main(int argc, char** argv) {
  double cpu[2] = {0, 1}, bytes = 8, seconds = 1;
  FILE* output = NULL;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return usage();
    const char* value = argv[i + 1];
    int known = 0;
    if (strcmp(argv[i], "--cpus") == 0) {
      known = number(&value, 0, CPU_SETSIZE - 1, &cpu[0]) && *value == ',';
      value += known;
      known = known && number(&value, 0, CPU_SETSIZE - 1, &cpu[1]);
    } else if (strcmp(argv[i], "--output") == 0) {
      output = fopen(value, "w");
      known = output != NULL;
      value = "";
    } else if (strcmp(argv[i], "--seconds") == 0) {
      known = number(&value, 0.001, 3600, &seconds);
    } else if (strcmp(argv[i], "--bytes") == 0) {
      known = number(&value, 1, 8, &bytes);
    }
    if (!known || *value != '\0') return usage();
  }
  const int cpus[2] = {(int)cpu[0], (int)cpu[1]}, width = (int)bytes;
  if (output == NULL || cpus[0] == cpus[1]) return usage();
  const uint64_t mask = width == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * width)) - 1;

  Flags* flags = mmap(NULL, sizeof(Flags), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (flags == MAP_FAILED) {
    perror("shm_bounce: mmap");
    return 4;
  }
  if (pin(cpus[1]) != 0 || pin(cpus[0]) != 0) { /* before there is a second process that would wait */
    perror("shm_bounce: cannot pin to the given cpus");
    return 3;
  }
  const pid_t child = fork();
  if (child < 0) {
    perror("shm_bounce: fork");
    return 4;
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the answering loop has no end of its own */
    pin(cpus[1]);
    answer(flags, mask);
  }

  uint64_t batch = 0, turn = 0;
  for (const int64_t end = now_ns() + (int64_t)(seconds * 1e9); now_ns() < end;) {
    double ns[kWays];
    for (int i = 0; i < kWays; i++) {
      ++batch;
      ns[batch % kWays] = ask(flags, batch, &turn, mask);
    }
    for (int way = 0; way < kWays; way++) fprintf(output, "%.2f%c", ns[way], way + 1 < kWays ? ' ' : '\n');
    fflush(output);
  }
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  return 0;
}
