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

const np_module* netpipe_module(void) {
  static const np_memory* const memories[] = {&memory, NULL};
  static np_module table;
  table = pair_module("no_memory", "test: alloc that gives nothing", pair_send, pair_recv);
  table.memories = memories;
  return &table;
}
