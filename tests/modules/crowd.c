/* SPDX-License-Identifier: Apache-2.0
 *
 * Any number of ranks, each pair of them with a Unix socket of its own, so that patterns of many ranks can be tested
 * without a library that launches them. slow=K: whatever rank K sends leaves late, so that each pair with it is slow.
 * mates=one: it takes only visits in which a rank has messages with one other, and holds netpipe to that.
 *
 * A message of a pair follows the one before, so a request is in a line with the others of its pair and direction. The
 * first of each line is moved on whenever anybody waits.
 */
#include "pair.h"

enum { SLOW, MATES, LATE_MS = 3, MOST_RANKS = 64, MOST_WORD = 16 };
enum { ANY, ONE };

static const np_option options[] = {
    {.name = "slow",
     .type = NP_INT,
     .default_value = "-1",
     .min = -1,
     .max = MOST_RANKS - 1,
     .unit = "",
     .help = "the rank that sends late; -1: none"},
    {.name = "mates",
     .type = NP_CHOICE,
     .default_value = "any",
     .choices = "any|one",
     .unit = "",
     .help = "with how many others a rank may have messages in a visit"},
};

struct transfer {
  struct transfer* next;
  char* data;
  size_t left;
  uint64_t done;
};
_Static_assert(sizeof(struct transfer) <= sizeof(np_request), "a transfer lies in its request");

struct line {
  struct transfer *first, *last;
};

struct crowd {
  struct np_endpoint pair; /* first: what pair.h needs */
  int sockets[MOST_RANKS];
  struct line out[MOST_RANKS], in[MOST_RANKS];
  uint64_t visit_bytes; /* mates=one: of messages for the mate alone; 0: there is none */
};

static struct crowd* crowd_of(np_endpoint* e) { return (struct crowd*)(void*)e; }

static void crowd_close(np_endpoint* e) {
  for (int rank = 0; rank < e->context->nranks; ++rank) {
    if (crowd_of(e)->sockets[rank] >= 0) close(crowd_of(e)->sockets[rank]);
  }
  pair_close(e);
}

static np_status crowd_open(const np_context* context, np_endpoint** endpoint) {
  if (context->nranks > MOST_RANKS) {
    snprintf(context->message, context->message_bytes, "a crowd is at most %d ranks", MOST_RANKS);
    return NP_USAGE;
  }
  struct crowd* const c = (struct crowd*)calloc(1, sizeof *c);
  if (c == NULL) return NP_NO_MEMORY;
  np_endpoint* const e = &c->pair;
  e->context = context;
  e->socket = -1;
  for (int rank = 0; rank < MOST_RANKS; ++rank) c->sockets[rank] = -1;
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  e->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (e->listener < 0 || bind(e->listener, (struct sockaddr*)&name, sizeof name.sun_family) != 0 ||
      listen(e->listener, MOST_RANKS) != 0) {
    const np_status status = pair_fail(e, NP_FAILED, "cannot listen on a Unix socket");
    crowd_close(e);
    return status;
  }
  *endpoint = e;
  return NP_OK;
}

static np_status crowd_address(np_endpoint* e, void* data, size_t* bytes) {
  struct sockaddr_un name;
  socklen_t length = sizeof name;
  if (getsockname(e->listener, (struct sockaddr*)&name, &length) != 0 || length > *bytes) {
    return pair_fail(e, NP_FAILED, "the Unix socket has no address to give");
  }
  memcpy(data, &name, length);
  *bytes = length;
  return NP_OK;
}

/* To all ranks below; those above come and say who they are. */
static np_status crowd_connect(np_endpoint* e, const void* const* addresses, const size_t* bytes) {
  struct crowd* const c = crowd_of(e);
  const int rank = e->context->rank;
  for (int peer = 0; peer < rank; ++peer) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    c->sockets[peer] = fd;
    if (fd < 0 || connect(fd, (const struct sockaddr*)addresses[peer], (socklen_t)bytes[peer]) != 0 ||
        send(fd, &rank, sizeof rank, MSG_NOSIGNAL) != (ssize_t)sizeof rank) {
      return pair_fail(e, NP_PEER_LOST, "cannot connect to a rank");
    }
  }
  for (int others = rank + 1; others < e->context->nranks; ++others) {
    np_status status = pair_wait(e, e->listener, POLLIN, e->context->timeout_ns);
    if (status != NP_OK) return pair_fail(e, status, "a rank did not connect");
    e->socket = accept4(e->listener, NULL, NULL, SOCK_CLOEXEC);
    int peer = -1;
    status = pair_recv(e, 0, &peer, sizeof peer);
    if (status != NP_OK || peer <= rank || peer >= e->context->nranks) {
      return pair_fail(e, NP_FAILED, "who connected is no rank");
    }
    c->sockets[peer] = e->socket;
    e->socket = -1;
  }
  return NP_OK;
}

static np_status crowd_prepare(np_endpoint* e, const np_visit* visit) {
  if (e->context->options[MATES].number != ONE) return NP_OK;
  crowd_of(e)->visit_bytes = (visit->flags & NP_VISIT_IN_PAIRS) != 0 ? visit->bytes : 0;
  if ((visit->flags & (NP_VISIT_IN_PAIRS | NP_VISIT_GREETING)) != 0) return NP_OK;
  snprintf(e->context->message, e->context->message_bytes, "mates=one: here a rank has messages with several");
  return NP_UNSUPPORTED;
}

/* ---------------------------------------------------------------------------------------------- messages */

/* A word between ranks may be as small as a message, and go anywhere. */
static np_status check_mate(np_endpoint* e, int peer, size_t bytes) {
  if (bytes <= MOST_WORD || bytes != crowd_of(e)->visit_bytes) return NP_OK;
  if (peer == e->context->nranks - 1 - e->context->rank) return NP_OK;
  snprintf(e->context->message, e->context->message_bytes, "rank %d has a message with rank %d, which is not its mate",
           e->context->rank, peer);
  return NP_FAILED;
}

static void enqueue(struct line* line, const void* data, size_t bytes, np_request* request) {
  struct transfer* const one = (struct transfer*)(void*)request;
  *one = (struct transfer){.data = (char*)(uintptr_t)data, .left = bytes};
  if (line->first == NULL) {
    line->first = one;
  } else {
    line->last->next = one;
  }
  line->last = one;
}

/* As far as it goes without waiting. */
static np_status advance_line(np_endpoint* e, int fd, struct line* line, int sends) {
  while (line->first != NULL) {
    struct transfer* const one = line->first;
    while (one->left > 0) {
      const ssize_t moved = sends ? send(fd, one->data, one->left, MSG_DONTWAIT | MSG_NOSIGNAL)
                                  : recv(fd, one->data, one->left, MSG_DONTWAIT);
      if (moved > 0) {
        one->data += moved;
        one->left -= (size_t)moved;
      } else if (moved < 0 && (errno == EAGAIN || errno == EINTR)) {
        return NP_OK;
      } else {
        if (moved == 0) errno = ECONNRESET;
        return pair_fail(e, NP_PEER_LOST, "a rank has gone");
      }
    }
    line->first = one->next;
    one->done = 1;
  }
  return NP_OK;
}

static np_status advance(np_endpoint* e) {
  struct crowd* const c = crowd_of(e);
  np_status status = NP_OK;
  for (int peer = 0; peer < e->context->nranks && status == NP_OK; ++peer) {
    status = advance_line(e, c->sockets[peer], &c->out[peer], 1);
    if (status == NP_OK) status = advance_line(e, c->sockets[peer], &c->in[peer], 0);
  }
  return status;
}

static np_status start_send(np_endpoint* e, int peer, const void* data, size_t bytes, np_request* request) {
  if (check_mate(e, peer, bytes) != NP_OK) return NP_FAILED;
  if (e->context->rank == e->context->options[SLOW].number) poll(NULL, 0, LATE_MS);
  enqueue(&crowd_of(e)->out[peer], data, bytes, request);
  return advance(e);
}

static np_status start_receive(np_endpoint* e, int peer, void* data, size_t bytes, np_request* request) {
  if (check_mate(e, peer, bytes) != NP_OK) return NP_FAILED;
  enqueue(&crowd_of(e)->in[peer], data, bytes, request);
  return NP_OK;
}

static np_status crowd_test(np_endpoint* e, np_request* request) {
  const struct transfer* const one = (const struct transfer*)(const void*)request;
  const np_status status = advance(e);
  return status != NP_OK ? status : one->done ? NP_OK : NP_PENDING;
}

static np_status wait_for(np_endpoint* e, np_request* request) {
  for (;;) {
    const np_status status = crowd_test(e, request);
    if (status != NP_PENDING) return status;
    struct pollfd ready[MOST_RANKS];
    for (int peer = 0; peer < e->context->nranks; ++peer) {
      const short in = crowd_of(e)->in[peer].first != NULL ? POLLIN : 0;
      const short out = crowd_of(e)->out[peer].first != NULL ? POLLOUT : 0;
      ready[peer] = (struct pollfd){.fd = crowd_of(e)->sockets[peer], .events = (short)(in | out)};
      if (ready[peer].events == 0) ready[peer].fd = -1;
    }
    poll(ready, (nfds_t)e->context->nranks, 20);
    if (*e->context->abort != 0) return pair_fail(e, NP_ABORTED, "gave up waiting");
  }
}

static np_status crowd_send(np_endpoint* e, int peer, const void* data, size_t bytes) {
  np_request request;
  const np_status status = start_send(e, peer, data, bytes, &request);
  return status != NP_OK ? status : wait_for(e, &request);
}

static np_status crowd_recv(np_endpoint* e, int peer, void* data, size_t bytes) {
  np_request request;
  const np_status status = start_receive(e, peer, data, bytes, &request);
  return status != NP_OK ? status : wait_for(e, &request);
}

static np_status crowd_isend(np_endpoint* e, int peer, const void* data, size_t stride, size_t bytes,
                             np_request* requests, size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) {
    status = start_send(e, peer, (const char*)data + i * stride, bytes, &requests[i]);
  }
  return status;
}

static np_status crowd_irecv(np_endpoint* e, int peer, void* data, size_t stride, size_t bytes, np_request* requests,
                             size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) {
    status = start_receive(e, peer, (char*)data + i * stride, bytes, &requests[i]);
  }
  return status;
}

static np_status crowd_wait(np_endpoint* e, np_request* requests, size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) status = wait_for(e, &requests[i]);
  return status;
}

static const np_module table = {
    .magic = NP_MAGIC,
    .abi = NP_ABI,
    .size = sizeof(np_module),
    .name = "crowd",
    .summary = "test: any number of ranks, one of which may be slow",
    .version = "test",
    .options = options,
    .noptions = sizeof options / sizeof options[0],
    .option_bytes = sizeof(np_option),
    .min_ranks = 2,
    .max_ranks = MOST_RANKS,
    .messages = &(const np_messages){.size = sizeof(np_messages),
                                     .send = crowd_send,
                                     .recv = crowd_recv,
                                     .isend = crowd_isend,
                                     .irecv = crowd_irecv},
    .open = crowd_open,
    .close = crowd_close,
    .address = crowd_address,
    .connect = crowd_connect,
    .wait = crowd_wait,
    .test = crowd_test,
    .prepare = crowd_prepare,
};

const np_module* netpipe_module(void) { return &table; }
