// SPDX-License-Identifier: Apache-2.0
// Between netpipe and a simulator: all ranks of a job are one process, each in a copy of the module with globals of its
// own. python/netpipe/libraries/smpi/program.c ties this to SimGrid.
#pragma once

#include "netpipe/module.h"

extern "C" {

// The simulator provides this: it lets the other ranks run, and returns after so much simulated time.
void netpipe_simulator_turn(double seconds);

// The life of one rank out of so many. Returns the exit code of its process.
int netpipe_join_simulated(const np_module* (*module)(), int ranks);
}
