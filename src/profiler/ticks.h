/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock of the profiler: the processor's counter where it runs at a constant rate on all processors, else
 * CLOCK_MONOTONIC. Two readings belong to every call, so each has to cost as little as can be.
 */
#ifndef NETPIPE_PROFILER_TICKS_H
#define NETPIPE_PROFILER_TICKS_H

#include <stdint.h>
#include <time.h>

#include "part.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

static inline uint64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Whether the processor's counter can be the clock. */
static inline int has_counter(void) {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d >> 8 & 1);
#elif defined(__aarch64__)
  return 1;
#else
  return 0;
#endif
}

static inline uint64_t ticks(int counter) {
#if defined(__x86_64__)
  if (__builtin_expect(counter, 1)) return __rdtsc();
#elif defined(__aarch64__)
  if (__builtin_expect(counter, 1)) {
    uint64_t now;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
  }
#endif
  return clock_ns(CLOCK_MONOTONIC);
}

static inline struct moment moment_now(int counter) {
  struct moment now = {ticks(counter), clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_REALTIME)};
  return now;
}

#endif
