/* SPDX-License-Identifier: Apache-2.0
 *
 * A receive that never returns and does not look at abort: the module that breaks the law. Only the end of its process
 * ends it, so the watchdog must end the process, and the kernel where the module keeps the watchdog's signal away.
 */
#define _GNU_SOURCE
#include <signal.h>

#include "pair.h"

enum { AFTER, HOW };

static const np_option options[] = {
    PAIR_AFTER("messages that a rank receives before it hangs"),
    {.name = "how",
     .type = NP_CHOICE,
     .default_value = "sleep",
     .choices = "sleep|spin|blocks|ignores",
     .unit = "",
     .help = "whether it hangs in a system call or in a loop, or in one with every signal blocked or SIGALRM ignored"},
};

static np_status recv_forever(np_endpoint* e, int peer, void* data, size_t bytes) {
  if (e->messages++ < (uint64_t)e->context->options[AFTER].number) return pair_recv(e, peer, data, bytes);
  const int64_t how = e->context->options[HOW].number;
  sigset_t all;
  sigfillset(&all);
  if (how == 2) sigprocmask(SIG_BLOCK, &all, NULL);
  if (how == 3) signal(SIGALRM, SIG_IGN);
  const volatile int forever = 1;
  while (forever) {
    if (how == 0) pause(); /* a signal wakes it, and it sleeps again */
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
