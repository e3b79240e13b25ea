// SPDX-License-Identifier: Apache-2.0
// Nothing watches a rank of a simulated machine: a process has one handler of each signal and one timer of this kind,
// and here it has a thousand ranks. The conductor's watchdog ends a job that hangs, and where all ranks wait for each
// other the simulator itself says so.
#include "engine/watchdog.h"

namespace netpipe {
namespace {

volatile int never = 0;

}  // namespace

Outcome Watchdog::install(bool) { return ok(); }
void Watchdog::hold_interrupts() {}
const volatile int* Watchdog::abort_flag() { return &never; }
// NOLINTNEXTLINE(performance-unnecessary-value-param): the real one keeps the text
void Watchdog::arm(std::int64_t, const Group*, std::string, int, Interrupts) {}
void Watchdog::heed_interrupts() {}
Cause Watchdog::disarm() { return Cause::none; }
bool Watchdog::interrupted() { return false; }
std::int64_t Watchdog::stalled_ns() { return 0; }

}  // namespace netpipe
