/* SPDX-License-Identifier: Apache-2.0
 *
 * How a process waits for another one: the words of every module's option and fact "wait". Plain C, for modules in
 * either language.
 */
#ifndef NETPIPE_MODULES_KIT_WAITING_H
#define NETPIPE_MODULES_KIT_WAITING_H

#include "netpipe/module.h"

/* The first three can be chosen, in this order; the others are only found to be so. */
#define NP_WAITING(X)                                                                      \
  X(NP_WAIT_BLOCK, "block", "sleeps in the kernel until the other process wakes it")       \
  X(NP_WAIT_POLL, "poll", "looks again and again, and keeps its processor")                \
  X(NP_WAIT_HYBRID, "hybrid", "looks again for a while, and then sleeps in the kernel")    \
  X(NP_WAIT_YIELD, "yield", "looks again and again, and gives its processor away between") \
  X(NP_WAIT_NONE, "none", "never waits for another process")

typedef enum np_waiting { /* NOLINT(modernize-use-using): C */
#define NP_WAITING_NUMBER(number, word, meaning) number,
                          NP_WAITING(NP_WAITING_NUMBER)
#undef NP_WAITING_NUMBER
} np_waiting;

#define NP_WAIT_CHOICES "block|poll|hybrid"

static inline const char* np_waiting_word(np_waiting waiting) {
#define NP_WAITING_WORD(number, word, meaning) \
  if (waiting == (number)) return word;
  NP_WAITING(NP_WAITING_WORD)
#undef NP_WAITING_WORD
  return "none";
}

#ifdef __cplusplus
namespace netpipe {

enum class Wait { block = NP_WAIT_BLOCK, poll = NP_WAIT_POLL, hybrid = NP_WAIT_HYBRID };

inline constexpr np_option kSpinOption = {
    "spin_us", NP_INT, "50", 0, 1'000'000, nullptr, "us", "how long wait=hybrid polls before it sleeps", 1};

/* yields: ranks share a processor, so a process that polls gives it away in between. */
inline void describe_waiting(const np_value& wait, const np_value& spin_us, bool yields, np_emit emit, void* to) {
  const auto way = static_cast<Wait>(wait.number);
  np_emit_text(emit, to, "wait", yields && way == Wait::poll ? np_waiting_word(NP_WAIT_YIELD) : wait.text);
  if (way == Wait::hybrid) np_emit_integer(emit, to, "spin_us", spin_us.number, "us");
}

}  // namespace netpipe
#endif

#endif
