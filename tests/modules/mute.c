/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank 1 cannot receive more than 64 bytes, which rank 0 does not know, so the variant is closed and opened again; and
 * it is silent for a while when its counters are read, as a rank is that gets no processor.
 */
#include <errno.h>
#include <time.h>

#include "pair.h"

enum { MOST = 64 };

static const np_option options[] = {
    {.name = "silent_ms",
     .type = NP_INT,
     .default_value = "0",
     .min = 0,
     .max = 60000,
     .unit = "ms",
     .help = "for which rank 1 is silent when its counters are read"},
};
static const np_counter counters[] = {{"receives", "1", "messages that were received", NP_COUNTS_UP}};

static np_status recv_some(np_endpoint* e, int peer, void* data, size_t bytes) {
  ++e->messages;
  if (e->context->rank != 1 || bytes <= MOST) return pair_recv(e, peer, data, bytes);
  e->bytes = bytes; /* from now on it is silent */
  snprintf(e->context->message, e->context->message_bytes, "rank 1 receives %d bytes at most", MOST);
  return NP_UNSUPPORTED;
}

static void count(np_endpoint* e, int64_t* values) {
  const long ms = (long)e->context->options[0].number;
  struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  while (e->bytes > 0 && nanosleep(&left, &left) != 0 && errno == EINTR) {
  } /* the signals of a watchdog wake it */
  values[0] = (int64_t)e->messages;
}

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("mute", "test: a rank that falls silent while it is closed", pair_send, recv_some);
  table.options = options;
  table.noptions = 1;
  table.option_bytes = sizeof(np_option);
  table.counters = counters;
  table.ncounters = 1;
  table.counter_bytes = sizeof(np_counter);
  table.read_counters = count;
  return &table;
}
