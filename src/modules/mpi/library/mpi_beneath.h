/* SPDX-License-Identifier: Apache-2.0
 *
 * Which library below this one carries its messages: UCX or libfabric. It is asked of what is in force, after MPI_Init,
 * never concluded from a default. What is not certain is left alone: the messages then stand on what was seen to carry
 * them (mpi_found.h).
 */
#ifndef NETPIPE_MPI_BENEATH_H
#define NETPIPE_MPI_BENEATH_H

#include "mpi_settings.h"

/* Of the MPI library, whose names may be hidden from the others. */
static inline void* mpi_symbol(const char* name) {
  const union {
    int (*call)(int*, char***);
    void* data;
  } init = {.call = MPI_Init};
  return symbol_beside(init.data, name);
}

/* The value of a control variable, asked of MPI_T. */
static inline int variable_is(const char* name, const char* value) {
#if HAVE_TOOLS
  char text[1024] = "";
  if (!begin_tools()) return 0;
  const int known = read_variable(name, text, sizeof text);
  end_tools(1);
  return known && strcmp(text, value) == 0;
#else
  (void)name, (void)value;
  return 0;
#endif
}

static inline void count_name(const char* name, void* count) {
  (void)name;
  ++*(int*)count;
}

/* How many contexts of UCP there are, from UCX's own list of its objects (ucs/vfs/base/vfs_obj.h, from 1.11 on), which
 * it keeps whether or not somebody mounts it. -1: it cannot be asked. */
static inline int ucp_contexts(void) {
  enum { OK = 0, NO_ELEMENT = -12 }; /* ucs_status_t */
  const union {
    void* data;
    int (*call)(const char* path, void (*tell)(const char*, void*), void* to);
  } list = {.data = loaded_symbol("libucs.so.0", "ucs_vfs_path_list_dir")};
  int count = 0;
  if (list.data == NULL) return -1;
  const int code = list.call("/ucp/context", count_name, &count);
  return code == OK ? count : code == NO_ELEMENT ? 0 : -1;
}

#endif
