/* SPDX-License-Identifier: Apache-2.0
 *
 * A newer module: each of its tables, and what it fills in for netpipe, is longer than this module.h says. It measures
 * as any other, and nothing of what is new is looked at.
 */
#include "pair.h"

#define GARBAGE ((void*)(uintptr_t)0xdeadbeef)

static const struct new_option {
  np_option now;
  void* later[2];
} options[] = {
    {{.name = "first", .type = NP_INT, .default_value = "1", .max = 9, .unit = "", .help = "the first option"},
     {GARBAGE, GARBAGE}},
    {{.name = "second", .type = NP_INT, .default_value = "2", .max = 9, .unit = "", .help = "the second option"},
     {GARBAGE, GARBAGE}},
};

static const struct new_counter {
  np_counter now;
  void* later;
} counters[] = {{{"opened", "1", "endpoints opened", NP_COUNTS_UP}, GARBAGE},
                {{"rank", "1", "the number of the rank", NP_GAUGE}, GARBAGE}};

static const struct new_messages {
  np_messages now;
  void* later[3];
} messages = {{.size = sizeof(struct new_messages), .send = pair_send, .recv = pair_recv}, {GARBAGE, GARBAGE, GARBAGE}};

/* A kind of memory that this netpipe has never heard of. */
static const np_memory memory = {.size = sizeof(np_memory), .kind = 77};

struct new_limits {
  np_limits now;
  uint64_t later[6];
};

static np_status newer_limits(np_endpoint* e, np_limits* limits) {
  (void)e;
  *(struct new_limits*)(void*)limits =
      (struct new_limits){{.size = sizeof(struct new_limits), .delivers = 1}, {1, 2, 3}};
  return NP_OK;
}

static void newer_describe(np_endpoint* e, np_emit emit, void* to) {
  const struct {
    np_fact now;
    void* later;
  } fact = {
      {.size = sizeof fact, .kind = NP_FACT_INTEGER, .name = "second_option", .integer = e->context->options[1].number},
      GARBAGE};
  emit(to, &fact.now);
}

static void newer_counters(np_endpoint* e, int64_t* values) {
  values[0] = 1;
  values[1] = e->context->rank;
}

static const struct new_module {
  np_module now;
  void* later[4];
} table = {
    {
        .magic = NP_MAGIC,
        .abi = NP_ABI,
        .size = sizeof(struct new_module),
        .name = "newer",
        .summary = "test: tables of a newer module.h",
        .version = "test",
        .options = &options[0].now,
        .noptions = 2,
        .option_bytes = sizeof(struct new_option),
        .counters = &counters[0].now,
        .ncounters = 2,
        .counter_bytes = sizeof(struct new_counter),
        .min_ranks = 2,
        .max_ranks = 2,
        .messages = &messages.now,
        .memories = (const np_memory* const[]){&memory, NULL},
        .open = pair_open,
        .close = pair_close,
        .address = pair_address,
        .connect = pair_connect,
        .limits = newer_limits,
        .describe = newer_describe,
        .read_counters = newer_counters,
    },
    {GARBAGE, GARBAGE, GARBAGE, GARBAGE},
};

const np_module* netpipe_module(void) { return &table.now; }
