/* SPDX-License-Identifier: Apache-2.0
 *
 * What layers over an MPI library have in common (armci, tcgmsg): MPI begun and ended around them, a way for netpipe to
 * find the ranks, the option transport, and what really carries their transfers. C, compiled with the library's mpicc.
 */
#ifndef NETPIPE_KIT_OVER_MPI_H
#define NETPIPE_KIT_OVER_MPI_H

#include <dlfcn.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kit/libraries/mpi_beneath.h"
#include "kit/libraries/tcp_carried.h"
#include "netpipe/module.h"

enum { OM_AUTO, OM_SHM, OM_TCP };
enum { OM_FOUND_SHM, OM_FOUND_TCP, OM_FOUND_NETWORK };

#define OM_OPTION_TRANSPORT                                                                                  \
  {.name = "transport",                                                                                      \
   .type = NP_CHOICE,                                                                                        \
   .default_value = "auto",                                                                                  \
   .choices = "auto|shm|tcp",                                                                                \
   .unit = "",                                                                                               \
   .help = "what carries the transfers of the MPI library below: its choice, its own shared memory, or TCP", \
   .tunable = 1}

struct om_mpi {
  const np_context* context;
  struct library library;
  const struct mpi_beneath* family; /* NULL: of none known here */
  int rank, nranks;
  int begun, broken; /* broken: another rank may be missing, and MPI_Finalize would wait for it */
  MPI_Comm comm;     /* of what is not timed */
  int found, connections;
  int refused;        /* a variable could not be set */
  char settings[256]; /* NAME=VALUE NAME=VALUE that were put into the environment */
};

__attribute__((format(printf, 3, 4), cold, noinline)) static np_status om_fail(const np_context* context,
                                                                               np_status status, const char* format,
                                                                               ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(context->message, context->message_bytes, format, arguments);
  va_end(arguments);
  return status;
}

static inline __attribute__((cold)) np_status om_failed(struct om_mpi* m, int code, const char* call) {
  char words[MPI_MAX_ERROR_STRING + 1] = "";
  int length = 0;
  m->broken = 1;
  if (MPI_Error_string(code, words, &length) != MPI_SUCCESS) snprintf(words, sizeof words, "error %d", code);
  return om_fail(m->context, NP_FAILED, "%s of %s fails: %s", call, m->library.version, words);
}

/* ---------------------------------------------------------------------------------------------- settings */

/* Which library this is, by its words for itself: of the first of these families that knows them, "Open MPI 4.1.4" as
 * mpi@NAME has it; else the beginning of what it says. MPI need not run. */
static inline void om_identify(struct om_mpi* m, const struct mpi_beneath* served) {
  struct library* const l = &m->library;
  char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
  int length = 0;
  memset(l, 0, sizeof *l);
  MPI_Get_library_version(text, &length);
  while (served->identify != NULL && !served->identify(l, text)) ++served;
  m->family = served->identify == NULL ? NULL : served;
  if (m->family == NULL) snprintf(l->version, sizeof l->version, "%.*s", (int)strcspn(text, ",\n"), text);
  l->major = (int)strtol(l->version + strcspn(l->version, "0123456789"), NULL, 10);
}

/* "TITLE over Open MPI 4.1.4" */
static inline const char* om_version(const char* title, const struct mpi_beneath* served) {
  static char version[192];
  struct om_mpi m;
  om_identify(&m, served);
  snprintf(version, sizeof version, "%s over %s", title, m.library.version);
  return version;
}

static inline int om_set(struct om_mpi* m, const char* name, const char* value) {
  const size_t used = strlen(m->settings);
  snprintf(m->settings + used, sizeof m->settings - used, "%s%s=%s", used > 0 ? " " : "", name, value);
  if (setenv(name, value, 1) == 0) return 0;
  m->refused = 1;
  return -1;
}

static inline void om_put(void* to, const char* name, const char* variable, const char* value) {
  (void)variable; /* om_look sees what carries the transfers */
  om_set((struct om_mpi*)to, name, value);
}

/* What the library reads in MPI_Init. */
static inline np_status om_choose(struct om_mpi* m, int transport) {
  if (transport != OM_AUTO && m->family == NULL) {
    return om_fail(m->context, NP_USAGE, "transport: netpipe does not know how %s is told; leave it out",
                   m->library.version);
  }
  if (transport != OM_AUTO) m->family->carry(&m->library, transport == OM_SHM ? FOUND_SHM : FOUND_TCP, om_put, m);
  if (m->context->oversubscribed && m->family != NULL) m->family->yield(&m->library, 1, om_put, m);
  if (!m->refused) return NP_OK;
  return om_fail(m->context, NP_FAILED, "cannot set the environment of %s", m->library.version);
}

/* ---------------------------------------------------------------------------------------------- begin and end */

/* The library's plugins look for it among the global names, but a module is loaded with its names hidden. */
static inline void om_show_library(void) {
  Dl_info info;
  const union {
    int (*call)(int*, char***);
    void* data;
  } init = {.call = MPI_Init};
  if (dladdr(init.data, &info) != 0 && info.dli_fname != NULL) {
    dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
  }
}

/* Collective. MPI runs afterwards. served: the families of the libraries that this build serves. */
static inline np_status om_begin(struct om_mpi* m, const np_context* context, int transport,
                                 const struct mpi_beneath* served) {
  int already = 0;
  m->context = context;
  om_identify(m, served);
  const np_status status = om_choose(m, transport);
  if (status != NP_OK) return status;
  if (MPI_Initialized(&already) == MPI_SUCCESS && already) {
    return om_fail(context, NP_FAILED, "MPI already runs in this process; it can be started once, for one variant");
  }
  om_show_library();
  int given = 0, code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &given);
  if (code != MPI_SUCCESS) return om_failed(m, code, "MPI_Init_thread");
  m->begun = 1;
  code = MPI_Comm_dup(MPI_COMM_WORLD, &m->comm);
  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
  if (code == MPI_SUCCESS) code = MPI_Comm_rank(m->comm, &m->rank);
  if (code == MPI_SUCCESS) code = MPI_Comm_size(m->comm, &m->nranks);
  return code == MPI_SUCCESS ? NP_OK : om_failed(m, code, "MPI_Comm_dup");
}

/* Whether the calls that end the layer and MPI may be made: all ranks have to make them. */
static inline int om_may_end(struct om_mpi* m) {
  if (*m->context->abort != 0) m->broken = 1;
  return m->begun && !m->broken;
}

/* ---------------------------------------------------------------------------------------------- bootstrap */

/* Not timed, so it can check abort, and sleep. */
static inline np_status om_finish(struct om_mpi* m, MPI_Request* request) {
  int done = 0;
  for (int64_t looks = 0;; ++looks) {
    const int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return om_failed(m, code, "MPI_Test");
    if (done) return NP_OK;
    if (*m->context->abort != 0) {
      m->broken = 1;
      return om_fail(m->context, NP_ABORTED, "gave up while a message for set-up was in flight");
    }
    if (looks > 1000) nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  }
}

static inline np_status om_move(struct om_mpi* m, int sends, int peer, char* data, size_t bytes) {
  do {
    const int part = bytes > (1 << 20) ? 1 << 20 : (int)bytes;
    MPI_Request request;
    const int code = sends ? MPI_Isend(data, part, MPI_BYTE, peer, 1, m->comm, &request)
                           : MPI_Irecv(data, part, MPI_BYTE, peer, 1, m->comm, &request);
    if (code != MPI_SUCCESS) return om_failed(m, code, sends ? "MPI_Isend" : "MPI_Irecv");
    const np_status status = om_finish(m, &request);
    if (status != NP_OK) return status;
    data += part;
    bytes -= (size_t)part;
  } while (bytes > 0);
  return NP_OK;
}

static inline np_status om_send(void* state, int peer, const void* data, size_t bytes) {
  return om_move(state, 1, peer, (char*)(uintptr_t)data, bytes);
}
static inline np_status om_recv(void* state, int peer, void* data, size_t bytes) {
  return om_move(state, 0, peer, data, bytes);
}

static inline np_status om_bootstrap(struct om_mpi* m, np_bootstrap* bootstrap) {
  bootstrap->state = m;
  bootstrap->rank = m->rank;
  bootstrap->nranks = m->nranks;
  bootstrap->send = om_send;
  bootstrap->recv = om_recv;
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- what is found */

static inline const char* om_words(int found) {
  static const char* const words[] = {"shared memory", "TCP", "a network, not by TCP"};
  return words[found];
}

#define OM_LOOK_BYTES 4096
#define OM_LOOKS 16

/* Collective. Whether the rank before this one is on the same host. */
static inline int om_is_near(struct om_mpi* m, int right, int left) {
  char own[MPI_MAX_PROCESSOR_NAME + 1] = "", other[MPI_MAX_PROCESSOR_NAME + 1] = "";
  int length = 0;
  if (MPI_Get_processor_name(own, &length) != MPI_SUCCESS) return 0;
  const int code = MPI_Sendrecv(own, sizeof own, MPI_BYTE, right, 2, other, sizeof other, MPI_BYTE, left, 2, m->comm,
                                MPI_STATUS_IGNORE);
  return code == MPI_SUCCESS && strcmp(own, other) == 0;
}

/* transfer moves OM_LOOK_BYTES to the next rank, and all ranks call it; the first may connect. */
static inline np_status om_look(struct om_mpi* m, int transport, const char* asked,
                                np_status (*transfer)(np_endpoint* e, int right, int left), np_endpoint* e) {
  const int right = (m->rank + 1) % m->nranks, left = (m->rank + m->nranks - 1) % m->nranks;
  struct tc_counts* const counts = calloc(2, sizeof *counts);
  if (counts == NULL) return om_fail(m->context, NP_NO_MEMORY, "no memory to look at sockets");
  np_status status = transfer(e, right, left);
  tc_read(counts);
  for (int i = 0; i < OM_LOOKS && status == NP_OK; ++i) status = transfer(e, right, left);
  tc_read(counts + 1);
  const uint64_t all = tc_carried(counts, counts + 1, OM_LOOK_BYTES, &m->connections);
  free(counts);
  const int near = om_is_near(m, right, left);
  m->found = all >= OM_LOOK_BYTES * OM_LOOKS / 2 ? OM_FOUND_TCP : near ? OM_FOUND_SHM : OM_FOUND_NETWORK;
  const int want = transport == OM_TCP ? OM_FOUND_TCP : OM_FOUND_SHM;
  if (status == NP_OK && transport != OM_AUTO && m->found != want) {
    status = om_fail(m->context, NP_USAGE, "transport=%s was asked for, but the transfers of rank %d went through %s",
                     asked, m->rank, om_words(m->found));
  }
  return status;
}

/* It stands on the MPI library; windows: on its windows, and not on its messages. */
static inline void om_describe_below(const struct om_mpi* m, int windows, np_emit emit, void* to) {
  static const char* const libraries[] = {"", "ucx ", "libfabric "};
  static const char* const carriers[] = {"shm", "tcp", ""};
  static const int transports[] = {FOUND_SHM, FOUND_TCP, FOUND_NETWORK};
  char chain[40];
  const int through =
      m->family == NULL ? THROUGH_ITS_OWN : m->family->through(&m->library, transports[m->found], windows);
  snprintf(chain, sizeof chain, "%s%s", libraries[through], carriers[m->found]);
  np_emit_text(emit, to, "below", "mpi");
  np_emit_text(emit, to, "below_version", m->library.version);
  if (chain[0] != '\0') np_emit_text(emit, to, "below_stands_on", chain);
}

static inline void om_describe(const struct om_mpi* m, int windows, np_emit emit, void* to) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  om_describe_below(m, windows, emit, to);
  text[strcspn(text, "\n,")] = '\0';
  for (char* c = text; *c != '\0'; ++c) {
    if (*c == '\t') *c = ' ';
  }
  np_emit_text(emit, to, "library", text);
  np_emit_text(emit, to, "transport_found", om_words(m->found));
  if (m->found == OM_FOUND_TCP) np_emit_integer(emit, to, "connections", m->connections, "");
  if (m->settings[0] != '\0') np_emit_text(emit, to, "environment", m->settings);
}

#endif
