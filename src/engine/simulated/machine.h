// SPDX-License-Identifier: Apache-2.0
// A rank on a simulated machine: where its library simulates the machine, all ranks of a job are one process, each in a
// copy of the module with globals of its own. python/netpipe/libraries/smpi/program.c ties this to the simulator.
#pragma once

#include "netpipe/module.h"

extern "C" {

// What the simulator gives: lets the other ranks run, and comes back after so much simulated time.
void netpipe_simulator_turn(double seconds);

// The life of one rank out of so many; the exit code of its process.
int netpipe_join_simulated(const np_module* (*module)(), int ranks);
}
