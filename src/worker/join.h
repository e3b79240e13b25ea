// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "catalog/registry.h"

namespace netpipe {

// The module of this file under this name.
using ModuleLoader = std::function<Result<Registry>(const std::string& file, const std::string& name)>;

// One process of a job: the launcher of a library has started it, and the environment says who sent for it. It calls
// the conductor and carries out what that one says. ranks_here: ranks of the job in this process, which is all of them
// where the library simulates them. The exit code.
int join(const ModuleLoader& load, int ranks_here);

}  // namespace netpipe
