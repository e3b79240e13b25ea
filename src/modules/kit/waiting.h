// SPDX-License-Identifier: Apache-2.0
// How a process waits for the other one, in one set of words for every module that gives the choice.
#pragma once

#include "netpipe/module.h"

namespace netpipe {

enum class Wait { block = 0, poll = 1, hybrid = 2 };
inline constexpr const char* kWaitChoices = "block|poll|hybrid";  // in the order of Wait

inline constexpr np_option kSpinOption = {
    "spin_us", NP_INT, "50", 0, 1'000'000, nullptr, "us", "how long wait=hybrid polls before it sleeps", 1};

// yields: ranks share a processor, so a process that polls gives it away in between.
inline void describe_waiting(const np_value& wait, const np_value& spin_us, bool yields, np_emit emit, void* to) {
  np_emit_text(emit, to, "wait", wait.text);
  if (static_cast<Wait>(wait.number) == Wait::hybrid) np_emit_integer(emit, to, "spin_us", spin_us.number, "us");
  if (yields && static_cast<Wait>(wait.number) != Wait::block) np_emit_bool(emit, to, "yields", 1);
}

}  // namespace netpipe
