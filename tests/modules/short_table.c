/* SPDX-License-Identifier: Apache-2.0
 *
 * Its table ends before the last operation, as one built against an unfinished header would: refused, with both sizes
 * named.
 */
#include "pair.h"

static const np_module table = {
    .magic = NP_MAGIC,
    .abi = NP_ABI,
    .size = sizeof(np_module) - sizeof(void*),
    .name = "short_table",
    .summary = "test: of a shorter table",
    .version = "test",
    .min_ranks = 2,
    .max_ranks = 2,
    .open = pair_open,
    .close = pair_close,
    .address = pair_address,
    .connect = pair_connect,
    .limits = pair_limits,
    .send = pair_send,
    .recv = pair_recv,
};

const np_module* netpipe_module(void) { return &table; }
