/* SPDX-License-Identifier: Apache-2.0
 *
 * A receive that never completes but obeys abort, as a layer does whose message was lost. The deadline must end it,
 * with a sentence, and what was measured before stays.
 */
#include "pair.h"

static const np_option options[] = {
    PAIR_AFTER("messages that a rank receives before it is stuck"),
};

static np_status recv_never(np_endpoint* e, int peer, void* data, size_t bytes) {
  if (e->messages++ < (uint64_t)e->context->options[0].number) return pair_recv(e, peer, data, bytes);
  while (*e->context->abort == 0) poll(NULL, 0, 20);
  errno = ETIMEDOUT;
  return pair_fail(e, NP_ABORTED, "the message never came");
}

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("stuck", "test: a receive that only abort ends", pair_send, recv_never);
  table.options = options;
  table.noptions = 1;
  table.option_bytes = sizeof(np_option);
  return &table;
}
