/* SPDX-License-Identifier: Apache-2.0
 *
 * Which library below another one carries its transfers, UCX or libfabric: what a library that runs can be asked for
 * (mpi, shmem). C.
 */
#ifndef NETPIPE_KIT_LIBRARY_BENEATH_H
#define NETPIPE_KIT_LIBRARY_BENEATH_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The library below that hands transfers over; its own: also where it is not known for certain. */
enum { THROUGH_ITS_OWN, THROUGH_UCX, THROUGH_LIBFABRIC };

/* Of a library that this process has loaded already; NULL: it has not, or has no such name. */
static inline void* loaded_symbol(const char* library, const char* name) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  void* const symbol = handle == NULL ? NULL : dlsym(handle, name);
  if (handle != NULL) dlclose(handle); /* it stays: others hold it */
  return symbol;
}

/* Of the library that has this address, whose names may be hidden from the others. */
static inline void* symbol_beside(const void* address, const char* name) {
  Dl_info info;
  return dladdr(address, &info) == 0 || info.dli_fname == NULL ? NULL : loaded_symbol(info.dli_fname, name);
}

/* How every component of Open MPI begins (mca_base_component_t of MCA 2.1, in Open MPI 4 and 5). */
struct mca_component {
  int mca[3];
  char project[16];
  int project_version[3];
  char type[32];
  int type_version[3];
  char name[64];
};

static inline int is_component(const struct mca_component* one, const char* project, const char* type,
                               const char* name) {
  return one != NULL && one->mca[0] == 2 && strncmp(one->project, project, sizeof one->project) == 0 &&
         strncmp(one->type, type, sizeof one->type) == 0 && strncmp(one->name, name, sizeof one->name) == 0;
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
