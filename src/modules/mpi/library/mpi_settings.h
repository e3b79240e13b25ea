/* SPDX-License-Identifier: Apache-2.0
 *
 * From options to the environment that the library reads in MPI_Init. The family knows the library's words for them;
 * here is what it says them with, and the check that the library understood.
 */
#ifndef NETPIPE_MPI_SETTINGS_H
#define NETPIPE_MPI_SETTINGS_H

#include "mpi_options.h"

#define SETTINGS 48

/* One environment variable. variable, unless NULL: the control variable of MPI_T that must know it afterwards. */
struct setting {
  char name[80];
  char value[256];
  const char* variable;
};

/* What open() has to tell the library, and where to say what does not fit. */
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

/* Of an option that this library does not have: 0 and "". */
static inline int64_t number_of(const struct settings* s, const char* option) {
  const int place = place_of_option(s->table, option);
  return place < 0 ? 0 : s->context->options[place].number;
}
static inline const char* text_of(const struct settings* s, const char* option) {
  const int place = place_of_option(s->table, option);
  return place < 0 ? "" : s->context->options[place].text;
}
/* Whether the value of this option is one of "a|b|c". */
static inline int is(const struct settings* s, const char* option, const char* values) {
  const char* const text = text_of(s, option);
  const size_t length = strlen(text);
  for (const char* at = values; length > 0; ++at) {
    const size_t word = strcspn(at, "|");
    if (word == length && strncmp(at, text, length) == 0) return 1;
    at += word;
    if (*at == '\0') break;
  }
  return 0;
}
static inline int is_default(const struct settings* s, int place) {
  const np_option* const option = &s->table->all[place];
  const np_value* const value = &s->context->options[place];
  if (option->type == NP_INT || option->type == NP_SIZE) {
    return value->number == strtoll(option->default_value, NULL, 10);
  }
  return strcmp(value->text, option->default_value) == 0;
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

/* A put_variable (kit/libraries/mpi_beneath.h) into settings. */
static inline void put_known(void* to, const char* name, const char* variable, const char* value) {
  struct settings* const s = (struct settings*)to;
  const size_t before = variable == NULL ? 0 : strlen(name) - strlen(variable);
  if (variable == NULL) return put(s, name, "%s", value);
  char prefix[sizeof s->all->name];
  snprintf(prefix, sizeof prefix, "%.*s", (int)before, name);
  put_checked(s, prefix, variable, "%s", value);
}

/* Only where the library can be driven without netpipe's plan is this the first to refuse. */
static inline np_status check_refusals(const struct settings* s, const struct refusal* one) {
  for (; one != NULL && one->option != NULL; ++one) {
    const int place = place_of_option(s->table, one->option);
    if (place < 0 || is_default(s, place)) continue;
    if (one->values != NULL && !is(s, one->option, one->values)) continue;
    if (one->with != NULL && !is(s, one->with, one->with_values)) continue;
    if (one->applies != NULL && !one->applies(s->library)) continue;
    const int beside = one->with != NULL;
    return fail(s->context, NP_USAGE, "%s cannot take %s=%s%s%s%s%s: %s", s->library->version, one->option,
                text_of(s, one->option), beside ? " with " : "", beside ? one->with : "", beside ? "=" : "",
                beside ? text_of(s, one->with) : "", one->why);
  }
  return NP_OK;
}

/* 1: a waiting rank has to yield, 0: it must not, -1: the library decides. */
static inline int yielding(const struct settings* s) {
  if (number_of(s, "yield") == YIELD_NO) return 0;
  return number_of(s, "yield") == YIELD_YES || s->context->oversubscribed != 0 ? 1 : -1;
}

/* UCX, whichever library stands on it. */
static inline void set_ucx(struct settings* s) {
  const long long eager = number_of(s, "eager"), sndbuf = number_of(s, "sndbuf"), rcvbuf = number_of(s, "rcvbuf");
  if (eager > 0) put(s, "UCX_RNDV_THRESH", "%lld", eager + 1); /* the smallest message that asks first */
  if (sndbuf > 0) put(s, "UCX_TCP_SNDBUF", "%lld", sndbuf);
  if (rcvbuf > 0) put(s, "UCX_TCP_RCVBUF", "%lld", rcvbuf);
}
static inline void set_ucx_shm(struct settings* s) {
  put(s, "UCX_TLS", "self,%s", is(s, "single_copy", "none") ? "posix,sysv" : "posix,sysv,cma");
}

/* ---------------------------------------------------------------------------------------------- from options to
 * variables */

/* env: NAME=VALUE;NAME=VALUE, where | stands for a comma, which no option's text can hold, and ! for a semicolon, as
 * between rules of Intel MPI. It is last, so it wins. */
static inline np_status set_env(struct settings* s) {
  for (const char* at = text_of(s, "env"); *at != '\0';) {
    const size_t length = strcspn(at, ";");
    const char* const equals = memchr(at, '=', length);
    struct setting* one = &s->all[s->count];
    if (length == 0) {
      ++at;
      continue;
    }
    const size_t name = equals == NULL ? 0 : (size_t)(equals - at);
    if (name == 0 || name >= sizeof one->name || length - name - 1 >= sizeof one->value) {
      return fail(s->context, NP_USAGE, "env: '%.*s' is not NAME=VALUE, or is too long", (int)length, at);
    }
    if (s->count == SETTINGS) return fail(s->context, NP_USAGE, "env: more than %d variables", SETTINGS);
    memcpy(one->name, at, name);
    one->name[name] = '\0';
    memcpy(one->value, equals + 1, length - name - 1);
    one->value[length - name - 1] = '\0';
    for (char* c = one->value; *c != '\0'; ++c) {
      if (*c == '|') *c = ',';
      if (*c == '!') *c = ';';
    }
    one->variable = NULL;
    ++s->count;
    at += length;
  }
  return NP_OK;
}

/* Memory of a device needs transports of its own wherever UCX was limited to some. */
static inline void let_ucx_reach_devices(struct settings* s) {
  for (int i = 0; i < s->count; ++i) {
    struct setting* const one = &s->all[i];
    const size_t length = strlen(one->value);
    if (strcmp(one->name, "UCX_TLS") == 0) snprintf(one->value + length, sizeof one->value - length, ",cuda");
  }
}

static inline np_status find_settings(struct settings* s) {
  const struct family* const family = s->library->family;
  np_status status = check_refusals(s, common_refusals);
  if (status == NP_OK && family != NULL) status = check_refusals(s, family->refusals);
  if (status == NP_OK && family != NULL && family->set != NULL) status = family->set(s);
  if (is(s, "memory", "cuda")) let_ucx_reach_devices(s);
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

/* ---------------------------------------------------------------------------------------------- did the library
 * understand? */

#if HAVE_TOOLS
/* After MPI_Init. A library silently ignores a variable that it does not know, and the measurement would bear a setting
 * that was not in force. */
static inline np_status check_settings(const struct settings* s) {
  if (!begin_tools()) return NP_OK; /* nothing can be asked */
  np_status status = NP_OK;
  for (int i = 0; i < s->count && status == NP_OK; ++i) {
    const struct setting* const one = &s->all[i];
    char text[1024];
    if (one->variable == NULL) continue;
    if (!read_variable(one->variable, text, sizeof text)) {
      status = fail(s->context, NP_USAGE, "%s has no setting %s and would ignore %s=%s", s->library->version,
                    one->variable, one->name, one->value);
    } else if (strcmp(text, one->value) != 0) {
      status = fail(s->context, NP_USAGE, "%s uses %s for %s although %s was set", s->library->version, text,
                    one->variable, one->value);
    }
  }
  end_tools(1);
  return status;
}
#else
static inline np_status check_settings(const struct settings* s) {
  (void)s;
  return NP_OK;
}
#endif

#endif
