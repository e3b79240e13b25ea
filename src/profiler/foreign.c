/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether this library fits the MPI of the program. Handles have other types in another one, so there it gets out of
 * the way: it says so in FOLDER/foreign.problem, and the program is executed again without it.
 */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "record.h"

#if defined(OPEN_MPI)
#define FAMILY "Open MPI"
#elif defined(LAM_MPI)
#define FAMILY "LAM/MPI"
#elif defined(MPI_H_ABI)
#define FAMILY "the MPI ABI"
#else
#define FAMILY "MPICH" /* and those that share its handles: Intel MPI, MVAPICH */
#endif

/* The family of the MPI library that is loaded; NULL: there is none. */
COLD static const char* family_here(void) {
  void* const init = dlsym(RTLD_DEFAULT, "PMPI_Init");
  Dl_info library;
  if (init == NULL) return NULL;
  if (dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") != NULL) return "Open MPI";
  if (dlsym(RTLD_DEFAULT, "lam_mpi_comm_world") != NULL) return "LAM/MPI";
  if (dladdr(init, &library) && strstr(library.dli_fname, "libmpi_abi") != NULL) return "the MPI ABI";
  return "MPICH";
}

/* What it calls itself: "Open MPI v4.1.4", without what it says of its making. */
COLD static void name_here(char* name, size_t room) {
  int (*const ask)(char*, int*) = (int (*)(char*, int*))dlsym(RTLD_DEFAULT, "PMPI_Get_library_version");
  char text[8192] = ""; /* longer than any library's */
  int length = 0;
  if (ask != NULL) ask(text, &length);
  text[strcspn(text, "\n,")] = '\0';
  for (char* tab = text; (tab = strchr(tab, '\t')) != NULL;) *tab = ' ';
  snprintf(name, room, "%s", text);
}

COLD static void say(const char* family, const char* name) {
  const char* const folder = getenv("NETPIPE_PROFILE");
  char path[4096], line[1024];
  if (folder == NULL) return;
  snprintf(path, sizeof path, "%s/foreign.problem", folder);
  const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return; /* another process has said it */
  const int length = snprintf(line, sizeof line, "the program uses %s (%s), but the profiler was built for %s\n",
                              family, name[0] != '\0' ? name : "version not known", FAMILY);
  if (write(file, line, (size_t)length) < 0) unlink(path);
  close(file);
}

/* Takes this library out of LD_PRELOAD. Returns 0 if it was not there. */
COLD static int leave_preload(void) {
  const char* const before = getenv("LD_PRELOAD");
  Dl_info own;
  if (before == NULL || !dladdr(&profiler, &own)) return 0;
  char* const list = strdup(before);
  char* const rest = calloc(strlen(before) + 2, 1);
  int found = 0;
  for (char *entry = list, *next; list != NULL && rest != NULL && entry != NULL; entry = next) {
    next = strpbrk(entry, ": ");
    if (next != NULL) *next++ = '\0';
    const char* const name = strrchr(own.dli_fname, '/');
    if (strcmp(entry, own.dli_fname) == 0 || (name != NULL && strcmp(entry, name + 1) == 0)) {
      found = 1;
    } else if (entry[0] != '\0') {
      strcat(strcat(rest, rest[0] != '\0' ? ":" : ""), entry);
    }
  }
  if (found && rest[0] != '\0') setenv("LD_PRELOAD", rest, 1);
  if (found && rest[0] == '\0') unsetenv("LD_PRELOAD");
  free(list);
  free(rest);
  return found;
}

/* Begins the program again, with its own arguments. Returns only if that fails. */
COLD static void begin_again(void) {
  enum { MOST = 1 << 23 }; /* bytes of arguments; Linux allows less */
  const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  char* const text = malloc(MOST);
  size_t length = 0, count = 0;
  if (file < 0 || text == NULL) return;
  for (ssize_t got; length < MOST && (got = read(file, text + length, MOST - length)) > 0;) length += (size_t)got;
  for (size_t i = 0; i < length; ++i) count += text[i] == '\0';
  char** const arguments = calloc(count + 1, sizeof *arguments);
  if (arguments == NULL) return;
  size_t at = 0;
  for (size_t i = 0; i < count; ++i, at += strlen(text + at) + 1) arguments[i] = text + at;
  execv("/proc/self/exe", arguments);
}

/* Returns 0 if the program uses another MPI and could not be begun again. */
COLD static int fits(void) {
  const char* const family = family_here();
  char name[512] = "";
  if (family == NULL || strcmp(family, FAMILY) == 0) return 1;
  name_here(name, sizeof name);
  say(family, name);
  if (leave_preload()) begin_again();
  return 0;
}

/* The n-th library that may be MPI's by its name. */
struct search {
  int n;
  char found[4096];
};

COLD static int nth(struct dl_phdr_info* library, size_t size, void* argument) {
  struct search* const search = argument;
  (void)size;
  const char* const name = library->dlpi_name;
  if (name == NULL || (strstr(name, "/libmpi") == NULL && strstr(name, "/liblam") == NULL) || search->n-- > 0) return 0;
  snprintf(search->found, sizeof search->found, "%s", library->dlpi_name);
  return 1;
}

/* An interpreter may load its MPI library late, and for one extension alone: python does. What we call of it is looked
 * up when it is first called, but only in libraries that are there for all; so it becomes one. */
COLD static void share_library(void) {
  for (int n = 0; dlsym(RTLD_DEFAULT, "PMPI_Init") == NULL; ++n) {
    struct search search = {n, ""};
    if (dl_iterate_phdr(nth, &search) == 0) return;
    void* const library = dlopen(search.found, RTLD_LAZY | RTLD_NOLOAD);
    void* const init = library != NULL ? dlsym(library, "PMPI_Init") : NULL;
    Dl_info where;
    if (init != NULL && dladdr(init, &where)) dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
  }
}

COLD int profiler_fits(void) {
  share_library();
  profiler_attach_fortran();
  return fits();
}

__attribute__((constructor)) static void loaded(void) {
  if (dlsym(RTLD_DEFAULT, "PMPI_Init") != NULL && fits()) profiler_attach_fortran();
}
