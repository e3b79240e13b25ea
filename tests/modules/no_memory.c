/* SPDX-License-Identifier: Apache-2.0
 *
 * Has memory of its own to give, and none of it left.
 */
#include "pair.h"

static np_status alloc_nothing(np_endpoint* e, size_t bytes, void** memory) {
  (void)bytes;
  *memory = NULL;
  snprintf(e->context->message, e->context->message_bytes, "the device has 0 of 3 windows left");
  return NP_FAILED;
}

static void free_nothing(np_endpoint* e, void* memory, size_t bytes) { (void)e, (void)memory, (void)bytes; }

static const np_memory memory = {
    .size = sizeof(np_memory), .kind = NP_MEMORY_LAYER, .host_access = 1, .alloc = alloc_nothing, .free = free_nothing};

static const np_module table = {
    .magic = NP_MAGIC,
    .abi = NP_ABI,
    .size = sizeof(np_module),
    .name = "no_memory",
    .summary = "test: alloc that gives nothing",
    .version = "test",
    .min_ranks = 2,
    .max_ranks = 2,
    .messages = &(const np_messages){.size = sizeof(np_messages), .send = pair_send, .recv = pair_recv},
    .memories = (const np_memory* const[]){&memory, NULL},
    .open = pair_open,
    .close = pair_close,
    .address = pair_address,
    .connect = pair_connect,
};

const np_module* netpipe_module(void) { return &table; }
