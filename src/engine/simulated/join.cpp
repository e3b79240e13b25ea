// SPDX-License-Identifier: Apache-2.0
#include "engine/processes/join.h"

#include <sys/resource.h>

#include <cstdio>
#include <exception>

#include "engine/simulated/idle.h"
#include "engine/simulated/process.h"
#include "engine/simulated/simulator.h"

int netpipe_join_simulated(const np_module* (*module)(), int ranks) {
  using namespace netpipe;
  // Every rank of this process has a connection of its own.
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  begin_idling(ranks);
  try {
    SimulatedProcess process(ranks);
    // The module is this very file: the simulator has loaded a copy of it for each rank.
    const Result<Exit> joined = join(
        [&](const std::string& file, const std::string& name) { return Registry::of(module(), file, name); }, process);
    if (joined) return static_cast<int>(*joined);
    std::fprintf(stderr, "netpipe-worker: %s\n", joined.failure().sentence.c_str());
    return static_cast<int>(joined.failure().exit);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "netpipe-worker: %s\n", error.what());
    return static_cast<int>(Exit::failed);
  }
}
