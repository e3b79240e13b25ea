/* SPDX-License-Identifier: Apache-2.0
 *
 * Built for the module ABI before this one: refused, with both numbers named.
 */
#include "pair.h"

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("old_abi", "test: of the ABI before", pair_send, pair_recv);
  table.abi = NP_ABI - 1;
  return &table;
}
