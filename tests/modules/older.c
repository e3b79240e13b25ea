/* SPDX-License-Identifier: Apache-2.0
 *
 * An older module: each of its tables ends early, as if later versions of module.h had added the rest, and what lies
 * behind the end is garbage. It measures as any other.
 */
#include "pair.h"

#define GARBAGE ((void*)(uintptr_t)0xdeadbeef)

struct old_option { /* up to tunable */
  const char* name;
  np_type type;
  const char* default_value;
  int64_t min, max;
  const char *choices, *unit, *help;
  uint64_t tunable;
};
_Static_assert(sizeof(struct old_option) < sizeof(np_option), "it is shorter");
_Static_assert(offsetof(struct old_option, tunable) == offsetof(np_option, tunable), "it begins alike");

static const struct old_option options[] = {
    {.name = "first", .type = NP_INT, .default_value = "1", .max = 9, .unit = "", .help = "the first option"},
    {.name = "second", .type = NP_INT, .default_value = "2", .max = 9, .unit = "", .help = "the second option"},
};

static const struct {
  uint32_t size, reserved; /* send and recv are all that there was */
  np_status (*send)(np_endpoint* endpoint, int peer, const void* data, size_t bytes);
  np_status (*recv)(np_endpoint* endpoint, int peer, void* data, size_t bytes);
  void* behind[4];
} messages = {.size = offsetof(np_messages, isend),
              .send = pair_send,
              .recv = pair_recv,
              .behind = {GARBAGE, GARBAGE, GARBAGE, GARBAGE}};

/* The number that it was told stands at the right place, whatever the options are called now. */
static void older_describe(np_endpoint* e, np_emit emit, void* to) {
  np_emit_integer(emit, to, "second_option", e->context->options[1].number, NULL);
}

const np_module* netpipe_module(void) {
  static np_module table = {
      .magic = NP_MAGIC,
      .abi = NP_ABI,
      .size = offsetof(np_module, read_counters),
      .name = "older",
      .summary = "test: tables of an older module.h",
      .version = "test",
      .noptions = 2,
      .option_bytes = sizeof(struct old_option),
      .min_ranks = 2,
      .max_ranks = 2,
      .open = pair_open,
      .close = pair_close,
      .address = pair_address,
      .connect = pair_connect,
      .describe = older_describe,
  };
  table.options = (const np_option*)(const void*)options;
  table.messages = (const np_messages*)(const void*)&messages;
  memset((char*)&table + table.size, 0xa5, sizeof table - table.size);
  return &table;
}
