/* SPDX-License-Identifier: Apache-2.0
 *
 * What the applications of this folder share: the command line, the check of the number of ranks, the result as the NAS
 * benchmarks print it or as one line of JSON. An application is one C file with a main; everything here is static, so
 * that it is compiled by one call of a library's mpicc. Nothing here calls MPI between app_begin and app_end, so that a
 * profile shows the application's own calls and no others.
 *
 *   APP --class A [--json] [--pin CPU,...] [--NAME NUMBER ...]        under a library's launcher
 *   APP --class A --plan RANKS                        without MPI: whether it can run so, and what it needs
 *
 * --pin holds rank 0 on the first of these processors, rank 1 on the second, from the end of MPI_Init on, as netpipe
 * pins its own ranks. A rank on another host is held on that processor of its host. Without it a rank runs where its
 * launcher lets it.
 *
 * Exit codes: 0 verified, 2 usage, 3 cannot run so here (memory), 4 the result is wrong.
 */
#ifndef NETPIPE_APPS_APP_H
#define NETPIPE_APPS_APP_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for sched_setaffinity: this file comes before all others */
#endif
#include <ctype.h>
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APP_CHECKS 64
#define APP_OPTIONS 8
#define APP_HOST 65 /* bytes of a host's name that are told; Linux has no longer ones */

/* What an application says of itself. `problem` is its class: "S", or "50" for Sweep3D. */
struct application {
  const char* name;       /* as the NAS benchmarks print it: "CG" */
  const char* operations; /* what Mop/s counts: "floating point" */
  const char* classes;    /* with spaces between: "S W A B C D" */
  const char* options;    /* names of whole numbers that it takes beside the class, with spaces between; "" for none */
  /* Writes a sentence into `why` and returns 0 if it cannot run on so many ranks. */
  int (*fits)(const char* problem, int ranks, char* why, size_t room);
  /* Bytes that the rank with the most allocates. */
  double (*memory_bytes)(const char* problem, int ranks);
};

struct app_check {
  char what[48];
  double found, expected, tolerance; /* relative to `expected`; 0: must be equal */
  int passed;
};

/* The state of the one application of this process. */
struct app_state {
  const struct application* application;
  char problem[16];
  int rank, ranks, json;
  const char* pin; /* of --pin; NULL: there is none */
  int* processors; /* on rank 0, of each rank at the end: -1 where it may run on several; NULL: not known */
  char* hosts;     /* and the name of its host, APP_HOST bytes each */
  struct {
    char name[24];
    long value;
  } options[APP_OPTIONS];
  int option_count;
  struct app_check checks[APP_CHECKS];
  int check_count;
};

static struct app_state app;

/* Ends the process with a sentence, before any communication or for a defect that every rank sees. */
__attribute__((noreturn, format(printf, 2, 3), unused)) static void app_refuse(int code, const char* format, ...) {
  if (app.rank == 0) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", app.application->name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
  }
  int started = 0, ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  if (started && !ended) MPI_Finalize();
  exit(code);
}

/* Whether `word` is one of `words`, which stand with spaces between. */
static int app_has(const char* words, const char* word) {
  size_t length = strlen(word);
  for (const char* at = words; length > 0 && (at = strstr(at, word)) != NULL; at += length)
    if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return 1;
  return 0;
}

static long app_number(const char* option, const char* text) {
  char* end = NULL;
  long value = text != NULL ? strtol(text, &end, 10) : 0;
  if (text == NULL || end == text || *end != '\0') app_refuse(2, "%s takes a whole number", option);
  return value;
}

/* A whole number given as --NAME, or `standard`. */
__attribute__((unused)) static long app_option(const char* name, long standard) {
  for (int i = 0; i < app.option_count; ++i)
    if (strcmp(app.options[i].name, name) == 0) return app.options[i].value;
  return standard;
}

/* Holds this rank on its processor of --pin. */
static void app_pin(void) {
  long own = -1;
  int count = 0;
  char* end = NULL;
  const char* at = app.pin;
  do {
    long cpu = strtol(at, &end, 10);
    if (end == at || cpu < 0 || cpu >= CPU_SETSIZE || (*end != ',' && *end != '\0'))
      app_refuse(2, "--pin takes the processor of each rank, such as 0,1; not '%s'", app.pin);
    if (count++ == app.rank) own = cpu;
    at = end + 1;
  } while (*end == ',');
  if (count < app.ranks) app_refuse(2, "--pin %s names %d for %d ranks; name one for each", app.pin, count, app.ranks);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)own, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    fprintf(stderr, "%s: rank %d cannot run on processor %ld: %s\n", app.application->name, app.rank, own,
            strerror(errno));
    MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
  }
}

/* Reads the command line and starts MPI. Does not return if it may not run so. */
static void app_begin(const struct application* application, int argc, char** argv) {
  app.application = application;
  long plan = -1;
  int started = 0;
  for (int i = 1; i < argc; ++i) {
    const char* next = i + 1 < argc ? argv[i + 1] : NULL;
    if (strcmp(argv[i], "--json") == 0) {
      app.json = 1;
    } else if (strcmp(argv[i], "--class") == 0 && next != NULL) {
      snprintf(app.problem, sizeof app.problem, "%s", next);
      ++i;
    } else if (strcmp(argv[i], "--pin") == 0 && next != NULL) {
      app.pin = next;
      ++i;
    } else if (strcmp(argv[i], "--plan") == 0) {
      plan = app_number(argv[i], next);
      ++i;
    } else if (strncmp(argv[i], "--", 2) == 0 && app_has(application->options, argv[i] + 2) &&
               app.option_count < APP_OPTIONS) {
      snprintf(app.options[app.option_count].name, sizeof app.options[0].name, "%s", argv[i] + 2);
      app.options[app.option_count++].value = app_number(argv[i], next);
      ++i;
    } else {
      app_refuse(2, "'%s' is no option; it takes --class X, --json, --pin CPUS, --plan RANKS%s%s", argv[i],
                 *application->options ? " and a number after -- and one of: " : "", application->options);
    }
  }
  if (!app_has(application->classes, app.problem))
    app_refuse(2, "there is no class '%s'; choose one of: %s", app.problem, application->classes);
  if (plan < 0) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &app.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &app.ranks);
    started = 1;
  } else {
    app.ranks = (int)plan;
  }
  char why[256] = "";
  int fits = app.ranks > 0 && application->fits(app.problem, app.ranks, why, sizeof why);
  if (app.ranks <= 0) snprintf(why, sizeof why, "it needs at least one rank");
  if (!started) {
    printf("{\"name\":\"%s\",\"class\":\"%s\",\"ranks\":%d,\"fits\":%s,\"why\":\"%s\",\"memory_bytes\":%.0f}\n",
           application->name, app.problem, app.ranks, fits ? "true" : "false", why,
           fits ? application->memory_bytes(app.problem, app.ranks) : 0.0);
    exit(0);
  }
  if (!fits) app_refuse(2, "class %s cannot run on %d ranks: %s", app.problem, app.ranks, why);
  if (app.pin != NULL) app_pin();
}

/* Memory for a rank's own arrays, on cache lines and zero. Never returns NULL. LAM has malloc, memalign and free of its
 * own, but neither posix_memalign nor aligned_alloc: its free would be given memory of the C library. */
__attribute__((unused, malloc)) static void* app_allocate(size_t count, size_t size) {
  size_t bytes = count * size > 0 ? count * size : 1;
  void* memory = memalign(64, bytes);
  if (memory == NULL) {
    fprintf(stderr, "%s: rank %d has no memory for %zu bytes\n", app.application->name, app.rank, bytes);
    MPI_Abort(MPI_COMM_WORLD, 3);
    exit(3);
  }
  memset(memory, 0, bytes);
  return memory;
}

/* Compares a result with the published one. Counts on rank 0 only. `tolerance` is relative to `expected`. */
__attribute__((unused)) static int app_check(const char* what, double found, double expected, double tolerance) {
  double off = fabs(found - expected);
  int passed = found == expected || off <= tolerance * fabs(expected); /* false for NaN */
  if (app.check_count < APP_CHECKS) {
    struct app_check* check = &app.checks[app.check_count];
    snprintf(check->what, sizeof check->what, "%s", what);
    check->found = found;
    check->expected = expected;
    check->tolerance = tolerance;
    check->passed = passed;
  }
  app.check_count++;
  return passed;
}

/* A number as JSON has it. */
static void app_print_number(const char* name, double value) {
  if (isfinite(value)) {
    printf("\"%s\":%.17g", name, value);
  } else {
    printf("\"%s\":null", name);
  }
}

/* The name of this host, of characters that need no escape in JSON. */
static void app_host(char name[APP_HOST]) {
  memset(name, 0, APP_HOST);
  if (gethostname(name, APP_HOST - 1) != 0) snprintf(name, APP_HOST, "?");
  for (char* at = name; *at != '\0'; ++at)
    if (!isalnum((unsigned char)*at) && strchr("._-", *at) == NULL) *at = '?';
}

/* Tells rank 0 where each rank is when all is done, once. By PMPI, so that no profile has it. */
static void app_tell_processors(void) {
  static int told = 0;
  if (told++ > 0) return;
  int own = -1;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1) {
    own = 0;
    while (!CPU_ISSET((size_t)own, &set)) ++own;
  }
  char host[APP_HOST];
  app_host(host);
  if (app.rank == 0) {
    app.processors = app_allocate((size_t)app.ranks, sizeof(int));
    app.hosts = app_allocate((size_t)app.ranks, APP_HOST);
  }
  PMPI_Gather(&own, 1, MPI_INT, app.processors, 1, MPI_INT, 0, MPI_COMM_WORLD);
  PMPI_Gather(host, APP_HOST, MPI_CHAR, app.hosts, APP_HOST, MPI_CHAR, 0, MPI_COMM_WORLD);
}

/* Prints the result on rank 0, ends MPI and returns the exit code of main. `seconds` is the time of the slowest rank
 * and counts on rank 0 only; `operations` is the number that Mop/s is made of; `size` is shown as it stands. */
static int app_end(const char* size, int iterations, double seconds, double operations) {
  int code = 0;
  if (app.json) app_tell_processors();
  if (app.rank == 0) {
    int shown = app.check_count < APP_CHECKS ? app.check_count : APP_CHECKS;
    int verified = app.check_count > 0 && app.check_count <= APP_CHECKS;
    for (int i = 0; i < shown; ++i) verified = verified && app.checks[i].passed;
    double mops = seconds > 0 ? operations / seconds / 1e6 : 0;
    if (app.json) {
      printf("{\"name\":\"%s\",\"class\":\"%s\",\"size\":\"%s\",\"iterations\":%d,\"ranks\":%d,", app.application->name,
             app.problem, size, iterations, app.ranks);
      app_print_number("seconds", seconds);
      putchar(',');
      app_print_number("mops", mops);
      printf(",\"operations\":\"%s\",\"verified\":%s,\"checks\":[", app.application->operations,
             verified ? "true" : "false");
      for (int i = 0; i < shown; ++i) {
        printf("%s{\"what\":\"%s\",", i > 0 ? "," : "", app.checks[i].what);
        app_print_number("found", app.checks[i].found);
        putchar(',');
        app_print_number("expected", app.checks[i].expected);
        putchar(',');
        app_print_number("tolerance", app.checks[i].tolerance);
        printf(",\"passed\":%s}", app.checks[i].passed ? "true" : "false");
      }
      printf("],\"pin\":[");
      for (int i = 0; i < app.ranks; ++i) {
        if (i > 0) putchar(',');
        if (app.processors[i] < 0) {
          printf("null");
        } else {
          printf("%d", app.processors[i]);
        }
      }
      printf("],\"hosts\":[");
      for (int i = 0; i < app.ranks; ++i) printf("%s\"%s\"", i > 0 ? "," : "", app.hosts + (size_t)i * APP_HOST);
      printf("]}\n");
    } else {
      printf("\n %s Benchmark Completed.\n", app.application->name);
      printf(" Class           = %24s\n Size            = %24s\n Iterations      = %24d\n", app.problem, size,
             iterations);
      printf(" Time in seconds = %24.2f\n Total processes = %24d\n Active processes= %24d\n", seconds, app.ranks,
             app.ranks);
      printf(" Mop/s total     = %24.2f\n Mop/s/process   = %24.2f\n", mops, mops / app.ranks);
      printf(" Operation type  = %24s\n Verification    = %24s\n", app.application->operations,
             verified ? "SUCCESSFUL" : "UNSUCCESSFUL");
      for (int i = 0; i < shown; ++i) {
        printf("   %-28s %.13E %.13E %s\n", app.checks[i].what, app.checks[i].found, app.checks[i].expected,
               app.checks[i].passed ? "ok" : "WRONG");
      }
    }
    fflush(stdout);
    code = verified ? 0 : 4;
  }
  MPI_Finalize();
  return code;
}

#endif
