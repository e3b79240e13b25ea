// SPDX-License-Identifier: Apache-2.0
// What can be said against a plan on this host before any process is started: `netpipe-worker run` refuses it, and
// `netpipe-worker plan` (a dry run) refuses the same.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace netpipe {

// Memory, processors, processes, and what a run between two hosts needs. Exit::usage for what a different plan mends,
// Exit::unavailable for what this host lacks.
Outcome can_run_here(const Plan& plan, const Resolved& resolved);

// Raises the limit of open files. Fails when it is too low for so many processes of a job.
Outcome room_for_connections(int connections);

// The parts that can be tested without the limits of a real host. usable: the processors that this process may use.
Outcome processors_exist(const Plan& plan, const Resolved& resolved, const std::vector<int>& usable);
Outcome processes_fit(const Plan& plan, const Resolved& resolved, std::size_t usable);

// The processors of a program's ranks, which all run on this host, as choose_cpus has them. Where pin is automatic and
// there are not enough for each to have its own, -1 for all: held on one, a rank would wait for the other one there
// while another processor idles.
Result<std::vector<int>> place_program(const Pinning& pin, int ranks, const std::vector<int>& usable);

}  // namespace netpipe
