/* SPDX-License-Identifier: Apache-2.0
 *
 * Delivers every message, and writes one byte more, beside the place that it was given. `--verify` must see it.
 */
#include "pair.h"

static const np_option options[] = {
    {.name = "at",
     .type = NP_INT,
     .default_value = "1",
     .min = -4096,
     .max = 4095,
     .unit = "bytes",
     .help = "where the byte is: behind the end of a message, or below 0 before its beginning"},
};

static np_status recv_and_spill(np_endpoint* e, int peer, void* data, size_t bytes) {
  const np_status status = pair_recv(e, peer, data, bytes);
  if (status != NP_OK) return status;
  const int64_t at = e->context->options[0].number;
  char* const beside = (char*)data + at + (at >= 0 ? (int64_t)bytes : 0);
  *beside = (char)~*beside;
  return NP_OK;
}

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("spills", "test: writes a byte beside each message", pair_send, recv_and_spill);
  table.options = options;
  table.noptions = 1;
  table.option_bytes = sizeof(np_option);
  return &table;
}
