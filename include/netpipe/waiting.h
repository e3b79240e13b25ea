/* SPDX-License-Identifier: Apache-2.0
 *
 * How a process waits for another one: the words of the fact "wait" (np_module.describe), and of the option of that
 * name. netpipe lists them, and its own modules take them from here. A module of your own does not need this header: it
 * can write the words. Plain C, for modules in either language.
 */
#ifndef NETPIPE_WAITING_H
#define NETPIPE_WAITING_H

/* X(number, word, verb, meaning). The first three can be chosen, in this order; the others are only found to be so.
 * Ways of waiting with the same verb compare: the cost of being woken is in both or in neither. No verb: it never
 * waits.
 */
#define NP_WAITING(X)                                                                                          \
  X(NP_WAIT_BLOCK, "block", "sleep", "sleeps in the kernel until the other process wakes it")                  \
  X(NP_WAIT_POLL, "poll", "poll", "looks again and again, and keeps its processor")                            \
  X(NP_WAIT_HYBRID, "hybrid", "poll and then sleep", "looks again for a while, and then sleeps in the kernel") \
  X(NP_WAIT_YIELD, "yield", "poll", "looks again and again, and gives its processor away between")             \
  X(NP_WAIT_NONE, "none", "", "never waits for another process")

typedef enum np_waiting { /* NOLINT(modernize-use-using): C */
#define NP_WAITING_NUMBER(number, word, verb, meaning) number,
                          NP_WAITING(NP_WAITING_NUMBER)
#undef NP_WAITING_NUMBER
} np_waiting;

#define NP_WAIT_CHOICES "block|poll|hybrid"

static inline const char* np_waiting_word(np_waiting waiting) {
#define NP_WAITING_WORD(number, word, verb, meaning) \
  if (waiting == (number)) return word;
  NP_WAITING(NP_WAITING_WORD)
#undef NP_WAITING_WORD
  return "none";
}

#endif
