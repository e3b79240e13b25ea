/* SPDX-License-Identifier: Apache-2.0
 *
 * The MPI module as a program of SimGrid's SMPI, which runs all ranks of a job in one process, on a machine that does
 * not exist. smpicc links mpi.c, this file and netpipe's own part of a rank (libnetpipe-simulated.a) into one shared
 * library: a module for netpipe-worker, which reads its table, and a program for smpirun, which loads a copy of it for
 * each rank and calls its main. Two system functions become the simulator's, by the linker (--wrap).
 */
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "netpipe/module.h"

/* Of libnetpipe-simulated.a (src/engine/simulated/simulator.h, which is not installed). */
int netpipe_join_simulated(const np_module* (*module)(void), int ranks);
void netpipe_simulator_turn(double seconds);

const np_module* netpipe_module(void);
int __real_clock_gettime(clockid_t clock, struct timespec* time);
int __wrap_clock_gettime(clockid_t clock, struct timespec* time);
int __wrap_gethostname(char* name, size_t bytes);

/* smpicc puts its own function in the place of this one, by a macro. */
#undef clock_gettime

/* A rank begins in real time, for the deadline of its call to the conductor, and goes over to simulated time when it
 * has waited for the first time. The module is also loaded where there is no simulator. */
static int simulated;

void netpipe_simulator_turn(double seconds) {
  simulated = 1;
  sg_actor_sleep_for(seconds);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec* time) {
  if (!simulated) return __real_clock_gettime(clock, time);
  const double now = simgrid_get_clock();
  time->tv_sec = (time_t)now;
  time->tv_nsec = (long)((now - (double)time->tv_sec) * 1e9 + 0.5);
  return 0;
}

/* The simulated host: each rank is on one of its own. */
int __wrap_gethostname(char* name, size_t bytes) {
  snprintf(name, bytes, "%s", sg_host_self_get_name());
  return 0;
}

__attribute__((visibility("default"))) int main(void) {
  const char* const ranks = getenv("SMPI_GLOBAL_SIZE"); /* of smpirun -np */
  return netpipe_join_simulated(netpipe_module, ranks != NULL ? atoi(ranks) : 1);
}
