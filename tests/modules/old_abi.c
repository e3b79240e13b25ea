/* SPDX-License-Identifier: Apache-2.0
 *
 * Built for the module ABI before this one: refused, with both numbers named.
 */
#include "pair.h"

static const np_module table = {
    .magic = NP_MAGIC,
    .abi = NP_ABI - 1,
    .size = sizeof(np_module),
    .name = "old_abi",
    .summary = "test: of the ABI before",
    .version = "test",
    .min_ranks = 2,
    .max_ranks = 2,
    .messages = &(const np_messages){.size = sizeof(np_messages), .send = pair_send, .recv = pair_recv},
    .open = pair_open,
    .close = pair_close,
    .address = pair_address,
    .connect = pair_connect,
};

const np_module* netpipe_module(void) { return &table; }
