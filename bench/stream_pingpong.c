/* SPDX-License-Identifier: Apache-2.0
 *
 * What a ping-pong over streams of the kernel costs when it is written by hand: two pinned processes, and one write
 * and one read per message, over a TCP connection over loopback with TCP_NODELAY, over a pair of Unix sockets, or over
 * two pipes. netpipe is held against it.
 *
 *     stream_pingpong --output FILE [--over tcp|unix|pipe] [--cpus a,b] [--bytes n] [--seconds s] [--wait block|poll]
 *
 * The file gets half round trips in nanoseconds, a line for each batch.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
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

/* What one process reads from and writes to. */
struct ends {
  int in, out;
  int flags; /* of send and recv; -1: a pipe, which has read and write */
};

/* Forks. The child is the second process, which returns `second` as true. */
static struct ends chosen(struct ends first, struct ends other, int* second) {
  const pid_t child = fork();
  check(child >= 0, "fork");
  *second = child == 0;
  const struct ends mine = child == 0 ? other : first, theirs = child == 0 ? first : other;
  if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  close(theirs.in);
  if (theirs.out != theirs.in) close(theirs.out);
  return mine;
}

static struct ends over_tcp(int* second) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof at;
  const int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  check(bind(listener, (struct sockaddr*)&at, bytes) == 0 && listen(listener, 1) == 0, "listen");
  check(getsockname(listener, (struct sockaddr*)&at, &bytes) == 0, "getsockname");
  const int first = socket(AF_INET, SOCK_STREAM, 0);
  check(connect(first, (struct sockaddr*)&at, bytes) == 0, "connect");
  const int other = accept(listener, NULL, NULL);
  check(other >= 0, "accept");
  close(listener);
  for (int i = 0; i < 2; i++)
    check(setsockopt(i ? other : first, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) == 0, "TCP_NODELAY");
  return chosen((struct ends){first, first, 0}, (struct ends){other, other, 0}, second);
}

static struct ends over_unix(int* second) {
  int pair[2];
  check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
  return chosen((struct ends){pair[0], pair[0], 0}, (struct ends){pair[1], pair[1], 0}, second);
}

static struct ends over_pipes(int* second) {
  int there[2], back[2];
  check(pipe(there) == 0 && pipe(back) == 0, "pipe");
  return chosen((struct ends){back[0], there[1], -1}, (struct ends){there[0], back[1], -1}, second);
}

static size_t moved(ssize_t n) {
  if (n > 0) return (size_t)n;
  if (n == 0) exit(0); /* the other side is done */
  if (errno == EPIPE || errno == ECONNRESET) exit(0);
  check(errno == EAGAIN || errno == EINTR, "transfer");
  return 0;
}

static void put(struct ends at, const char* data, size_t bytes) {
  for (size_t done = 0; done < bytes;)
    done += moved(at.flags < 0 ? write(at.out, data + done, bytes - done)
                               : send(at.out, data + done, bytes - done, at.flags | MSG_NOSIGNAL));
}

static void get(struct ends at, char* data, size_t bytes) {
  for (size_t done = 0; done < bytes;)
    done +=
        moved(at.flags < 0 ? read(at.in, data + done, bytes - done) : recv(at.in, data + done, bytes - done, at.flags));
}

int main(int argc, char** argv) {
  int cpus[2] = {0, 1}, poll = 0, second = 0;
  struct ends (*over)(int*) = over_tcp;
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
    else if (strcmp(name, "--over") == 0 && strcmp(value, "tcp") == 0)
      over = over_tcp;
    else if (strcmp(name, "--over") == 0 && strcmp(value, "unix") == 0)
      over = over_unix;
    else if (strcmp(name, "--over") == 0 && strcmp(value, "pipe") == 0)
      over = over_pipes;
    else
      return fprintf(stderr, "stream_pingpong: there is no %s %s\n", name, value), 2;
  }
  if (output == NULL || bytes == 0 || seconds <= 0)
    return fprintf(stderr, "stream_pingpong: --output is needed, --bytes and --seconds must be positive\n"), 2;
  signal(SIGPIPE, SIG_IGN);
  struct ends at = over(&second);
  if (poll && at.flags == 0) at.flags = MSG_DONTWAIT;
  if (poll && at.flags < 0)
    check(fcntl(at.in, F_SETFL, O_NONBLOCK) == 0 && fcntl(at.out, F_SETFL, O_NONBLOCK) == 0, "O_NONBLOCK");
  char* data = malloc(bytes);
  check(data != NULL, "malloc");
  memset(data, 1, bytes);
  pin(cpus[second]);
  if (second) {
    for (;;) {
      get(at, data, bytes);
      put(at, data, bytes);
    }
  }
  const int64_t end = now_ns() + (int64_t)(seconds * 1e9);
  while (now_ns() < end) {
    int64_t ns[kBatch], begin = now_ns();
    for (int i = 0; i < kBatch; i++) {
      put(at, data, bytes);
      get(at, data, bytes);
      const int64_t now = now_ns();
      ns[i] = now - begin;
      begin = now;
    }
    for (int i = 0; i < kBatch; i++) fprintf(output, "%.1f%c", (double)ns[i] / 2, i + 1 < kBatch ? ' ' : '\n');
    fflush(output);
  }
  close(at.in);
  if (at.out != at.in) close(at.out);
  wait(NULL);
  return 0;
}
