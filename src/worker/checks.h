// SPDX-License-Identifier: Apache-2.0
// What can be said against a plan on this host before any process is started: `netpipe-worker run` refuses it, and
// `netpipe-worker plan` (a dry run) refuses the same.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "catalog/plan.h"

namespace netpipe {

// Memory, processors, processes, and what a run between two hosts needs. Exit::usage for what a different plan mends,
// Exit::unavailable for what this host lacks.
Outcome can_run_here(const Plan& plan, const Resolved& resolved);

// Raises the limit of open files as far as the system allows. Fails when that is too few; the sentence begins with
// for_what ("a server needs") and ends with otherwise.
Outcome room_for_descriptors(std::size_t needed, const std::string& for_what, const std::string& otherwise = {});
Outcome room_for_connections(int connections);

// The parts that can be tested without the limits of a real host. usable: the processors that this process may use.
Outcome processors_exist(const Plan& plan, const Resolved& resolved, const std::vector<int>& usable);
Outcome processes_fit(const Plan& plan, const Resolved& resolved, std::size_t usable);

}  // namespace netpipe
