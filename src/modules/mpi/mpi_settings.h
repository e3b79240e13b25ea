/* SPDX-License-Identifier: Apache-2.0
 *
 * From options to the environment that the library reads in MPI_Init. Each library has its own words for the same
 * thing; they are here, one function a family, and nowhere else.
 */
#ifndef NETPIPE_MPI_SETTINGS_H
#define NETPIPE_MPI_SETTINGS_H

#include <stdarg.h>

#include "mpi_options.h"

#define SETTINGS 48

/* One environment variable. variable, where not NULL: the control variable of MPI_T that must know it afterwards. */
struct setting {
  char name[80];
  char value[256];
  const char* variable;
};

/* All that open() needs to say to the library, and how to say what does not fit. */
struct settings {
  const np_context* context;
  const struct library* library;
  const struct option_table* table;
  int count;
  struct setting all[SETTINGS];
};

__attribute__((format(printf, 3, 4))) static inline np_status fail(const np_context* context, np_status status,
                                                                   const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(context->message, context->message_bytes, format, arguments);
  va_end(arguments);
  return status;
}

/* An option that this library has not is at its default. */
static inline int64_t number_of(const struct settings* s, int option) {
  const int place = s->table->place[option];
  if (place >= 0) return s->context->options[place].number;
  return option == PARTITIONS ? 1 : 0;
}
static inline const char* text_of(const struct settings* s, int option) {
  const int place = s->table->place[option];
  return place < 0 ? "" : s->context->options[place].text;
}
static inline int is(const struct settings* s, int option, const char* text) {
  return strcmp(text_of(s, option), text) == 0;
}

/* name is OMPI_MCA_x or the like; variable is NULL, or a part of name (its end), which is what MPI_T calls it. */
__attribute__((format(printf, 4, 5))) static inline void put_checked(struct settings* s, const char* prefix,
                                                                     const char* name, const char* format, ...) {
  struct setting* one = &s->all[s->count < SETTINGS ? s->count++ : SETTINGS - 1];
  snprintf(one->name, sizeof one->name, "%s%s", prefix, name);
  one->variable = one->name + strlen(prefix);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(one->value, sizeof one->value, format, arguments);
  va_end(arguments);
}
__attribute__((format(printf, 3, 4))) static inline void put(struct settings* s, const char* name, const char* format,
                                                             ...) {
  struct setting* one = &s->all[s->count < SETTINGS ? s->count++ : SETTINGS - 1];
  snprintf(one->name, sizeof one->name, "%s", name);
  one->variable = NULL;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(one->value, sizeof one->value, format, arguments);
  va_end(arguments);
}

static inline np_status nothing_for(const struct settings* s, int option, const char* why) {
  const char* transport = s->table->place[TRANSPORT] >= 0 ? text_of(s, TRANSPORT) : "auto";
  return fail(s->context, NP_USAGE, "%s has no setting for %s=%s with transport=%s: %s", s->library->version,
              s->table->all[s->table->place[option]].name, text_of(s, option), transport, why);
}

/* 1: a rank that waits has to yield, 0: it must not, -1: as the library thinks. */
static inline int yielding(const struct settings* s) {
  if (number_of(s, YIELD) == YIELD_NO) return 0;
  return number_of(s, YIELD) == YIELD_YES || s->context->oversubscribed != 0 ? 1 : -1;
}

/* UCX is below Open MPI and MPICH alike. */
static inline void set_ucx(struct settings* s) {
  const long long eager = number_of(s, EAGER), sndbuf = number_of(s, SNDBUF), rcvbuf = number_of(s, RCVBUF);
  if (eager > 0) put(s, "UCX_RNDV_THRESH", "%lld", eager + 1); /* the smallest message that asks first */
  if (sndbuf > 0) put(s, "UCX_TCP_SNDBUF", "%lld", sndbuf);
  if (rcvbuf > 0) put(s, "UCX_TCP_RCVBUF", "%lld", rcvbuf);
}

/* ---------------------------------------------------------------------------------------------- Open MPI */

#define MCA "OMPI_MCA_"

/* Its shared memory has changed its name. */
static inline const char* shm_component(const struct settings* s) { return s->library->major >= 5 ? "sm" : "vader"; }

/* A parameter of the component that messages go through, which must know it then, or of any that the library may
 * choose. transport: it belongs to that one alone, NULL: to either. */
static inline void set_btl(struct settings* s, const char* transport, const char* parameter, long long bytes) {
  const char* const components[] = {shm_component(s), "tcp"};
  const char* const transports[] = {"shm", "tcp"};
  for (int i = 0; i < 2; ++i) {
    char name[80];
    if (transport != NULL && strcmp(transport, transports[i]) != 0) continue;
    snprintf(name, sizeof name, "btl_%s_%s", components[i], parameter);
    if (is(s, TRANSPORT, transports[i])) put_checked(s, MCA, name, "%lld", bytes);
    snprintf(name, sizeof name, MCA "btl_%s_%s", components[i], parameter);
    if (is(s, TRANSPORT, "auto")) put(s, name, "%lld", bytes);
  }
}

static inline np_status set_openmpi(struct settings* s) {
  const long long eager = number_of(s, EAGER), rndv = number_of(s, RNDV);
  const long long sndbuf = number_of(s, SNDBUF), rcvbuf = number_of(s, RCVBUF);
  const int automatic = is(s, TRANSPORT, "auto"), shm = is(s, TRANSPORT, "shm"), tcp = is(s, TRANSPORT, "tcp");
  const int ucx = strncmp(text_of(s, TRANSPORT), "ucx", 3) == 0, ofi = strncmp(text_of(s, TRANSPORT), "ofi", 3) == 0;
  if (shm || tcp) {
    put_checked(s, MCA, "pml", "ob1");
    put_checked(s, MCA, "btl", "self,%s", shm ? shm_component(s) : "tcp");
  } else if (ucx) {
    put_checked(s, MCA, "pml", "ucx");
    /* without both it refuses what is no InfiniBand: "cannot be selected" */
    put(s, MCA "opal_common_ucx_tls", "any");
    put(s, MCA "opal_common_ucx_devices", "any");
    if (is(s, TRANSPORT, "ucx_tcp")) put(s, "UCX_TLS", "self,tcp");
    if (is(s, TRANSPORT, "ucx_shm"))
      put(s, "UCX_TLS", "self,%s", is(s, SINGLE_COPY, "none") ? "posix,sysv" : "posix,sysv,cma");
  } else if (ofi) {
    put_checked(s, MCA, "pml", "cm");
    put_checked(s, MCA, "mtl", "ofi");
    if (is(s, TRANSPORT, "ofi_tcp")) put(s, MCA "mtl_ofi_provider_include", "tcp;ofi_rxm");
    /* It would leave tcp out, and then nothing is left on a machine without a fabric. */
    if (is(s, TRANSPORT, "ofi")) put(s, MCA "mtl_ofi_provider_exclude", "shm,sockets,udp,rstream");
  }
  /* Its windows have components of their own, which do not ask what messages go through: on one host they take shared
   * memory wherever they can, or UCX. */
  if (ucx) put_checked(s, MCA, "osc", "ucx");
  if (shm) put_checked(s, MCA, "osc", "^ucx");
  if (tcp || is(s, TRANSPORT, "ofi_tcp")) put_checked(s, MCA, "osc", "^sm,ucx");
  if (eager > 0) {
    set_btl(s, NULL, "eager_limit", eager);
    if (ofi) put(s, "FI_OFI_RXM_BUFFER_SIZE", "%lld", eager);
  }
  if (rndv > 0) {
    if (ucx || ofi) return nothing_for(s, RNDV, "it decides that itself");
    set_btl(s, NULL, "rndv_eager_limit", rndv);
  }
  for (int option = SNDBUF; option <= RCVBUF; ++option) {
    const long long bytes = option == SNDBUF ? sndbuf : rcvbuf;
    if (bytes == 0) continue;
    if (shm || is(s, TRANSPORT, "ucx_shm")) return nothing_for(s, option, "there is no socket");
    if (ofi) return nothing_for(s, option, "libfabric's tcp provider leaves it to the kernel");
    set_btl(s, "tcp", option == SNDBUF ? "sndbuf" : "rcvbuf", bytes);
  }
  if (ucx || automatic) set_ucx(s);
  if (!is(s, SINGLE_COPY, "auto")) {
    if (tcp || ofi || is(s, TRANSPORT, "ucx_tcp")) return nothing_for(s, SINGLE_COPY, "no memory is shared");
    if (ucx && !is(s, TRANSPORT, "ucx_shm")) return nothing_for(s, SINGLE_COPY, "choose transport=ucx_shm");
    if (!ucx && s->library->major >= 5) {
      put(s, MCA "smsc", "%s", is(s, SINGLE_COPY, "none") ? "^cma,knem,xpmem" : "cma");
    } else if (!ucx) {
      put(s, MCA "btl_vader_single_copy_mechanism", "%s", text_of(s, SINGLE_COPY));
    }
  }
  if (yielding(s) >= 0) put_checked(s, MCA, "mpi_yield_when_idle", "%d", yielding(s));
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- MPICH */

#define CVAR "MPIR_CVAR_"

/* Which of its two network modules a transport means: 'u', 'o', or 0 for none. */
static inline char netmod_of(const struct settings* s) {
  if (strncmp(text_of(s, TRANSPORT), "ucx", 3) == 0) return 'u';
  if (strncmp(text_of(s, TRANSPORT), "ofi", 3) == 0) return 'o';
  if (is(s, TRANSPORT, "tcp")) return s->library->ofi ? 'o' : 'u';
  return 0;
}

static inline np_status set_mpich(struct settings* s) {
  const int automatic = is(s, TRANSPORT, "auto"), shm = is(s, TRANSPORT, "shm"), tcp = is(s, TRANSPORT, "tcp");
  const char netmod = netmod_of(s);
  const long long eager = number_of(s, EAGER);
  if ((netmod == 'u' && !s->library->ucx) || (netmod == 'o' && !s->library->ofi)) {
    return fail(s->context, NP_USAGE, "transport=%s: this %s was built without %s and would silently use %s",
                text_of(s, TRANSPORT), s->library->version, netmod == 'u' ? "UCX" : "libfabric",
                netmod == 'u' ? "libfabric" : "UCX");
  }
  if (shm) put_checked(s, "", CVAR "NOLOCAL", "0");
  if (netmod != 0) {
    put_checked(s, "", CVAR "NOLOCAL", "1"); /* else ranks of one host talk through its own shared memory */
    /* It reports this one as empty whatever it is, so it cannot be checked. */
    if (s->library->ucx && s->library->ofi) put(s, CVAR "CH4_NETMOD", "%s", netmod == 'u' ? "ucx" : "ofi");
    if (netmod == 'u' && (tcp || is(s, TRANSPORT, "ucx_tcp"))) put(s, "UCX_TLS", "tcp,self");
    if (is(s, TRANSPORT, "ucx_shm"))
      put(s, "UCX_TLS", "self,%s", is(s, SINGLE_COPY, "none") ? "posix,sysv" : "posix,sysv,cma");
    if (netmod == 'o' && (tcp || is(s, TRANSPORT, "ofi_tcp"))) put(s, "FI_PROVIDER", "tcp");
  }
  if (eager > 0) {
    /* In shared memory: the largest message that goes through cells and is not fetched by one copy. */
    if (shm && s->library->major < 5) return nothing_for(s, EAGER, "its shared memory cuts every message into cells");
    if (shm || (automatic && s->library->major >= 5)) {
      put_checked(s, "", CVAR "CH4_IPC_CMA_P2P_THRESHOLD", "%lld", eager + 1);
    }
    if (netmod == 'o' || (automatic && s->library->ofi)) {
      /* 5 has given it the better name, and the meaning that 4 only wanted it to have */
      put_checked(s, "", s->library->major >= 5 ? CVAR "CH4_OFI_EAGER_THRESHOLD" : CVAR "CH4_OFI_EAGER_MAX_MSG_SIZE",
                  "%lld", eager);
      put(s, "FI_OFI_RXM_BUFFER_SIZE", "%lld", eager);
    }
  }
  if (netmod == 'u' || (automatic && s->library->ucx)) set_ucx(s);
  for (int option = SNDBUF; option <= RCVBUF; ++option) {
    if (number_of(s, option) == 0) continue;
    if (shm || is(s, TRANSPORT, "ucx_shm")) return nothing_for(s, option, "there is no socket");
    if (netmod == 'o') return nothing_for(s, option, "libfabric's tcp provider leaves it to the kernel");
  }
  if (!is(s, SINGLE_COPY, "auto") && !is(s, TRANSPORT, "ucx_shm")) {
    if (netmod != 0) return nothing_for(s, SINGLE_COPY, "choose transport=shm or ucx_shm");
    put_checked(s, "", CVAR "CH4_CMA_ENABLE", "%d", is(s, SINGLE_COPY, "cma"));
  }
  /* Without: after a thousand looks. 0 is never. */
  if (yielding(s) >= 0) put_checked(s, "", CVAR "POLLS_BEFORE_YIELD", "%d", yielding(s));
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- Intel MPI */

static inline np_status set_intel(struct settings* s) {
  const int shm = is(s, TRANSPORT, "shm"), tcp = is(s, TRANSPORT, "tcp"), ofi = is(s, TRANSPORT, "ofi");
  const long long eager = number_of(s, EAGER);
  if (shm) put(s, "I_MPI_FABRICS", "shm");
  if (tcp || ofi) put(s, "I_MPI_FABRICS", "ofi");
  if (tcp) put(s, "FI_PROVIDER", "tcp");
  if (eager > 0) {
    if (!tcp && !ofi) put(s, "I_MPI_SHM_EAGER_THRESHOLD", "%lld", eager);
    if (!shm) put(s, "FI_OFI_RXM_BUFFER_SIZE", "%lld", eager);
  }
  if (!is(s, SINGLE_COPY, "auto")) {
    if (tcp || ofi) return nothing_for(s, SINGLE_COPY, "choose transport=shm");
    put(s, "I_MPI_SHM_CMA", "%d", is(s, SINGLE_COPY, "cma"));
  }
  if (yielding(s) >= 0) put(s, "I_MPI_THREAD_YIELD", "%d", yielding(s) == 1 ? 2 : 0); /* 2: sched_yield */
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- LAM */

#define SSI "LAM_MPI_SSI_"

static inline np_status set_lam(struct settings* s) {
  const char* rpi = is(s, RPI, "auto") ? "" : text_of(s, RPI);
  const char* const meant = is(s, TRANSPORT, "shm") ? "usysv" : is(s, TRANSPORT, "tcp") ? "tcp" : "";
  const long long eager = number_of(s, EAGER), sndbuf = number_of(s, SNDBUF);
  if (*meant != '\0' && *rpi != '\0') {
    return fail(s->context, NP_USAGE, "transport=%s and rpi=%s say the same twice: give one of them",
                text_of(s, TRANSPORT), rpi);
  }
  if (*rpi == '\0') rpi = meant;
  if (*rpi != '\0') put(s, SSI "rpi", "%s", rpi);
  if (eager > 0) {
    if (strcmp(rpi, "lamd") == 0) return nothing_for(s, EAGER, "the daemons take every message in parts");
    if (strcmp(rpi, "tcp") == 0 || *rpi == '\0') put(s, SSI "rpi_tcp_short", "%lld", eager);
    if (strcmp(rpi, "usysv") == 0 || *rpi == '\0') put(s, SSI "rpi_usysv_short", "%lld", eager);
    if (strcmp(rpi, "sysv") == 0 || *rpi == '\0') put(s, SSI "rpi_sysv_short", "%lld", eager);
  }
  if (sndbuf > 0) {
    if (*rpi != '\0' && strcmp(rpi, "tcp") != 0) return nothing_for(s, SNDBUF, "only rpi tcp has sockets");
    put(s, SSI "rpi_tcp_sockbuf", "%lld", sndbuf);
  }
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- all together */

/* env: NAME=VALUE;NAME=VALUE, where | stands for a comma, which no option's text can hold. It comes last and so wins.
 */
static inline np_status set_env(struct settings* s) {
  for (const char* at = text_of(s, ENV); *at != '\0';) {
    const size_t length = strcspn(at, ";");
    const char* const equals = memchr(at, '=', length);
    struct setting* one = &s->all[s->count];
    if (length == 0) {
      ++at;
      continue;
    }
    const size_t name = equals == NULL ? 0 : (size_t)(equals - at);
    if (name == 0 || name >= sizeof one->name || length - name - 1 >= sizeof one->value) {
      return fail(s->context, NP_USAGE, "env: '%.*s' is not NAME=VALUE, or too long", (int)length, at);
    }
    if (s->count == SETTINGS) return fail(s->context, NP_USAGE, "env: more than %d variables", SETTINGS);
    memcpy(one->name, at, name);
    one->name[name] = '\0';
    memcpy(one->value, equals + 1, length - name - 1);
    one->value[length - name - 1] = '\0';
    for (char* c = one->value; *c != '\0'; ++c) {
      if (*c == '|') *c = ',';
    }
    one->variable = NULL;
    ++s->count;
    at += length;
  }
  return NP_OK;
}

static inline np_status find_settings(struct settings* s) {
  np_status status = NP_OK;
  switch (s->library->family) {
    case OF_OPENMPI: status = set_openmpi(s); break;
    case OF_MPICH: status = set_mpich(s); break;
    case OF_INTEL: status = set_intel(s); break;
    case OF_LAM: status = set_lam(s); break;
    default: break;
  }
  return status == NP_OK ? set_env(s) : status;
}

static inline np_status export_settings(const struct settings* s) {
  for (int i = 0; i < s->count; ++i) {
    if (setenv(s->all[i].name, s->all[i].value, 1) != 0) {
      return fail(s->context, NP_FAILED, "cannot set %s in the environment", s->all[i].name);
    }
  }
  return NP_OK;
}

/* ---------------------------------------------------------------------------------------------- were they heard? */

#if HAVE_TOOLS
/* The value of a control variable as text. 0: there is none of that name, or no way to show it. */
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

/* A library that does not know a variable says nothing: the measurement would be of something else. After MPI_Init. */
static inline np_status check_settings(const struct settings* s) {
  int level = 0;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &level) != MPI_SUCCESS) return NP_OK; /* nothing can be asked */
  np_status status = NP_OK;
  for (int i = 0; i < s->count && status == NP_OK; ++i) {
    const struct setting* const one = &s->all[i];
    char text[1024];
    if (one->variable == NULL) continue;
    if (!read_variable(one->variable, text, sizeof text)) {
      status = fail(s->context, NP_USAGE, "%s knows no setting %s: it ignores %s=%s", s->library->version,
                    one->variable, one->name, one->value);
    } else if (strcmp(text, one->value) != 0) {
      status = fail(s->context, NP_USAGE, "%s took %s for %s where %s was set", s->library->version, text,
                    one->variable, one->value);
    }
  }
  MPI_T_finalize();
  return status;
}
#else
static inline np_status check_settings(const struct settings* s) {
  (void)s;
  return NP_OK;
}
#endif

#endif
