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

static const np_module table = {
    .magic = NP_MAGIC,
    .abi = NP_ABI,
    .size = sizeof(np_module),
    .name = "unavailable",
    .summary = "test: a layer that is not here",
    .version = "test",
    .min_ranks = 2,
    .max_ranks = 2,
    .messages = &(const np_messages){.size = sizeof(np_messages), .send = pair_send, .recv = pair_recv},
    .probe = probe,
    .open = pair_open,
    .close = pair_close,
    .address = pair_address,
    .connect = pair_connect,
};

const np_module* netpipe_module(void) { return &table; }
