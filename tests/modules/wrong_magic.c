/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports the right name and is no netpipe module: refused before anything else of the table is read.
 */
#include "pair.h"

static const np_module table = {
    .magic = UINT64_C(0x4d4f44554c452121),
    .abi = NP_ABI,
    .size = sizeof(np_module),
    .name = "wrong_magic",
    .summary = "test: of another magic number",
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
