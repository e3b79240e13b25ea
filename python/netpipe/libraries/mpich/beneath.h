/* SPDX-License-Identifier: Apache-2.0
 *
 * MPICH 4 and 5: which version this is, how it is told what carries what it moves, and whether UCX or libfabric below
 * it does.
 */
#ifndef NETPIPE_MPICH_BENEATH_H
#define NETPIPE_MPICH_BENEATH_H

#include "kit/libraries/mpi_beneath.h"

#define CVAR "MPIR_CVAR_"

enum { MPICH_UCX = 1, MPICH_OFI = 2, MPICH_CH4 = 4 }; /* built_with */

static int mpich_identify(struct library* l, const char* text) {
  if (!version_behind(l, text, "MPICH Version:", "MPICH")) return 0;
  /* "MPICH Device: ch4:ucx,ofi" */
  const char* const device = strstr(text, "MPICH Device:");
  char words[128] = "";
  if (device != NULL) snprintf(words, sizeof words, "%.*s", (int)strcspn(device, "\n"), device);
  if (strstr(words, "ch4:") != NULL) l->built_with |= MPICH_CH4;
  if (strstr(words, "ucx") != NULL) l->built_with |= MPICH_UCX;
  if (strstr(words, "ofi") != NULL) l->built_with |= MPICH_OFI;
  /* Found by verification in 4.0.2; 5.0.2 is right. */
  if (strncmp(l->version, "MPICH 4.0", 9) == 0) l->quirks |= STALE_PERSISTENT_COLLECTIVES;
  return 1;
}

static int mpich_without_ucx(const struct library* l) { return (l->built_with & MPICH_UCX) == 0; }

static int mpich_with_ofi(const struct library* l) { return (l->built_with & MPICH_OFI) != 0; }

/* Ranks of one host leave its own shared memory for UCX, or for libfabric; tcp: for the TCP of these. */
static void mpich_leave_memory(const struct library* l, int ucx, int tcp, put_variable* set, void* to) {
  set(to, CVAR "NOLOCAL", CVAR "NOLOCAL", "1");
  /* MPI_T reports this one as empty whatever it is, so it cannot be checked. */
  if (!mpich_without_ucx(l) && mpich_with_ofi(l)) set(to, CVAR "CH4_NETMOD", NULL, ucx ? "ucx" : "ofi");
  if (ucx && tcp) set(to, "UCX_TLS", NULL, "tcp,self");
  if (!ucx && tcp) set(to, "FI_PROVIDER", NULL, "tcp");
}

static void mpich_carry(const struct library* l, int transport, put_variable* set, void* to) {
  if (transport == FOUND_SHM) {
    set(to, CVAR "NOLOCAL", CVAR "NOLOCAL", "0");
  } else {
    mpich_leave_memory(l, !mpich_with_ofi(l), 1, set, to);
  }
}

/* After so many polls; by default a thousand. 0 is never. */
static void mpich_yield(const struct library* l, int yields, put_variable* set, void* to) {
  (void)l;
  set(to, CVAR "POLLS_BEFORE_YIELD", CVAR "POLLS_BEFORE_YIELD", yields ? "1" : "0");
}

/* Device ch4 has its own shared memory and one network module, for messages and windows alike. */
static int mpich_through(const struct library* l, int transport, int windows) {
  const int has_ucx = !mpich_without_ucx(l), has_ofi = mpich_with_ofi(l);
  (void)windows;
  if ((l->built_with & MPICH_CH4) == 0 || (!has_ucx && !has_ofi)) return THROUGH_ITS_OWN;
  /* On one host its own shared memory comes first, unless it was told that ranks share no host. */
  if (transport == FOUND_SHM && !variable_is(CVAR "NOLOCAL", "1")) return THROUGH_ITS_OWN;
  if (!has_ofi) return THROUGH_UCX;
  if (!has_ucx) return THROUGH_LIBFABRIC;
  /* With both, MPI_T does not tell which is in use. The one for UCX makes a context in MPI_Init. So does libfabric's
   * provider for UCX, which needs InfiniBand; there it is not certain. */
  const int contexts = transport == FOUND_SHM || transport == FOUND_TCP ? ucp_contexts() : -1;
  return contexts < 0 ? THROUGH_ITS_OWN : contexts > 0 ? THROUGH_UCX : THROUGH_LIBFABRIC;
}

#endif
