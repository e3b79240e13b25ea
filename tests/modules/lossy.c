/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer that loses messages, as often as it is told to: every n-th message of a rank becomes a word that says so, and
 * the receive that would have had it returns NP_LOST. Options make it lie about that.
 */
#include "pair.h"

enum { EVERY, ADMITS, REPORTS };
static const np_option options[] = {
    {.name = "every",
     .type = NP_INT,
     .default_value = "10",
     .min = 0,
     .max = 1000000,
     .unit = "",
     .help = "each rank loses one of so many messages; 0: none"},
    {.name = "admits", .type = NP_BOOL, .default_value = "yes", .unit = "", .help = "its limits say that it is lossy"},
    {.name = "reports", .type = NP_BOOL, .default_value = "yes", .unit = "", .help = "no: it keeps quiet about losses"},
};
static int64_t option(const np_endpoint* e, int which) { return e->context->options[which].number; }

static const np_counter counters[] = {{"lost", "1", "messages that did not arrive", NP_COUNTS_UP},
                                      {"rank", "1", "the number of the rank", NP_GAUGE},
                                      {"sent", "1", "messages that were sent, or lost instead", NP_COUNTS_UP}};
static const np_measure measures[] = {{"missing", "1", "messages that did not arrive, of all sent", 0, 2}};

/* pair.h: messages counts those that were sent, bytes those that were lost here. */
static np_status lossy_send(np_endpoint* e, int peer, const void* data, size_t bytes) {
  const int64_t every = option(e, EVERY);
  const char lost = every > 0 && ++e->messages % (uint64_t)every == 0;
  const np_status status = pair_send(e, peer, &lost, 1);
  return status != NP_OK || lost ? status : pair_send(e, peer, data, bytes);
}

static np_status lossy_recv(np_endpoint* e, int peer, void* data, size_t bytes) {
  char lost = 0;
  const np_status status = pair_recv(e, peer, &lost, 1);
  if (status != NP_OK || !lost) return status != NP_OK ? status : pair_recv(e, peer, data, bytes);
  ++e->bytes;
  return option(e, REPORTS) ? NP_LOST : NP_OK;
}

static np_status lossy_limits(np_endpoint* e, np_limits* limits) {
  limits->lossy = (uint32_t)option(e, ADMITS);
  return NP_OK;
}

static void lossy_counters(np_endpoint* e, int64_t* values) {
  values[0] = (int64_t)e->bytes;
  values[1] = e->context->rank;
  values[2] = (int64_t)e->messages;
}

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("lossy", "test: a layer that loses messages", lossy_send, lossy_recv);
  table.options = options;
  table.noptions = sizeof options / sizeof *options;
  table.option_bytes = sizeof(np_option);
  table.counters = counters;
  table.ncounters = sizeof counters / sizeof *counters;
  table.counter_bytes = sizeof(np_counter);
  table.measures = measures;
  table.nmeasures = 1;
  table.measure_bytes = sizeof(np_measure);
  table.limits = lossy_limits;
  table.read_counters = lossy_counters;
  return &table;
}
