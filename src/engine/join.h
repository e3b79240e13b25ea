// SPDX-License-Identifier: Apache-2.0
// One process of a job: the launcher of a library has started it, and the environment says which conductor requested
// it.
#pragma once

#include <functional>
#include <string>

#include "catalog/registry.h"
#include "engine/launched.h"

namespace netpipe {

// The module of this file under this name.
using ModuleLoader = std::function<Result<Registry>(const std::string& file, const std::string& name)>;

// Calls the conductor and carries out its commands. Returns the exit code of the process; a failure is to be printed.
Result<Exit> join(const ModuleLoader& load, LaunchedProcess& process);

}  // namespace netpipe
