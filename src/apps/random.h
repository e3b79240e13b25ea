/* SPDX-License-Identifier: Apache-2.0
 *
 * The random numbers of the NAS benchmarks: x <- a x mod 2^46 with a = 5^13, and the uniform number x 2^-46 of the new
 * state. A product of 64-bit integers may wrap, as only its low 46 bits are kept.
 */
#ifndef NETPIPE_APPS_RANDOM_H
#define NETPIPE_APPS_RANDOM_H

#include <stdint.h>

#define RANDOM_MASK ((UINT64_C(1) << 46) - 1)
#define RANDOM_FACTOR UINT64_C(1220703125)

/* The next uniform number in (0, 1). */
static inline double random_next(uint64_t* state) {
  *state = *state * RANDOM_FACTOR & RANDOM_MASK;
  return (double)*state * 0x1p-46;
}

/* The state after `count` more numbers. */
static inline uint64_t random_after(uint64_t state, uint64_t count) {
  for (uint64_t factor = RANDOM_FACTOR; count > 0; count >>= 1) {
    if (count & 1) state = state * factor & RANDOM_MASK;
    factor = factor * factor & RANDOM_MASK;
  }
  return state;
}

#endif
