// SPDX-License-Identifier: Apache-2.0
// One visit of one size on one rank: everything is made ready, the pattern runs, the bytes are checked.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/commands.h"
#include "engine/opening/endpoint.h"
#include "engine/processes/rank_setting.h"

namespace netpipe {

// Kept from visit to visit, so that a visit allocates only where it is larger than all before it.
struct VisitMemory {
  std::vector<std::int64_t> notes;    // what this rank noted; empty where its clock does not count
  std::vector<std::int64_t> scratch;  // for notes that do not count
  std::vector<np_request> requests;
  // What the layer's counters say of this visit, in the order of its table; INT64_MIN: not known. Empty: it has none.
  std::vector<std::int64_t> counters, counters_before;
  std::vector<std::int64_t> lost;  // of a lossy layer: of each sample, how many messages did not arrive at this rank
};

// How long this process, and this machine, has not run at all (Watchdog::stalled_ns, suspended_ns).
struct Standstill {
  std::int64_t stalled_ns = 0, suspended_ns = 0;
};
// Between two looks at it. A suspension of less than a millisecond is none: its two clocks are not read at once.
std::uint32_t paused_ms(const Standstill& before, const Standstill& after);

// Collective over group, the members that take part.
Report run_visit(const RankSetting& setting, Group& group, Endpoint& endpoint, const Command& command,
                 VisitMemory& memory);

}  // namespace netpipe
