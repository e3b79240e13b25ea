/* SPDX-License-Identifier: Apache-2.0
 *
 * A receive that never returns and does not look at abort: the module that breaks the law. Only the end of its process
 * ends it, so the watchdog must end the process.
 */
#include "pair.h"

enum { AFTER, HOW };

static const np_option options[] = {
    PAIR_AFTER("messages that a rank receives before it hangs"),
    {.name = "how",
     .type = NP_CHOICE,
     .default_value = "sleep",
     .choices = "sleep|spin",
     .unit = "",
     .help = "whether it hangs in a system call or in a loop"},
};

static np_status recv_forever(np_endpoint* e, int peer, void* data, size_t bytes) {
  if (e->messages++ < (uint64_t)e->context->options[AFTER].number) return pair_recv(e, peer, data, bytes);
  const volatile int forever = 1;
  while (forever) {
    if (e->context->options[HOW].number == 0) pause(); /* a signal wakes it, and it sleeps again */
  }
  return NP_FAILED;
}

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("hung", "test: a receive that nothing ends", pair_send, recv_forever);
  table.options = options;
  table.noptions = 2;
  table.option_bytes = sizeof(np_option);
  return &table;
}
