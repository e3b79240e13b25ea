/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank on a simulated machine: where its library simulates the machine, all ranks of a job are one process, each in a
 * copy of the module with globals of its own. src/modules/launched/mpi_simgrid.c ties this to the simulator.
 */
#ifndef NETPIPE_SIMULATED_MACHINE_H
#define NETPIPE_SIMULATED_MACHINE_H

#include "netpipe/module.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the simulator has to give. */
void netpipe_simulator_turn(void); /* lets the other ranks run, and comes back after a moment of simulated time */

/* The life of one rank out of so many; the exit code of its process. */
int netpipe_join_simulated(const np_module* (*module)(void), int ranks);

#ifdef __cplusplus
}
#endif

#endif
