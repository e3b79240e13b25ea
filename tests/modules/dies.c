/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank kills its own process with SIGKILL in a phase that the test chooses. The other must end with a sentence that
 * names the rank, and what was measured so far must be kept.
 */
#define _GNU_SOURCE
#include <signal.h>

#include "pair.h"

enum { RANK, WHEN, AFTER };
enum { OPEN, ADDRESS, CONNECT, SEND, RECV, CLOSE };

static const np_option options[] = {
    {.name = "rank",
     .type = NP_INT,
     .default_value = "1",
     .min = 0,
     .max = 1,
     .unit = "",
     .help = "the rank that dies"},
    {.name = "when",
     .type = NP_CHOICE,
     .default_value = "recv",
     .choices = "open|address|connect|send|recv|close",
     .unit = "",
     .help = "the call in which it dies"},
    PAIR_AFTER("with send and recv: how many of these calls return before"),
};

static void perhaps_die(const np_context* context, int64_t phase, uint64_t calls) {
  if (context->rank != context->options[RANK].number || context->options[WHEN].number != phase) return;
  if (calls >= (uint64_t)context->options[AFTER].number) raise(SIGKILL);
}

static np_status open_or_die(const np_context* context, np_endpoint** endpoint) {
  perhaps_die(context, OPEN, UINT64_MAX);
  return pair_open(context, endpoint);
}

static np_status address_or_die(np_endpoint* e, void* data, size_t* bytes) {
  perhaps_die(e->context, ADDRESS, UINT64_MAX);
  return pair_address(e, data, bytes);
}

static np_status connect_or_die(np_endpoint* e, const void* const* addresses, const size_t* bytes) {
  perhaps_die(e->context, CONNECT, UINT64_MAX);
  return pair_connect(e, addresses, bytes);
}

static np_status send_or_die(np_endpoint* e, int peer, const void* data, size_t bytes) {
  perhaps_die(e->context, SEND, e->messages);
  e->messages += e->context->options[WHEN].number == SEND;
  return pair_send(e, peer, data, bytes);
}

static np_status recv_or_die(np_endpoint* e, int peer, void* data, size_t bytes) {
  perhaps_die(e->context, RECV, e->messages);
  e->messages += e->context->options[WHEN].number == RECV;
  return pair_recv(e, peer, data, bytes);
}

static void close_or_die(np_endpoint* e) {
  perhaps_die(e->context, CLOSE, UINT64_MAX);
  pair_close(e);
}

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("dies", "test: one rank kills itself", send_or_die, recv_or_die);
  table.options = options;
  table.noptions = 3;
  table.option_bytes = sizeof(np_option);
  table.open = open_or_die;
  table.close = close_or_die;
  table.address = address_or_die;
  table.connect = connect_or_die;
  return &table;
}
