/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes 16 MiB when it is opened, of which it locks a page, 4 MiB with its first barrier and 8 MiB with its first
 * message, as libraries do that connect only then.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "pair.h"

static void* taken(size_t bytes) {
  void* const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  memset(memory, 1, bytes);
  return memory;
}

static np_status open_hungrily(const np_context* context, np_endpoint** endpoint) {
  void* const memory = taken(16 << 20);
  if (memory == NULL || mlock(memory, 4096) != 0) return NP_NO_MEMORY;
  return pair_open(context, endpoint);
}

static np_status send_hungrily(np_endpoint* e, int peer, const void* data, size_t bytes) {
  if (e->messages++ == 0 && taken(8 << 20) == NULL) return NP_NO_MEMORY;
  return pair_send(e, peer, data, bytes);
}

static np_status meet_hungrily(np_endpoint* e) {
  static int has_met = 0;
  (void)e;
  if (!has_met++ && taken(4 << 20) == NULL) return NP_NO_MEMORY;
  return NP_OK;
}

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("hungry", "test: takes memory, some of it late", send_hungrily, pair_recv);
  table.open = open_hungrily;
  table.barrier = meet_hungrily;
  return &table;
}
