/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls with MPI_Count (MPI_Send_c, ...): the same text as those without, with other types and names (record.h).
 */
#include <mpi.h>

#if MPI_VERSION >= 4
#define LARGE
#include "collectives.c"
#include "messages.c"
#include "one_sided.c"
#endif
