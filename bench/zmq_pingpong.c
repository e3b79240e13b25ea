/* SPDX-License-Identifier: Apache-2.0
 *
 * What a ping-pong over ZeroMQ costs when it is written by hand: two pinned processes, a PAIR socket each, one zmq_send
 * and one zmq_recv per message. netpipe's module zmq is held against it.
 *
 *     zmq_pingpong --output FILE [--cpus a,b] [--bytes n] [--seconds s] [--wait block|poll] [--transport tcp|ipc]
 *
 * The file gets half round trips in nanoseconds, a line for each batch. The library is found when the program starts,
 * so that bench/ is built where it is missing too. A loop that polls gives its processor away between two looks: the
 * library's thread shares it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kBatch = 100, kPair = 0, kDontWait = 1, kLastEndpoint = 32, kLinger = 17 }; /* zmq.h */

static struct {
  void* (*ctx_new)(void);
  void* (*socket)(void*, int);
  int (*setsockopt)(void*, int, const void*, size_t);
  int (*getsockopt)(void*, int, void*, size_t*);
  int (*bind)(void*, const char*);
  int (*connect)(void*, const char*);
  int (*send)(void*, const void*, size_t, int);
  int (*recv)(void*, void*, size_t, int);
  int (*error)(void);
} zmq;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void check(int good, const char* what) {
  if (good) return;
  perror(what);
  exit(4);
}

static void load(void) {
  void* const library = dlopen("libzmq.so.5", RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "zmq_pingpong: %s\n", dlerror());
    exit(3);
  }
  const struct {
    const char* name;
    void* place;
  } wanted[] = {{"zmq_ctx_new", &zmq.ctx_new},
                {"zmq_socket", &zmq.socket},
                {"zmq_setsockopt", &zmq.setsockopt},
                {"zmq_getsockopt", &zmq.getsockopt},
                {"zmq_bind", &zmq.bind},
                {"zmq_connect", &zmq.connect},
                {"zmq_send", &zmq.send},
                {"zmq_recv", &zmq.recv},
                {"zmq_errno", &zmq.error}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    void* const found = dlsym(library, wanted[i].name);
    check(found != NULL, wanted[i].name);
    memcpy(wanted[i].place, &found, sizeof found);
  }
}

static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((unsigned)cpu, &set);
  check(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

static void put(void* socket, const char* data, size_t bytes, int flags) {
  while (zmq.send(socket, data, bytes, flags) < 0) {
    check(zmq.error() == EAGAIN || zmq.error() == EINTR, "zmq_send");
    sched_yield();
  }
}

static void get(void* socket, char* data, size_t bytes, int flags) {
  while (zmq.recv(socket, data, bytes, flags) < 0) {
    check(zmq.error() == EAGAIN || zmq.error() == EINTR, "zmq_recv");
    sched_yield();
  }
}

static void* end_of(const char* where, int binds, char* bound, size_t room) {
  void* const socket = zmq.socket(zmq.ctx_new(), kPair);
  const int none = 0;
  check(socket != NULL && zmq.setsockopt(socket, kLinger, &none, sizeof none) == 0, "zmq_socket");
  check((binds ? zmq.bind : zmq.connect)(socket, where) == 0, where);
  if (binds) check(zmq.getsockopt(socket, kLastEndpoint, bound, &room) == 0, "zmq_getsockopt");
  return socket;
}

static void answer(int cpu, int link, const char* where, size_t bytes, int flags) {
  char bound[256], *data = calloc(bytes + 1, 1);
  check(data != NULL, "malloc");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pin(cpu);
  void* const socket = end_of(where, 1, bound, sizeof bound);
  check(write(link, bound, sizeof bound) == sizeof bound, "write");
  for (;;) {
    get(socket, data, bytes, flags);
    put(socket, data, bytes, flags);
  }
}

int main(int argc, char** argv) {
  int cpus[2] = {0, 1}, flags = 0, link[2];
  size_t bytes = 8;
  double seconds = 1;
  FILE* output = NULL;
  char where[256] = "tcp://127.0.0.1:*";
  for (int i = 1; i + 1 < argc; i += 2) {
    const char *name = argv[i], *value = argv[i + 1];
    if (strcmp(name, "--cpus") == 0)
      check(sscanf(value, "%d,%d", &cpus[0], &cpus[1]) == 2, "--cpus a,b");
    else if (strcmp(name, "--bytes") == 0)
      bytes = strtoull(value, NULL, 10);
    else if (strcmp(name, "--seconds") == 0)
      seconds = strtod(value, NULL);
    else if (strcmp(name, "--output") == 0)
      check((output = fopen(value, "w")) != NULL, value);
    else if (strcmp(name, "--wait") == 0)
      flags = strcmp(value, "poll") == 0 ? kDontWait : 0;
    else if (strcmp(name, "--transport") == 0 && strcmp(value, "ipc") == 0)
      snprintf(where, sizeof where, "ipc://@zmq-pingpong-%d", getpid());
    else if (strcmp(name, "--transport") != 0)
      return fprintf(stderr, "zmq_pingpong: unknown option %s\n", name), 2;
  }
  if (output == NULL || seconds <= 0)
    return fprintf(stderr, "zmq_pingpong: --output is needed, and --seconds must be positive\n"), 2;
  load();
  check(pipe(link) == 0, "pipe");
  const pid_t child = fork();
  check(child >= 0, "fork");
  if (child == 0) answer(cpus[1], link[1], where, bytes, flags);
  check(read(link[0], where, sizeof where) == sizeof where, "read");
  pin(cpus[0]);
  char unused[256], *data = malloc(bytes + 1);
  check(data != NULL, "malloc");
  memset(data, 1, bytes);
  void* const socket = end_of(where, 0, unused, sizeof unused);
  const int64_t end = now_ns() + (int64_t)(seconds * 1e9);
  while (now_ns() < end) {
    int64_t ns[kBatch], begin = now_ns();
    for (int i = 0; i < kBatch; i++) {
      put(socket, data, bytes, flags);
      get(socket, data, bytes, flags);
      const int64_t now = now_ns();
      ns[i] = now - begin;
      begin = now;
    }
    for (int i = 0; i < kBatch; i++) fprintf(output, "%.1f%c", (double)ns[i] / 2, i + 1 < kBatch ? ' ' : '\n');
    fflush(output);
  }
  kill(child, SIGKILL);
  wait(NULL);
  return 0;
}
