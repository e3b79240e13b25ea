/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves nothing and does not say that it is idle, so its times become impossible rates. With delivers=no it says that
 * nothing arrives, which spares it verification.
 */
#include "pair.h"

static const np_option options[] = {
    {.name = "delivers", .type = NP_BOOL, .default_value = "yes", .unit = "", .help = "say that what is sent arrives"},
};

static np_status send_nothing(np_endpoint* e, int peer, const void* data, size_t bytes) {
  (void)e, (void)peer, (void)data, (void)bytes;
  return NP_OK;
}

static np_status recv_nothing(np_endpoint* e, int peer, void* data, size_t bytes) {
  (void)e, (void)peer, (void)data, (void)bytes;
  return NP_OK;
}

static np_status limits(np_endpoint* e, np_limits* out) {
  out->delivers = (uint32_t)e->context->options[0].number;
  return NP_OK;
}

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("idles", "test: moves nothing and does not say so", send_nothing, recv_nothing);
  table.below = "memcpy";
  table.options = options;
  table.noptions = 1;
  table.option_bytes = sizeof(np_option);
  table.limits = limits;
  return &table;
}
