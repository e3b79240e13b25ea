/* SPDX-License-Identifier: Apache-2.0
 *
 * A module with one option of each type, for the tests of what is done with options. It moves nothing.
 */
#include "netpipe/module.h"

__attribute__((visibility("default"))) const np_module* netpipe_module(void);

static const np_option options[] = {
    {.name = "poll", .type = NP_BOOL, .default_value = "off", .unit = "", .help = "a choice of two"},
    {.name = "depth", .type = NP_INT, .default_value = "4", .min = -2, .max = 64, .unit = "", .help = "a number"},
    {.name = "buffer",
     .type = NP_SIZE,
     .default_value = "65536",
     .min = 16,
     .max = 1 << 20,
     .unit = "bytes",
     .help = "a size whose default is not written in the shortest way",
     .tunable = 1,
     .unsupported = "32|64 with wait=poll: polling needs a page"},
    {.name = "wait",
     .type = NP_CHOICE,
     .default_value = "block",
     .choices = "block|poll|hybrid",
     .unit = "",
     .help = "a choice of three"},
    {.name = "device", .type = NP_TEXT, .default_value = "", .unit = "", .help = "any text"},
};

static np_status open_nothing(const np_context* context, np_endpoint** endpoint) {
  (void)context, (void)endpoint;
  return NP_UNSUPPORTED;
}
static void close_nothing(np_endpoint* endpoint) { (void)endpoint; }
static np_status address(np_endpoint* endpoint, void* data, size_t* bytes) {
  (void)endpoint, (void)data, (void)bytes;
  return NP_UNSUPPORTED;
}
static np_status connect_nothing(np_endpoint* endpoint, const void* const* addresses, const size_t* bytes) {
  (void)endpoint, (void)addresses, (void)bytes;
  return NP_UNSUPPORTED;
}
static np_status send_nothing(np_endpoint* endpoint, int peer, const void* data, size_t bytes) {
  (void)endpoint, (void)peer, (void)data, (void)bytes;
  return NP_UNSUPPORTED;
}
static np_status recv_nothing(np_endpoint* endpoint, int peer, void* data, size_t bytes) {
  (void)endpoint, (void)peer, (void)data, (void)bytes;
  return NP_UNSUPPORTED;
}

static const np_module table = {
    .magic = NP_MAGIC,
    .abi = NP_ABI,
    .size = sizeof(np_module),
    .name = "many_options",
    .summary = "test: one option of each type",
    .version = "test",
    .options = options,
    .noptions = sizeof options / sizeof *options,
    .option_bytes = sizeof(np_option),
    .min_ranks = 2,
    .max_ranks = 2,
    .messages = &(const np_messages){.size = sizeof(np_messages), .send = send_nothing, .recv = recv_nothing},
    .open = open_nothing,
    .close = close_nothing,
    .address = address,
    .connect = connect_nothing,
};

const np_module* netpipe_module(void) { return &table; }
