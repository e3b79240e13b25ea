/* SPDX-License-Identifier: Apache-2.0
 *
 * Its table ends before it says what the module is: refused, with both sizes named.
 */
#include "pair.h"

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("short_table", "test: a table that is too short", pair_send, pair_recv);
  table.size = offsetof(np_module, name);
  return &table;
}
