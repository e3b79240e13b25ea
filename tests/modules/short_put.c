/* SPDX-License-Identifier: Apache-2.0
 *
 * Its puts and gets in one process forget the last byte, so `--verify` must always fail; and it has no fence.
 */
#include <string.h>

#include "netpipe/module.h"

/* Exported also where everything else is hidden. */
__attribute__((visibility("default"))) const np_module* netpipe_module(void);

struct np_endpoint {
  char nothing;
};
static np_endpoint the_only;

static np_status short_open(const np_context* context, np_endpoint** endpoint) {
  (void)context;
  *endpoint = &the_only;
  return NP_OK;
}
static void short_close(np_endpoint* e) { (void)e; }

static np_status expose(np_endpoint* e, void* memory, size_t bytes, np_region* region) {
  (void)e;
  memset(region, 0, sizeof *region);
  region->base = memory;
  region->bytes = bytes;
  return NP_OK;
}
static np_status attach(np_endpoint* e, int peer, np_region* region) {
  (void)e, (void)peer, (void)region;
  return NP_OK;
}
static void withdraw(np_endpoint* e, np_region* region) { (void)e, (void)region; }

static np_status put(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset,
                     size_t bytes) {
  (void)e, (void)peer;
  memcpy((char*)target->base + offset, source, bytes - 1);
  return NP_OK;
}
static np_status get(np_endpoint* e, int peer, void* target, const np_region* source, size_t offset, size_t bytes) {
  (void)e, (void)peer;
  memcpy(target, (const char*)source->base + offset, bytes - 1);
  return NP_OK;
}
static np_status flush(np_endpoint* e, int peer) {
  (void)e, (void)peer;
  return NP_OK;
}

static const np_module table = {
    .magic = NP_MAGIC,
    .abi = NP_ABI,
    .size = sizeof(np_module),
    .name = "short_put",
    .summary = "test: puts and gets that forget the last byte",
    .version = "test",
    .min_ranks = 1,
    .max_ranks = 1,
    .one_sided = &(const np_one_sided){.size = sizeof(np_one_sided),
                                       .expose = expose,
                                       .attach = attach,
                                       .withdraw = withdraw,
                                       .put = put,
                                       .get = get,
                                       .flush = flush},
    .open = short_open,
    .close = short_close,
};

const np_module* netpipe_module(void) { return &table; }
