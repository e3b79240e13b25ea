// SPDX-License-Identifier: Apache-2.0
// Looks at modules that nobody has chosen yet, in a process apart: one that crashes, exits, never returns or prints
// does so there, and is named. In this process no code of a module runs before it is chosen (Registry::bind).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "layer/layer.h"

namespace netpipe {

struct ProbedModule {
  std::string description;  // of its table, as in description.h
  std::string reason;       // why it cannot be used here, as its probe says, or ""
};

// Told what begins: "loading", "netpipe_module()", "its table", "its probe".
using Step = std::function<void(const char* what)>;

// Loads the code of a module into this process, for as long as the process lives. Exit::usage or Exit::unavailable: the
// file is no module that this netpipe can use.
Result<std::unique_ptr<Layer>> load_layer(const std::string& path, const Step& step = {});

// Why the module cannot be used here, as its probe says, or "" when it can.
std::string probe_reason(const Layer& layer);

// How long loading a module and asking it may take. Where that is exceeded the next module is looked at.
inline constexpr double probing_s = 2;

// Of each file, in this order. Exit::failed: it misbehaved, and the sentence says how; else as load_layer. To be called
// in a process of one thread.
std::vector<Result<ProbedModule>> probe_modules(const std::vector<std::string>& paths);

}  // namespace netpipe
