/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer to tune, whose best settings are known: mode=fast and a buffer of 64 KiB or more. Some of its settings are
 * refused, hang, or kill the process, and one does nothing. A wide lane gains only when the gate is open. It really
 * takes the time that it says, asleep, so that it does so on a busy machine as well.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <time.h>

#include "../modules/pair.h"

enum { MODE, BUFFER, USELESS, GATE, LANE };
enum { SLOW, FAST, REFUSED, HANG, DIES };
enum { SLOW_US = 600, FAST_US = 200, SMALL_BUFFER_US = 3000, ENOUGH_BYTES = 65536 };
enum { GATE_US = 100, LANE_US = 90, HELD_BACK_US = 60 };

static const np_option options[] = {
    {.name = "mode",
     .type = NP_CHOICE,
     .default_value = "slow",
     .choices = "slow|fast|refused|hang|dies",
     .unit = "",
     .help = "how it sends",
     .tunable = 1},
    {.name = "buffer",
     .type = NP_SIZE,
     .default_value = "4k",
     .min = 1024,
     .max = 1 << 20,
     .unit = "bytes",
     .help = "a buffer that may be too small",
     .tunable = 1},
    {.name = "useless", .type = NP_BOOL, .default_value = "no", .unit = "", .help = "does nothing", .tunable = 1},
    {.name = "gate",
     .type = NP_CHOICE,
     .default_value = "closed",
     .choices = "closed|open",
     .unit = "",
     .help = "what holds the lanes back",
     .tunable = 1},
    {.name = "lane",
     .type = NP_CHOICE,
     .default_value = "narrow",
     .choices = "narrow|wide",
     .unit = "",
     .help = "gains only where the gate is open",
     .tunable = 1},
};

static np_status tunable_open(const np_context* context, np_endpoint** endpoint) {
  if (context->options[MODE].number == REFUSED) {
    snprintf(context->message, context->message_bytes, "this layer has no mode=refused; choose another");
    return NP_USAGE;
  }
  return pair_open(context, endpoint);
}

static np_status tunable_send(np_endpoint* e, int peer, const void* data, size_t bytes) {
  const np_value* const value = e->context->options;
  if (value[MODE].number == DIES) raise(SIGKILL);
  while (value[MODE].number == HANG && *e->context->abort == 0) poll(NULL, 0, 10);
  if (*e->context->abort != 0) return NP_ABORTED;
  int64_t us = value[MODE].number == FAST ? FAST_US : SLOW_US;
  if (value[BUFFER].number < ENOUGH_BYTES) us += SMALL_BUFFER_US;
  const int wide = value[LANE].number != 0;
  if (value[GATE].number != 0) us -= wide ? GATE_US + LANE_US : GATE_US;
  if (value[GATE].number == 0 && wide) us += HELD_BACK_US;
  const struct timespec pause = {.tv_nsec = us * 1000};
  nanosleep(&pause, NULL);
  return pair_send(e, peer, data, bytes);
}

static void tunable_describe(np_endpoint* e, np_emit emit, void* to) {
  np_emit_text(emit, to, "mode", e->context->options[MODE].text);
  np_emit_integer(emit, to, "buffer_bytes", e->context->options[BUFFER].number, "bytes");
  np_emit_bool(emit, to, "useless", 0);
}

const np_module* netpipe_module(void) {
  static np_module module;
  module = pair_module("tunable", "settings whose best is known", tunable_send, pair_recv);
  module.open = tunable_open;
  module.describe = tunable_describe;
  module.options = options;
  module.noptions = sizeof options / sizeof options[0];
  module.option_bytes = sizeof(np_option);
  return &module;
}
