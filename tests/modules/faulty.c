/* SPDX-License-Identifier: Apache-2.0
 *
 * Corrupts what it delivers: one bit of one byte in every `period` bytes, at another place each time. `--verify` must
 * always catch it.
 */
#include "pair.h"

static const np_option options[] = {
    {.name = "period",
     .type = NP_SIZE,
     .default_value = "1000000",
     .min = 1,
     .max = INT64_MAX,
     .unit = "bytes",
     .help = "one byte is corrupted in every so many that one rank receives"},
};

/* The place within one period: the golden ratio spreads successive ones evenly (Knuth, TAOCP vol. 3, 6.4). The ranks
 * differ, or a message that is sent back would have its bit flipped back. */
static uint64_t place(uint64_t index, int rank, uint64_t period) {
  return (2 * index + (uint64_t)rank + 1) * UINT64_C(0x9e3779b97f4a7c15) % period;
}

static np_status recv_corrupted(np_endpoint* e, int peer, void* data, size_t bytes) {
  const np_status status = pair_recv(e, peer, data, bytes);
  if (status != NP_OK) return status;
  const uint64_t period = (uint64_t)e->context->options[0].number;
  const uint64_t first = e->bytes;
  e->bytes += bytes;
  for (uint64_t index = first / period; index * period < e->bytes; ++index) {
    const uint64_t at = index * period + place(index, e->context->rank, period);
    if (at >= first && at < e->bytes) ((unsigned char*)data)[at - first] ^= (unsigned char)(1U << (index % 8));
  }
  return NP_OK;
}

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("faulty", "test: corrupts one byte in a million", pair_send, recv_corrupted);
  table.options = options;
  table.noptions = 1;
  table.option_bytes = sizeof(np_option);
  return &table;
}
