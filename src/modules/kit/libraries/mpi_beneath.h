/* SPDX-License-Identifier: Apache-2.0
 *
 * What every layer that stands on an MPI library (mpi, armci, tcgmsg) has to know of its family: how the library is
 * told what shall carry its messages, and which library below it, UCX or libfabric, does. That is asked of what is in
 * force, after MPI_Init, never concluded from a default. What is not certain is left alone: the messages then stand on
 * what was seen to carry them. What a family knows is in python/netpipe/libraries/NAME/beneath.h.
 */
#ifndef NETPIPE_KIT_MPI_BENEATH_H
#define NETPIPE_KIT_MPI_BENEATH_H

#include <mpi.h>
#include <stdlib.h>

#include "kit/libraries/library_beneath.h"

#ifndef HAVE_TOOLS
#define HAVE_TOOLS (MPI_VERSION >= 3) /* MPI_T */
#endif

/* Where a library leaves the standard, or the usual. */
enum quirk {
  SIMULATES = 1,                    /* all ranks are one process: nothing can be observed from outside */
  STALE_PERSISTENT_COLLECTIVES = 2, /* a persistent collective moves a rank's own part only when first started */
  PRIVATE_NAMES = 4,                /* its names must stay hidden: it loads no plugins and defines malloc */
  FREES_WINDOW_ERROR_HANDLERS = 8,  /* MPI_Win_set_errhandler frees the handler that it replaces, each time */
  EAGER_BOUNDS_PSCW = 16            /* MPI_Win_complete and MPI_Win_wait deadlock beyond the eager size */
};

struct family;
struct library {
  const struct family* family; /* NULL: of no family known here */
  int major;
  unsigned quirks;
  unsigned built_with; /* bits whose meaning is the family's */
  char version[128];   /* "Open MPI 4.1.4" */
};

/* What carries the messages, as observed. */
enum { FOUND_NOTHING, FOUND_SHM, FOUND_TCP, FOUND_DAEMON, FOUND_NETWORK, FOUND_SIMULATION };

/* For identify: "PREFIX 4.1.4, package ..." becomes "TITLE 4.1.4". 0: prefix does not occur in text. */
static inline int version_behind(struct library* l, const char* text, const char* prefix, const char* title) {
  const char* number = strstr(text, prefix);
  if (number == NULL) return 0;
  number += strlen(prefix);
  number += strspn(number, " \t");
  size_t length = strspn(number, "0123456789.abcdefghijklmnopqrstuvwxyz-");
  while (length > 0 && number[length - 1] == '.') --length; /* the end of a sentence */
  snprintf(l->version, sizeof l->version, "%s %.*s", title, (int)length, number);
  return 1;
}

#if HAVE_TOOLS
/* The value of a control variable as text. 0: there is no such variable, or its type cannot be shown. */
static inline int read_variable(const char* name, char* text, size_t bytes) {
  int index = 0, verbosity, bind, scope, count = 0, found = 0;
  MPI_Datatype type;
  MPI_T_enum enumeration = MPI_T_ENUM_NULL;
  MPI_T_cvar_handle handle;
  char ignored[8];
  int ignored_bytes = sizeof ignored, none = 0;
  if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) return 0;
  if (MPI_T_cvar_get_info(index, ignored, &ignored_bytes, &verbosity, &type, &enumeration, NULL, &none, &bind,
                          &scope) != MPI_SUCCESS) {
    return 0;
  }
  if (MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS) return 0;
  union {
    char text[8192]; /* Open MPI wants 4096 for any text */
    _Bool truth;
    int i;
    unsigned u;
    unsigned long ul;
    unsigned long long ull;
  } value;
  memset(&value, 0, sizeof value);
  if ((size_t)count < sizeof value.text && MPI_T_cvar_read(handle, &value) == MPI_SUCCESS) {
    found = 1;
    if (type == MPI_CHAR) {
      snprintf(text, bytes, "%.1000s", value.text);
    } else if (type == MPI_INT) {
      snprintf(text, bytes, "%d", value.i);
    } else if (type == MPI_UNSIGNED) {
      snprintf(text, bytes, "%u", value.u);
    } else if (type == MPI_C_BOOL) {
      snprintf(text, bytes, "%d", value.truth);
    } else if (type == MPI_UNSIGNED_LONG) {
      snprintf(text, bytes, "%lu", value.ul);
    } else if (type == MPI_UNSIGNED_LONG_LONG) {
      snprintf(text, bytes, "%llu", value.ull);
    } else {
      found = 0;
    }
  }
  MPI_T_cvar_handle_free(&handle);
  return found;
}

/* Sessions of MPI_T may lie in each other. When the outermost has ended, MPICH 4.0 knows no variable in another. */
static inline int begin_tools(void) {
  int level = 0;
  return MPI_T_init_thread(MPI_THREAD_SINGLE, &level) == MPI_SUCCESS;
}
static inline void end_tools(int begun) {
  if (begun) MPI_T_finalize();
}
#else
static inline int begin_tools(void) { return 0; }
static inline void end_tools(int begun) { (void)begun; }
#endif

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

/* Takes one environment variable, which the library reads in MPI_Init. variable: what MPI_T calls its value afterwards,
 * the end of name; or NULL where that cannot be asked. */
typedef void put_variable(void* to, const char* name, const char* variable, const char* value);

/* Of a family, for layers that stand on an MPI. `netpipe modules add` lists those that the build serves; the last has
 * no identify. */
struct mpi_beneath {
  int (*identify)(struct library* l, const char* text); /* as in mpi/library/mpi_family.h */
  int (*through)(const struct library* l, int transport, int windows);
  /* The variables by which FOUND_SHM or FOUND_TCP carries messages and windows. */
  void (*carry)(const struct library* l, int transport, put_variable* set, void* to);
  /* Those by which a waiting rank yields its processor, or keeps it. */
  void (*yield)(const struct library* l, int yields, put_variable* set, void* to);
};

#endif
