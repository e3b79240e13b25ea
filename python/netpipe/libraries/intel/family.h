/* SPDX-License-Identifier: Apache-2.0
 *
 * Intel MPI 2021: I_MPI_ variables, over its own shared memory and libfabric.
 */
#include "beneath.h"
#include "library/mpi_settings.h"

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
  if (shm || tcp) intel_carry(s->library, shm ? FOUND_SHM : FOUND_TCP, put_known, s);
  if (ofi) put(s, "I_MPI_FABRICS", "ofi");
  if (eager > 0 && !tcp && !ofi) put(s, "I_MPI_SHM_EAGER_THRESHOLD", "%lld", eager);
  if (eager > 0 && !shm) put(s, "FI_OFI_RXM_BUFFER_SIZE", "%lld", eager);
  if (!is(s, "single_copy", "auto")) put(s, "I_MPI_SHM_CMA", "%d", is(s, "single_copy", "cma"));
  if (yielding(s) >= 0) intel_yield(s->library, yielding(s), put_known, s);
  return NP_OK;
}

static const struct family intel_family = {
    .identify = intel_identify,
    .options = intel_options,
    .refusals = intel_refusals,
    .set = intel_set,
    .through = intel_through,
    .quirks = STALE_PERSISTENT_COLLECTIVES, /* found by verification in 2021.19, which is built on MPICH 4.0 */
};
