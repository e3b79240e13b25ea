/* SPDX-License-Identifier: Apache-2.0
 *
 * In short: a kernel whose classes go wrong
 * Ranks: an even number
 * Classes: fine wrong hang crash late orphan huge silent moved
 * Settings: count of what is found
 *
 * For tests/e2e/test_apps.py: computes nothing.
 */
#define _GNU_SOURCE /* as app.h, before all others */
#include <signal.h>
#include <unistd.h>

#include "app.h"

static int fits(const char* problem, int ranks, char* why, size_t room) {
  (void)problem;
  if (ranks % 2 != 0) snprintf(why, room, "it needs an even number of ranks");
  return ranks % 2 == 0;
}

static double memory_bytes(const char* problem, int ranks) {
  (void)ranks;
  return strcmp(problem, "huge") == 0 ? 1e15 : 1e6;
}

static const struct application pretend = {.name = "PRETEND",
                                           .operations = "pretended",
                                           .classes = "fine wrong hang crash late orphan huge silent moved",
                                           .options = "count",
                                           .fits = fits,
                                           .memory_bytes = memory_bytes};

static void stay(void) {
  for (;;) pause();
}

int main(int argc, char** argv) {
  app_begin(&pretend, argc, argv);
  const char* problem = app.problem;
  if (app.rank == 1) {
    if (strcmp(problem, "hang") == 0) stay();
    if (strcmp(problem, "crash") == 0) raise(SIGSEGV);
    if (strcmp(problem, "orphan") == 0) kill(getppid(), SIGKILL); /* the launcher, or what it started here */
  }
  if (strcmp(problem, "orphan") == 0) stay();
  MPI_Barrier(MPI_COMM_WORLD);
  if (strcmp(problem, "silent") != 0) app_check("answer", strcmp(problem, "wrong") == 0 ? 41 : 42, 42, 0);
  if (strcmp(problem, "moved") == 0 && app.rank == 1) { /* as a library that places ranks itself, or a cpuset */
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, &all);
  }
  if (strcmp(problem, "late") == 0 && app.rank == 1) {
    if (app.json) app_tell_processors();
    stay();
  }
  return app_end("none", (int)app_option("count", 1), 0.25, 5e5 * (double)app.ranks);
}
