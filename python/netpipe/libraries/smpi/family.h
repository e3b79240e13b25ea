/* SPDX-License-Identifier: Apache-2.0
 *
 * SMPI, the MPI of SimGrid. It has no settings of its own: the platform file describes the machine.
 */
#include "library/mpi_settings.h"

static int smpi_identify(struct library* l, const char* text) {
  return version_behind(l, text, "SMPI Version ", "SimGrid");
}

static int smpi_is_single(const struct library* l) { return strncmp(l->version, "SimGrid 3.32", 12) == 0; }

static const struct refusal smpi_refusals[] = {
    {"thread", "funneled|serialized|multiple", NULL, NULL, smpi_is_single, "it simulates one thread of each rank"},
    {"memory", "cuda", NULL, NULL, NULL, "the simulated machine has no CUDA device"},
    {.option = NULL},
};

static const struct family smpi_family = {
    .identify = smpi_identify,
    .refusals = smpi_refusals,
    .quirks = SIMULATES,
};
