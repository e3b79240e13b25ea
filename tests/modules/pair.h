/* SPDX-License-Identifier: Apache-2.0
 *
 * A correct pair of ranks over a Unix socket, for the modules of this folder that are wrong in one place each: they
 * take what is right from here and write the one wrong operation themselves.
 */
#ifndef NETPIPE_TESTS_PAIR_H
#define NETPIPE_TESTS_PAIR_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "netpipe/module.h"

/* Exported also where everything else is hidden. */
__attribute__((visibility("default"))) const np_module* netpipe_module(void);

struct np_endpoint {
  const np_context* context;
  int listener, socket;
  uint64_t messages; /* receives that have begun; for the module that uses this */
  uint64_t bytes;    /* received so far; likewise */
};

static inline np_status pair_fail(np_endpoint* e, np_status status, const char* what) {
  snprintf(e->context->message, e->context->message_bytes, "%s: %s", what, strerror(errno));
  return status;
}

static inline void pair_close(np_endpoint* e) {
  if (e->listener >= 0) close(e->listener);
  if (e->socket >= 0) close(e->socket);
  free(e);
}

/* Rank 1 listens on an abstract name that the kernel chooses, so nothing is left behind (unix(7), autobind). */
static inline np_status pair_open(const np_context* context, np_endpoint** endpoint) {
  np_endpoint* const e = (np_endpoint*)calloc(1, sizeof *e);
  if (e == NULL) return NP_NO_MEMORY;
  e->context = context;
  e->listener = e->socket = -1;
  if (context->rank == 1) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    e->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (e->listener < 0 || bind(e->listener, (struct sockaddr*)&name, sizeof name.sun_family) != 0 ||
        listen(e->listener, 1) != 0) {
      const np_status status = pair_fail(e, NP_FAILED, "cannot listen on a Unix socket");
      pair_close(e);
      return status;
    }
  }
  *endpoint = e;
  return NP_OK;
}

static inline np_status pair_address(np_endpoint* e, void* data, size_t* bytes) {
  if (e->context->rank == 0) {
    *bytes = 0;
    return NP_OK;
  }
  struct sockaddr_un name;
  socklen_t length = sizeof name;
  if (getsockname(e->listener, (struct sockaddr*)&name, &length) != 0 || length > *bytes) {
    return pair_fail(e, NP_FAILED, "the Unix socket has no address to give");
  }
  memcpy(data, &name, length);
  *bytes = length;
  return NP_OK;
}

/* Waits for events on fd, looking at abort every 20 ms; patience_ns below 0: as long as it takes. */
static inline np_status pair_wait(np_endpoint* e, int fd, short events, int64_t patience_ns) {
  for (int64_t waited_ns = 0;; waited_ns += 20000000) {
    if (*e->context->abort != 0) {
      errno = ECANCELED;
      return NP_ABORTED;
    }
    if (patience_ns >= 0 && waited_ns > patience_ns) {
      errno = ETIMEDOUT;
      return NP_PEER_LOST;
    }
    struct pollfd ready = {.fd = fd, .events = events};
    if (poll(&ready, 1, 20) > 0) return NP_OK;
  }
}

static inline np_status pair_connect(np_endpoint* e, const void* const* addresses, const size_t* bytes) {
  if (e->context->rank == 0) {
    e->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (e->socket < 0 || connect(e->socket, (const struct sockaddr*)addresses[1], (socklen_t)bytes[1]) != 0) {
      return pair_fail(e, NP_PEER_LOST, "cannot connect to rank 1");
    }
    return NP_OK;
  }
  const np_status status = pair_wait(e, e->listener, POLLIN, e->context->timeout_ns);
  if (status != NP_OK) return pair_fail(e, status, "rank 0 did not connect");
  e->socket = accept4(e->listener, NULL, NULL, SOCK_CLOEXEC);
  return e->socket >= 0 ? NP_OK : pair_fail(e, NP_FAILED, "cannot accept rank 0");
}

static inline np_status pair_send(np_endpoint* e, int peer, const void* data, size_t bytes) {
  (void)peer;
  const char* from = (const char*)data;
  while (bytes > 0) {
    const ssize_t sent = send(e->socket, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      from += sent;
      bytes -= (size_t)sent;
    } else if (errno == EAGAIN || errno == EINTR) {
      const np_status status = pair_wait(e, e->socket, POLLOUT, -1);
      if (status != NP_OK) return pair_fail(e, status, "gave up sending");
    } else {
      return pair_fail(e, NP_PEER_LOST, "cannot send");
    }
  }
  return NP_OK;
}

static inline np_status pair_recv(np_endpoint* e, int peer, void* data, size_t bytes) {
  (void)peer;
  char* to = (char*)data;
  while (bytes > 0) {
    const ssize_t got = recv(e->socket, to, bytes, MSG_DONTWAIT);
    if (got > 0) {
      to += got;
      bytes -= (size_t)got;
    } else if (got == 0) {
      errno = ECONNRESET;
      return pair_fail(e, NP_PEER_LOST, "the other rank has closed its socket");
    } else if (errno == EAGAIN || errno == EINTR) {
      const np_status status = pair_wait(e, e->socket, POLLIN, -1);
      if (status != NP_OK) return pair_fail(e, status, "gave up receiving");
    } else {
      return pair_fail(e, NP_PEER_LOST, "cannot receive");
    }
  }
  return NP_OK;
}

/* The option of a module that is right until then. */
#define PAIR_AFTER(HELP) \
  {.name = "after", .type = NP_INT, .default_value = "0", .min = 0, .max = INT64_MAX, .unit = "", .help = HELP}

/* The table of a module over such a pair; the caller keeps it, and changes what is wrong in it. */
static inline np_module pair_module(const char* name, const char* summary,
                                    np_status (*send_one)(np_endpoint*, int, const void*, size_t),
                                    np_status (*recv_one)(np_endpoint*, int, void*, size_t)) {
  static np_messages messages = {.size = sizeof messages};
  messages.send = send_one;
  messages.recv = recv_one;
  return (np_module){.magic = NP_MAGIC,
                     .abi = NP_ABI,
                     .size = sizeof(np_module),
                     .name = name,
                     .summary = summary,
                     .version = "test",
                     .min_ranks = 2,
                     .max_ranks = 2,
                     .messages = &messages,
                     .open = pair_open,
                     .close = pair_close,
                     .address = pair_address,
                     .connect = pair_connect};
}

#endif
