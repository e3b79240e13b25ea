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

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("silent", "test: delivers nothing and says that it did", pair_send, recv_nothing);
  return &table;
}
