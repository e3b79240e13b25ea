/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends and cannot receive: refused, because what belongs together is not there together.
 */
#include "pair.h"

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("half", "test: send without recv", pair_send, NULL);
  return &table;
}
