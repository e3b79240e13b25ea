/* SPDX-License-Identifier: Apache-2.0
 *
 * SMPI, the MPI of SimGrid. It has no settings of its own: the platform file describes the machine.
 */
#include "library/mpi_settings.h"

static int smpi_identify(struct library* l, const char* text) {
  return version_behind(l, text, "SMPI Version ", "SimGrid");
}

static const struct family smpi_family = {
    .identify = smpi_identify,
    .quirks = SIMULATES,
};
