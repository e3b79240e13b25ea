/* SPDX-License-Identifier: Apache-2.0
 *
 * Has put and get, but rank 1 does not open its memory: it fails, says that it cannot, or finds no way to rank 0's.
 */
#include "pair.h"

static const np_option options[] = {
    {.name = "how",
     .type = NP_CHOICE,
     .default_value = "expose",
     .choices = "expose|unsupported|attach",
     .unit = "",
     .help = "where rank 1 fails"},
};
enum { EXPOSE, UNSUPPORTED, ATTACH };

static np_status refuse(const np_endpoint* e, np_status status, const char* sentence) {
  snprintf(e->context->message, e->context->message_bytes, "%s", sentence);
  return status;
}
static int does(const np_endpoint* e, int64_t how) {
  return e->context->rank == 1 && e->context->options[0].number == how;
}

static np_status expose(np_endpoint* e, void* memory, size_t bytes, np_region* region) {
  if (does(e, EXPOSE)) return refuse(e, NP_NO_MEMORY, "the device has no room for another key");
  if (does(e, UNSUPPORTED)) return refuse(e, NP_UNSUPPORTED, "the device has no keys");
  memset(region, 0, sizeof *region);
  region->base = memory;
  region->bytes = bytes;
  return NP_OK;
}

static np_status attach(np_endpoint* e, int peer, np_region* region) {
  (void)peer, (void)region;
  return does(e, ATTACH) ? refuse(e, NP_FAILED, "the key of rank 0 has expired") : NP_OK;
}

static void withdraw(np_endpoint* e, np_region* region) { (void)e, (void)region; }

static np_status never_put(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset,
                           size_t bytes) {
  (void)peer, (void)source, (void)target, (void)offset, (void)bytes;
  return refuse(e, NP_FAILED, "a put though memory was not opened");
}
static np_status never_get(np_endpoint* e, int peer, void* target, const np_region* source, size_t offset,
                           size_t bytes) {
  (void)peer, (void)target, (void)source, (void)offset, (void)bytes;
  return refuse(e, NP_FAILED, "a get though memory was not opened");
}

static np_status flush(np_endpoint* e, int peer) {
  (void)e, (void)peer;
  return NP_OK;
}

static np_status barrier(np_endpoint* e) {
  char byte = 0;
  const np_status status = pair_send(e, 1 - e->context->rank, &byte, 1);
  return status == NP_OK ? pair_recv(e, 1 - e->context->rank, &byte, 1) : status;
}

const np_module* netpipe_module(void) {
  static const np_one_sided one_sided = {.size = sizeof(np_one_sided),
                                         .expose = expose,
                                         .attach = attach,
                                         .withdraw = withdraw,
                                         .put = never_put,
                                         .get = never_get,
                                         .flush = flush};
  static np_module table;
  table = pair_module("closed", "test: a rank that does not open its memory", pair_send, pair_recv);
  table.options = options;
  table.noptions = 1;
  table.option_bytes = sizeof(np_option);
  table.one_sided = &one_sided;
  table.barrier = barrier;
  return &table;
}
