/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer on which nothing settles: before each visit it chooses at random how fast it is, from one to 256 times, and
 * each message takes up to four times as long again.
 */
#define _GNU_SOURCE /* before the first header: pair.h needs it too */
#include <time.h>

#include "pair.h"

enum { FASTEST_NS = 2000, DOUBLINGS = 9, WANDERS = 4 };

static uint64_t random_state;
static int64_t pace_ns = FASTEST_NS;

static uint64_t random_number(void) {
  random_state = random_state * 6364136223846793005U + 1442695040888963407U;
  return random_state >> 33U;
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static np_status restless_send(np_endpoint* e, int peer, const void* data, size_t bytes) {
  const int64_t end = now_ns() + pace_ns * (int64_t)(1 + random_number() % WANDERS);
  while (now_ns() < end) {
  }
  return pair_send(e, peer, data, bytes);
}

static np_status restless_prepare(np_endpoint* e, const np_visit* visit) {
  (void)e, (void)visit;
  if (random_state == 0) random_state = (uint64_t)now_ns();
  pace_ns = FASTEST_NS << (random_number() % DOUBLINGS);
  return NP_OK;
}

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("restless", "test: a layer on which nothing settles", restless_send, pair_recv);
  table.prepare = restless_prepare;
  return &table;
}
