/* SPDX-License-Identifier: Apache-2.0
 *
 * From options to the environment that the library reads in shmem_init, and whether it understood: where the symmetric
 * heap lies, whether peers are reached by pointers, and which sockets carried some puts.
 */
#ifndef NETPIPE_SHMEM_SETTINGS_H
#define NETPIPE_SHMEM_SETTINGS_H

#include <unistd.h>

#include "kit/libraries/library_beneath.h"
#include "kit/libraries/tcp_carried.h"
#include "shmem_endpoint.h"

#define MCA "OMPI_MCA_"
#define SETTINGS (sizeof((np_endpoint*)0)->settings / sizeof(struct setting))

enum { FOUND_NOTHING, FOUND_SHM, FOUND_TCP, FOUND_OTHER };

__attribute__((format(printf, 3, 4))) static np_status set(np_endpoint* e, const char* name, const char* format, ...) {
  if ((size_t)e->nsettings == SETTINGS) {
    return fail(e->context, NP_USAGE, "env: more than %zu variables together with those of other options", SETTINGS);
  }
  struct setting* const one = &e->settings[e->nsettings++];
  snprintf(one->name, sizeof one->name, "%s", name);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(one->value, sizeof one->value, format, arguments);
  va_end(arguments);
  return NP_OK;
}

/* NAME=VALUE;NAME=VALUE, where | stands for a comma, which no option's text can hold. */
static np_status set_env(np_endpoint* e) {
  for (const char* at = text_of(e->context, OPTION_ENV); *at != '\0';) {
    const size_t length = strcspn(at, ";");
    const char* const equals = memchr(at, '=', length);
    const size_t name = equals == NULL ? 0 : (size_t)(equals - at);
    if (length > 0 &&
        (name == 0 || name >= sizeof e->settings[0].name || length - name - 1 >= sizeof e->settings[0].value)) {
      return fail(e->context, NP_USAGE, "env: '%.*s' is not NAME=VALUE, or is too long", (int)length, at);
    }
    if (length > 0) {
      char key[sizeof e->settings[0].name];
      snprintf(key, sizeof key, "%.*s", (int)name, at);
      PM_TRY(set(e, key, "%.*s", (int)(length - name - 1), equals + 1));
      for (char* c = e->settings[e->nsettings - 1].value; *c != '\0'; ++c) {
        if (*c == '|') *c = ',';
      }
    }
    at += length + (at[length] == ';');
  }
  return NP_OK;
}

/* transport and scoll leave out what is theirs to choose; collectives of its MPI would take shared memory whatever UCX
 * is told. */
static np_status find_settings(np_endpoint* e) {
  static const char* const tls[] = {NULL, "posix,sysv,self", "posix,self", "sysv,self", "tcp,self"};
  const int64_t transport = number_of(e->context, OPTION_TRANSPORT), scoll = number_of(e->context, OPTION_SCOLL);
  const int64_t heap = number_of(e->context, OPTION_HEAP);
  if (transport != TRANSPORT_AUTO) {
    PM_TRY(set(e, "UCX_TLS", "%s", tls[transport]));
    PM_TRY(set(e, MCA "pml", "ob1"));
    PM_TRY(set(e, MCA "btl", "self,%s", transport == TRANSPORT_TCP ? "tcp" : "vader"));
  }
  if (scoll != SCOLL_AUTO) PM_TRY(set(e, MCA "scoll", "%s", scoll == SCOLL_MPI ? "mpi,basic" : "basic"));
  if (e->context->oversubscribed) PM_TRY(set(e, MCA "mpi_yield_when_idle", "1"));
  /* Forty of the largest messages, and what cold buffers need beyond the caches. POSIX memory costs as soon as it is
   * made, any other only when it is touched. */
  const long cache = transport == TRANSPORT_POSIX ? 0 : sysconf(_SC_LEVEL3_CACHE_SIZE);
  const uint64_t needed = (UINT64_C(128) << 20) + 40 * e->context->max_bytes + (cache > 0 ? 8 * (uint64_t)cache : 0);
  if (heap > 0 || getenv("SHMEM_SYMMETRIC_HEAP_SIZE") == NULL) {
    PM_TRY(set(e, "SHMEM_SYMMETRIC_HEAP_SIZE", "%llu", (unsigned long long)(heap > 0 ? (uint64_t)heap : needed)));
  }
  return set_env(e);
}

static np_status export_settings(const np_endpoint* e) {
  for (int i = 0; i < e->nsettings; ++i) {
    if (setenv(e->settings[i].name, e->settings[i].value, 1) != 0) {
      return fail(e->context, NP_FAILED, "cannot set %s in the environment", e->settings[i].name);
    }
  }
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- what is found */

#define LOOK_BYTES 2048
#define LOOKS 16

/* "/dev/shm/ucx_shm_posix_1" or "/SYSV00000000"; "" for memory of this process alone. */
static void find_mapping(const void* memory, char* name, size_t bytes) {
  FILE* const file = fopen("/proc/self/maps", "r");
  char line[1024];
  name[0] = '\0';
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    char rights[8] = "", path[512] = "", *at = line;
    const unsigned long long begin = strtoull(at, &at, 16), end = *at == '-' ? strtoull(at + 1, &at, 16) : begin;
    if (sscanf(at, " %7s %*s %*s %*s %511s", rights, path) < 1) continue;
    if ((uintptr_t)memory < begin || (uintptr_t)memory >= end || rights[3] != 's') continue;
    snprintf(name, bytes, "%.100s", path);
  }
  if (file != NULL) fclose(file);
}

/* Collective. Puts some bytes to the next rank and looks at what carried them. */
static np_status look_around(np_endpoint* e) {
  struct tc_counts* const before = calloc(2, sizeof *before);
  char* const room = e->small;
  if (before == NULL) return fail(e->context, NP_NO_MEMORY, "no memory to look at sockets");
  const int right = (e->rank + 1) % e->nranks;
  find_mapping(room, e->heap_memory, sizeof e->heap_memory);
  shmem_putmem(room, room + LOOK_BYTES, LOOK_BYTES, right); /* the first one may connect */
  shmem_quiet();
  tc_read(before);
  for (int i = 0; i < LOOKS; ++i) {
    shmem_putmem(room, room + LOOK_BYTES, LOOK_BYTES, right);
    shmem_quiet();
  }
  tc_read(before + 1);
  const uint64_t all = tc_carried(before, before + 1, LOOK_BYTES, &e->connections);
  free(before);
  const int by_pointer = shmem_ptr(room, right) != NULL;
  e->transport_found = all >= LOOK_BYTES * LOOKS / 2 ? FOUND_TCP : by_pointer ? FOUND_SHM : FOUND_OTHER;
  shmem_barrier_all();
  return NP_OK;
}

static np_status check_found(const np_endpoint* e) {
  const np_context* const c = e->context;
  const int64_t transport = number_of(c, OPTION_TRANSPORT);
  const char* const asked = text_of(c, OPTION_TRANSPORT);
  const char* const went = e->transport_found == FOUND_TCP   ? "through TCP"
                           : e->transport_found == FOUND_SHM ? "through shared memory"
                                                             : "neither through TCP nor through shared memory";
  const int want = transport == TRANSPORT_TCP ? FOUND_TCP : FOUND_SHM;
  if (transport == TRANSPORT_AUTO || e->nranks < 2) return NP_OK;
  if (e->transport_found != want) {
    return fail(c, NP_USAGE, "transport=%s was asked for, but the puts of rank %d went %s", asked, e->rank, went);
  }
  const int posix = strncmp(e->heap_memory, "/dev/shm/", 9) == 0, sysv = strncmp(e->heap_memory, "/SYSV", 5) == 0;
  if ((transport == TRANSPORT_POSIX && !posix) || (transport == TRANSPORT_SYSV && !sysv)) {
    return fail(c, NP_USAGE, "transport=%s was asked for, but the symmetric heap is in %s", asked, e->heap_memory);
  }
  return NP_OK;
}

/* The OpenSHMEM of Open MPI has a component for puts, gets and atomics (spml), which it tells when it has started. */
static int puts_through_ucx(void) {
  const union {
    void (*call)(void);
    void* data;
  } init = {.call = shmem_init};
  return is_component(symbol_beside(init.data, "mca_spml_base_selected_component"), "oshmem", "spml", "ucx");
}

/* The module that it stands on, and, where that is a library, which one and what that one stands on here. */
static void describe_below(const np_endpoint* e, np_emit emit, void* to) {
  static const char* const carriers[] = {NULL, "shm", "tcp", NULL};
  const char* const carrier = carriers[e->transport_found];
  char version[80] = "";
  if (e->transport_found == FOUND_NOTHING || !puts_through_ucx()) {
    if (carrier != NULL) np_emit_text(emit, to, "below", carrier);
    return;
  }
  np_emit_text(emit, to, "below", "ucx");
  if (carrier != NULL) np_emit_text(emit, to, "below_stands_on", carrier);
  tell_version_beneath(THROUGH_UCX, version, sizeof version);
  if (*version != '\0') np_emit_text(emit, to, "below_version", version);
}

static void describe_found(const np_endpoint* e, np_emit emit, void* to) {
  static const char* const words[] = {"nothing: there is only one rank", "shared memory", "TCP", "something else"};
  np_emit_text(emit, to, "transport_found", words[e->transport_found]);
  describe_below(e, emit, to);
  if (e->transport_found == FOUND_TCP) np_emit_integer(emit, to, "connections", e->connections, "");
  if (e->heap_memory[0] != '\0') np_emit_text(emit, to, "heap_memory", e->heap_memory);
  char all[2048] = "";
  size_t used = 0;
  for (int i = 0; i < e->nsettings && used < sizeof all; ++i) {
    used += (size_t)snprintf(all + used, sizeof all - used, "%s%s=%s", used > 0 ? " " : "", e->settings[i].name,
                             e->settings[i].value);
  }
  np_emit_text(emit, to, "environment", all);
}

#endif
