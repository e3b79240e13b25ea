/* SPDX-License-Identifier: Apache-2.0
 *
 * What a ping-pong over a TCP socket costs when it is written by hand: two pinned processes, one connection over
 * loopback with TCP_NODELAY, one send and one recv per message. netpipe's harness is held against it.
 *
 *     tcp_pingpong --output FILE [--cpus a,b] [--bytes n] [--seconds s] [--wait block|poll]
 *
 * The file gets half round trips in nanoseconds, a line for each batch.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kBatch = 100 };

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

static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((unsigned)cpu, &set);
  check(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

static int connected(int* listener) { /* the listening side is forked off; both return their end */
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof at;
  int yes = 1, fd = 0;
  *listener = socket(AF_INET, SOCK_STREAM, 0);
  check(bind(*listener, (struct sockaddr*)&at, bytes) == 0 && listen(*listener, 1) == 0, "listen");
  check(getsockname(*listener, (struct sockaddr*)&at, &bytes) == 0, "getsockname");
  const pid_t child = fork();
  check(child >= 0, "fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fd = accept(*listener, NULL, NULL);
    *listener = -1;
  } else {
    fd = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(fd, (struct sockaddr*)&at, bytes) == 0, "connect");
  }
  check(fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) == 0, "socket");
  return fd;
}

static size_t moved(ssize_t n) {
  if (n > 0) return (size_t)n;
  if (n == 0) exit(0); /* the other side is done */
  check(errno == EAGAIN || errno == EINTR, "transfer");
  return 0;
}

static void put(int fd, const char* data, size_t bytes, int flags) {
  for (size_t done = 0; done < bytes;) done += moved(send(fd, data + done, bytes - done, flags | MSG_NOSIGNAL));
}

static void get(int fd, char* data, size_t bytes, int flags) {
  for (size_t done = 0; done < bytes;) done += moved(recv(fd, data + done, bytes - done, flags));
}

int main(int argc, char** argv) {
  int cpus[2] = {0, 1}, poll = 0, listener = -1;
  size_t bytes = 8;
  double seconds = 1;
  FILE* output = NULL;
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
      poll = strcmp(value, "poll") == 0;
    else
      return fprintf(stderr, "tcp_pingpong: unknown option %s\n", name), 2;
  }
  if (output == NULL || bytes == 0 || seconds <= 0)
    return fprintf(stderr, "tcp_pingpong: --output is needed, --bytes and --seconds must be positive\n"), 2;
  const int fd = connected(&listener), flags = poll ? MSG_DONTWAIT : 0;
  char* data = malloc(bytes);
  check(data != NULL, "malloc");
  memset(data, 1, bytes);
  pin(cpus[listener >= 0 ? 0 : 1]);
  if (listener < 0) {
    for (;;) {
      get(fd, data, bytes, flags);
      put(fd, data, bytes, flags);
    }
  }
  const int64_t end = now_ns() + (int64_t)(seconds * 1e9);
  while (now_ns() < end) {
    int64_t ns[kBatch], begin = now_ns();
    for (int i = 0; i < kBatch; i++) {
      put(fd, data, bytes, flags);
      get(fd, data, bytes, flags);
      const int64_t now = now_ns();
      ns[i] = now - begin;
      begin = now;
    }
    for (int i = 0; i < kBatch; i++) fprintf(output, "%.1f%c", (double)ns[i] / 2, i + 1 < kBatch ? ' ' : '\n');
    fflush(output);
  }
  shutdown(fd, SHUT_RDWR);
  wait(NULL);
  return 0;
}
