/* SPDX-License-Identifier: Apache-2.0
 *
 * Fits, and cannot be used on this machine: its probe says so. It is listed with that sentence, and asking for it is
 * exit code 3.
 */
#include "pair.h"

static np_status probe(char* message, size_t message_bytes) {
  snprintf(message, message_bytes, "no teleporter is attached; plug one in and load its driver");
  return NP_UNAVAILABLE;
}

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("unavailable", "test: a layer that is not here", pair_send, pair_recv);
  table.probe = probe;
  return &table;
}
