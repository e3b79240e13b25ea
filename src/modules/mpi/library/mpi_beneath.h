/* SPDX-License-Identifier: Apache-2.0
 *
 * Which library below this one carries its messages: UCX or libfabric. It is asked of what is in force, after MPI_Init,
 * never concluded from a default. What is not certain is left alone: the messages then stand on what was seen to carry
 * them (mpi_found.h).
 */
#ifndef NETPIPE_MPI_BENEATH_H
#define NETPIPE_MPI_BENEATH_H

#include <dlfcn.h>

#include "mpi_settings.h"

/* Of a library that this process has loaded already; NULL: it has not, or has no such name. */
static inline void* loaded_symbol(const char* library, const char* name) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  void* const symbol = handle == NULL ? NULL : dlsym(handle, name);
  if (handle != NULL) dlclose(handle); /* it stays: others hold it */
  return symbol;
}

/* Of the MPI library, whose names may be hidden from the others. */
static inline void* mpi_symbol(const char* name) {
  const union {
    int (*call)(int*, char***);
    void* data;
  } init = {.call = MPI_Init};
  Dl_info info;
  return dladdr(init.data, &info) == 0 || info.dli_fname == NULL ? NULL : loaded_symbol(info.dli_fname, name);
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

/* "UCX 1.20.1" or "libfabric 2.5": the one that is loaded here, which need not be the one of netpipe's own module. */
static inline void tell_version_beneath(int through, char* text, size_t bytes) {
  const union {
    void* data;
    const char* (*ucx)(void);
    uint32_t (*libfabric)(void);
  } version = {.data = through == THROUGH_UCX ? loaded_symbol("libucp.so.0", "ucp_get_version_string")
                                              : loaded_symbol("libfabric.so.1", "fi_version")};
  *text = '\0';
  if (version.data == NULL) return;
  if (through == THROUGH_UCX) {
    snprintf(text, bytes, "UCX %s", version.ucx());
  } else {
    const uint32_t number = version.libfabric();
    snprintf(text, bytes, "libfabric %u.%u", number >> 16, number & 0xFFFF);
  }
}

#endif
