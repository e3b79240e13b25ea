/* SPDX-License-Identifier: Apache-2.0
 *
 * Says that a message has arrived and leaves the receive buffer as it was. A check that compares the buffer with what
 * an earlier message left there would pass; `--verify` must not.
 */
#include "pair.h"

static np_status recv_nothing(np_endpoint* e, int peer, void* data, size_t bytes) {
  (void)data;
  char elsewhere[4096];
  while (bytes > 0) {
    const size_t piece = bytes < sizeof elsewhere ? bytes : sizeof elsewhere;
    const np_status status = pair_recv(e, peer, elsewhere, piece);
    if (status != NP_OK) return status;
    bytes -= piece;
  }
  return NP_OK;
}

static const np_module table = {
    .magic = NP_MAGIC,
    .abi = NP_ABI,
    .size = sizeof(np_module),
    .name = "silent",
    .summary = "test: delivers nothing and says that it did",
    .version = "test",
    .min_ranks = 2,
    .max_ranks = 2,
    .messages = &(const np_messages){.size = sizeof(np_messages), .send = pair_send, .recv = recv_nothing},
    .open = pair_open,
    .close = pair_close,
    .address = pair_address,
    .connect = pair_connect,
};

const np_module* netpipe_module(void) { return &table; }
