// SPDX-License-Identifier: Apache-2.0
#include "worker/join.h"

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
    return join([&](const std::string& file, const std::string& name) { return Registry::of(module(), file, name); },
                process);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "netpipe-worker: %s\n", error.what());
    return static_cast<int>(Exit::failed);
  }
}
