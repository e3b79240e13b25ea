/* SPDX-License-Identifier: Apache-2.0
 *
 * Open MPI 4 and 5: which version this is, how it is told what carries what it moves, and whether UCX or libfabric
 * below it does.
 */
#ifndef NETPIPE_OPENMPI_BENEATH_H
#define NETPIPE_OPENMPI_BENEATH_H

#include "kit/libraries/mpi_beneath.h"

#define MCA "OMPI_MCA_"

static int openmpi_identify(struct library* l, const char* text) {
  return strncmp(text, "Open MPI v", 10) == 0 && version_behind(l, text, "Open MPI v", "Open MPI");
}

/* Its shared memory has changed its name. */
static const char* openmpi_shm(const struct library* l) { return l->major >= 5 ? "sm" : "vader"; }

/* Windows have components of their own, which do not follow those of messages: on one host they take shared memory
 * wherever they can, or UCX. */
static void openmpi_windows(const char* which, put_variable* set, void* to) { set(to, MCA "osc", "osc", which); }

static void openmpi_carry(const struct library* l, int transport, put_variable* set, void* to) {
  char btl[16];
  snprintf(btl, sizeof btl, "self,%s", transport == FOUND_SHM ? openmpi_shm(l) : "tcp");
  set(to, MCA "pml", "pml", "ob1");
  set(to, MCA "btl", "btl", btl);
  openmpi_windows(transport == FOUND_SHM ? "^ucx" : "^sm,ucx", set, to);
}

static void openmpi_yield(const struct library* l, int yields, put_variable* set, void* to) {
  (void)l;
  set(to, MCA "mpi_yield_when_idle", "mpi_yield_when_idle", yields ? "1" : "0");
}

/* From the components that it selected: its own report of them (hook/comm_method) reads the same variables. The control
 * variables only say which ones it was allowed to. */
static int openmpi_through(const struct library* l, int transport, int windows) {
  (void)l, (void)transport;
  if (windows) return variable_is("osc", "ucx") ? THROUGH_UCX : THROUGH_ITS_OWN; /* it may choose for each window */
  const struct mca_component* const pml = mpi_symbol("mca_pml_base_selected_component");
  if (is_component(pml, "ompi", "pml", "ucx")) return THROUGH_UCX;
  if (!is_component(pml, "ompi", "pml", "cm")) return THROUGH_ITS_OWN;
  const struct mca_component* const* const mtl = mpi_symbol("ompi_mtl_base_selected_component");
  return mtl != NULL && is_component(*mtl, "ompi", "mtl", "ofi") ? THROUGH_LIBFABRIC : THROUGH_ITS_OWN;
}

#endif
