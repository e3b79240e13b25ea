// SPDX-License-Identifier: Apache-2.0
// How a module over sockets or shared memory waits: what its options `wait` and `spin_us` choose, and what it says of
// that. The words are in netpipe/waiting.h.
#pragma once

#include "netpipe/module.h"
#include "netpipe/waiting.h"

namespace netpipe {

enum class Wait { block = NP_WAIT_BLOCK, poll = NP_WAIT_POLL, hybrid = NP_WAIT_HYBRID };

inline constexpr np_option kSpinOption = {"spin_us",
                                          NP_INT,
                                          "50",
                                          0,
                                          1'000'000,
                                          nullptr,
                                          "us",
                                          "how long wait=hybrid polls before it sleeps",
                                          NP_TUNABLE_WAITING,
                                          0,
                                          "with wait=block|poll: only wait=hybrid polls for a time and then sleeps"};

// yields: ranks share a processor, so a process that polls gives it away in between.
inline void describe_waiting(const np_value& wait, const np_value& spin_us, bool yields, np_emit emit, void* to) {
  const auto way = static_cast<Wait>(wait.number);
  np_emit_text(emit, to, "wait", yields && way == Wait::poll ? np_waiting_word(NP_WAIT_YIELD) : wait.text);
  if (way == Wait::hybrid) np_emit_integer(emit, to, "spin_us", spin_us.number, "us");
}

}  // namespace netpipe
