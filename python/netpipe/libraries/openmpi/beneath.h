/* SPDX-License-Identifier: Apache-2.0
 *
 * Open MPI 4 and 5: which version this is, and whether UCX or libfabric below it carries what it moves.
 */
#ifndef NETPIPE_OPENMPI_BENEATH_H
#define NETPIPE_OPENMPI_BENEATH_H

#include "kit/mpi_beneath.h"

static int openmpi_identify(struct library* l, const char* text) {
  return strncmp(text, "Open MPI v", 10) == 0 && version_behind(l, text, "Open MPI v", "Open MPI");
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
