/* SPDX-License-Identifier: Apache-2.0
 *
 * Intel MPI 2021: which version this is, how it is told what carries what it moves, and whether libfabric below it
 * does.
 */
#ifndef NETPIPE_INTEL_BENEATH_H
#define NETPIPE_INTEL_BENEATH_H

#include "kit/libraries/mpi_beneath.h"

static int intel_identify(struct library* l, const char* text) {
  return version_behind(l, text, "Intel(R) MPI Library", "Intel MPI");
}

static void intel_carry(const struct library* l, int transport, put_variable* set, void* to) {
  (void)l;
  set(to, "I_MPI_FABRICS", NULL, transport == FOUND_SHM ? "shm" : "ofi");
  if (transport == FOUND_TCP) set(to, "FI_PROVIDER", NULL, "tcp");
}

static void intel_yield(const struct library* l, int yields, put_variable* set, void* to) {
  (void)l;
  set(to, "I_MPI_THREAD_YIELD", NULL, yields ? "2" : "0"); /* 2: sched_yield */
}

/* Since 2019 all that it has besides its own shared memory is libfabric. Where memory is shared, that is libfabric's
 * only if I_MPI_FABRICS was obeyed, which it does not tell. */
static int intel_through(const struct library* l, int transport, int windows) {
  (void)windows;
  const int leaves = transport == FOUND_TCP || transport == FOUND_NETWORK;
  return leaves && l->major >= 2019 && loaded_symbol("libfabric.so.1", "fi_version") != NULL ? THROUGH_LIBFABRIC
                                                                                             : THROUGH_ITS_OWN;
}

#endif
