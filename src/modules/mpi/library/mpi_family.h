/* SPDX-License-Identifier: Apache-2.0
 *
 * What a library family is to this module: a table that python/netpipe/libraries/NAME/family.h defines as NAME_family.
 * `netpipe modules add` writes mpi_families.h, which includes the families that this build serves and lists them. A
 * build against the MPI standard ABI serves several, so the one in force is chosen when the library is known. A library
 * of no family works with the options that every MPI has.
 */
#ifndef NETPIPE_MPI_FAMILY_H
#define NETPIPE_MPI_FAMILY_H

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/libraries/mpi_beneath.h"
#include "mpi_api.h"
#include "netpipe/module.h"

/* Values that the library cannot take. It is checked before MPI starts, and netpipe knows it when it plans. */
struct refusal {
  const char* option;
  const char* values;                      /* "a|b", or NULL for every value but the default */
  const char *with, *with_values;          /* only beside these values of another option; or NULL */
  int (*applies)(const struct library* l); /* NULL: always */
  const char* why;                         /* the end of a sentence, without "; " */
};

struct settings;
struct family {
  /* Whether the text of MPI_Get_library_version ("" before MPI-3) is of this family; then it fills in version, and what
   * else it can tell, but not major. */
  int (*identify)(struct library* l, const char* text);
  const np_option* options;             /* ends with one without a name; NULL: none of its own */
  const struct refusal* refusals;       /* ends with one without an option; or NULL */
  np_status (*set)(struct settings* s); /* from options to environment variables; or NULL */
  unsigned quirks;
  uint64_t max_bytes; /* of one message; 0: what MPI can count */
  /* The rest may be NULL. The value that says what shall carry messages, where that is not the option transport: */
  const char* (*asked_for)(const struct settings* s);
  /* What carries messages between ranks of one host when no socket does, from the names of the shared mappings: */
  int (*carrier)(const char* mappings);
  /* THROUGH_..., after MPI_Init and from what is in force (kit/libraries/mpi_beneath.h), for messages that `transport`
   * was seen to carry, or for transfers into windows. NULL: there is no library below it. */
  int (*through)(const struct library* l, int transport, int windows);
  /* With EAGER_BOUNDS_PSCW, in bytes: */
  uint64_t (*eager_bytes)(const struct settings* s, int transport);
};

#endif
