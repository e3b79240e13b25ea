/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports the right name and is no netpipe module: refused before anything else of the table is read.
 */
#include "pair.h"

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("wrong_magic", "test: of another magic number", pair_send, pair_recv);
  table.magic = UINT64_C(0x4d4f44554c452121);
  return &table;
}
