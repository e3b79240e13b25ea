/* SPDX-License-Identifier: Apache-2.0
 *
 * Its table ends before it says what the module is: refused, with both sizes named.
 */
#include "pair.h"

static const np_module table = {
    .magic = NP_MAGIC,
    .abi = NP_ABI,
    .size = offsetof(np_module, name),
    .name = "short_table",
    .summary = "test: a table that is too short",
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
