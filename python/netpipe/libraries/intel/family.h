/* SPDX-License-Identifier: Apache-2.0
 *
 * Intel MPI 2021: I_MPI_ variables, over its own shared memory and libfabric.
 */
#include "library/mpi_beneath.h"

static int intel_identify(struct library* l, const char* text) {
  return version_behind(l, text, "Intel(R) MPI Library", "Intel MPI");
}

static const np_option intel_options[] = {
    OPTION_TRANSPORT("auto|shm|tcp|ofi",
                     "what carries messages: the library's choice, its own shared memory, libfabric's TCP, or "
                     "libfabric's choice"),
    OPTION_EAGER,
    OPTION_SINGLE_COPY,
    OPTION_YIELD,
    OPTIONS_END,
};

static const struct refusal intel_refusals[] = {
    {"single_copy", NULL, "transport", "tcp|ofi", NULL, "choose transport=shm"},
    {.option = NULL},
};

static np_status intel_set(struct settings* s) {
  const int shm = is(s, "transport", "shm"), tcp = is(s, "transport", "tcp"), ofi = is(s, "transport", "ofi");
  const long long eager = number_of(s, "eager");
  if (shm) put(s, "I_MPI_FABRICS", "shm");
  if (tcp || ofi) put(s, "I_MPI_FABRICS", "ofi");
  if (tcp) put(s, "FI_PROVIDER", "tcp");
  if (eager > 0 && !tcp && !ofi) put(s, "I_MPI_SHM_EAGER_THRESHOLD", "%lld", eager);
  if (eager > 0 && !shm) put(s, "FI_OFI_RXM_BUFFER_SIZE", "%lld", eager);
  if (!is(s, "single_copy", "auto")) put(s, "I_MPI_SHM_CMA", "%d", is(s, "single_copy", "cma"));
  if (yielding(s) >= 0) put(s, "I_MPI_THREAD_YIELD", "%d", yielding(s) == 1 ? 2 : 0); /* 2: sched_yield */
  return NP_OK;
}

/* Since 2019 all that it has besides its own shared memory is libfabric. Where memory is shared, that is libfabric's
 * only if I_MPI_FABRICS was obeyed, which it does not tell. */
static int intel_through(const struct library* l, int transport, int windows) {
  (void)windows;
  const int leaves = transport == FOUND_TCP || transport == FOUND_NETWORK;
  return leaves && l->major >= 2019 && loaded_symbol("libfabric.so.1", "fi_version") != NULL ? THROUGH_LIBFABRIC
                                                                                             : THROUGH_ITS_OWN;
}

static const struct family intel_family = {
    .identify = intel_identify,
    .options = intel_options,
    .refusals = intel_refusals,
    .set = intel_set,
    .through = intel_through,
    .quirks = STALE_PERSISTENT_COLLECTIVES, /* found by verification in 2021.19, which is built on MPICH 4.0 */
};
