/* SPDX-License-Identifier: Apache-2.0
 *
 * A library with a launcher of its own, as an MPI is, without any MPI: whoever starts its two processes gives them
 * TROUPE_RANK, TROUPE_SIZE and TROUPE_NAME, and they find each other by that name. What goes wrong is an option.
 */
#include "pair.h"

enum { FAULT, AT };

static const np_option options[] = {
    {.name = "fault",
     .type = NP_CHOICE,
     .default_value = "none",
     .choices = "none|open|hang|die",
     .unit = "",
     .help = "what rank 1 does wrong"},
    {.name = "at",
     .type = NP_SIZE,
     .default_value = "1",
     .min = 1,
     .max = INT64_MAX,
     .unit = "bytes",
     .help = "the size of message at which it hangs or dies"},
};

static int number(const char* name) {
  const char* text = getenv(name);
  return text != NULL ? atoi(text) : -1;
}

/* As MPI_Init does, this waits for the others. */
static np_status troupe_open(const np_context* context, np_endpoint** endpoint) {
  const int rank = number("TROUPE_RANK");
  const int size = number("TROUPE_SIZE");
  if (rank < 0 || size < 1) {
    snprintf(context->message, context->message_bytes, "it was not started by its launcher");
    return NP_UNAVAILABLE;
  }
  if (context->options[FAULT].number == 1 && rank == 1) {
    snprintf(context->message, context->message_bytes, "rank 1 cannot find its network");
    return NP_UNAVAILABLE;
  }
  np_endpoint* const e = (np_endpoint*)calloc(1, sizeof *e);
  if (e == NULL) return NP_NO_MEMORY;
  e->context = context;
  e->listener = e->socket = -1;
  *endpoint = e;
  if (size == 1) return NP_OK;
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  const int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "troupe-%s", getenv("TROUPE_NAME"));
  const socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
  const int one = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (rank == 0) {
    e->listener = one;
    if (bind(one, (struct sockaddr*)&name, bytes) != 0 || listen(one, 1) != 0) {
      const np_status failed = pair_fail(e, NP_FAILED, "cannot listen");
      pair_close(e);
      return failed;
    }
    const np_status status = pair_wait(e, one, POLLIN, context->timeout_ns);
    if (status == NP_OK) e->socket = accept4(one, NULL, NULL, SOCK_CLOEXEC);
    if (e->socket >= 0) return NP_OK;
    const np_status lost = pair_fail(e, status == NP_OK ? NP_FAILED : status, "rank 1 did not come");
    pair_close(e);
    return lost;
  }
  e->socket = one;
  for (int tries = 0; connect(one, (struct sockaddr*)&name, bytes) != 0; ++tries) {
    if (tries < 500 && *context->abort == 0) {
      poll(NULL, 0, 10);
      continue;
    }
    const np_status lost = pair_fail(e, NP_PEER_LOST, "cannot connect to rank 0");
    pair_close(e);
    return lost;
  }
  return NP_OK;
}

static np_status troupe_bootstrap(np_endpoint* e, np_bootstrap* bootstrap) {
  (void)e;
  bootstrap->rank = number("TROUPE_RANK");
  bootstrap->nranks = number("TROUPE_SIZE");
  return NP_OK;
}

static np_status troupe_recv(np_endpoint* e, int peer, void* data, size_t bytes) {
  const np_value* const chosen = e->context->options;
  if (e->context->rank == 1 && bytes == (size_t)chosen[AT].number) {
    if (chosen[FAULT].number == 2) {
      for (;;) pause();
    }
    if (chosen[FAULT].number == 3) abort();
  }
  return pair_recv(e, peer, data, bytes);
}

static void troupe_describe(np_endpoint* e, np_emit emit, void* to) {
  np_emit_integer(emit, to, "own_rank", e->context->rank, NULL);
  np_emit_text(emit, to, "below", "unix");
  np_emit_text(emit, to, "wait", "block");
}

static const np_counter counters[] = {{"rank", "1", "the number of the rank", NP_GAUGE}};

static void troupe_counters(np_endpoint* e, int64_t* values) { values[0] = e->context->rank; }

static const np_module table = {
    .magic = NP_MAGIC,
    .abi = NP_ABI,
    .size = sizeof(np_module),
    .name = "troupe",
    .summary = "test: has a launcher of its own",
    .version = "test",
    .options = options,
    .noptions = sizeof options / sizeof options[0],
    .option_bytes = sizeof(np_option),
    .counters = counters,
    .ncounters = 1,
    .counter_bytes = sizeof(np_counter),
    .process_model = NP_LAUNCHED,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .crosses_hosts = 1,
    .messages = &(const np_messages){.size = sizeof(np_messages), .send = pair_send, .recv = troupe_recv},
    .open = troupe_open,
    .close = pair_close,
    .bootstrap = troupe_bootstrap,
    .describe = troupe_describe,
    .read_counters = troupe_counters,
};

const np_module* netpipe_module(void) { return &table; }
