// SPDX-License-Identifier: Apache-2.0
// null: the module that does nothing. Every operation returns at once, so what is measured is what netpipe itself
// adds to a message: the call through the table, the pattern's loop and the clock. It is printed as the floor.
#include "netpipe/module.h"

struct np_endpoint {};  // has no state, and so one is enough for all

namespace netpipe::null {
namespace {

np_endpoint only;

np_status open(const np_context*, np_endpoint** endpoint) {
  *endpoint = &only;
  return NP_OK;
}
void close(np_endpoint*) {}

np_status limits(np_endpoint*, np_limits* limits) {
  *limits = {.max_message_bytes = 0, .alignment = 0, .delivers = 0, .idle = 1};
  return NP_OK;
}

np_status send(np_endpoint*, int, const void*, size_t) { return NP_OK; }
np_status recv(np_endpoint*, int, void*, size_t) { return NP_OK; }
np_status isend(np_endpoint*, int, const void*, size_t, size_t, np_request*, size_t) { return NP_OK; }
np_status irecv(np_endpoint*, int, void*, size_t, size_t, np_request*, size_t) { return NP_OK; }
np_status wait(np_endpoint*, np_request*, size_t) { return NP_OK; }
np_status test(np_endpoint*, np_request*) { return NP_OK; }

np_status expose(np_endpoint*, void* memory, size_t bytes, np_region* region) {
  *region = {};
  region->base = memory;
  region->bytes = bytes;
  return NP_OK;
}
np_status attach(np_endpoint*, int, np_region*) { return NP_OK; }
void withdraw(np_endpoint*, np_region*) {}
np_status put(np_endpoint*, int, const void*, const np_region*, size_t, size_t) { return NP_OK; }
np_status get(np_endpoint*, int, void*, const np_region*, size_t, size_t) { return NP_OK; }
np_status flush(np_endpoint*, int) { return NP_OK; }

np_status any_collective(np_endpoint*, int, const void*, void*, size_t, np_request*) { return NP_OK; }
np_collective_call collective(np_endpoint*, np_collective) { return any_collective; }
np_status barrier(np_endpoint*) { return NP_OK; }

void describe(np_endpoint*, np_emit emit, void* to) {
  emit(to, "wait", "none");
  emit(to, "moves", "nothing");
}

constexpr np_module kModule = {
    .magic = NP_MAGIC,
    .abi = NP_ABI,
    .size = sizeof(np_module),
    .name = "null",
    .summary = "nothing at all: what netpipe itself adds to a message",
    .version = "netpipe",
    .below = nullptr,
    .adds = nullptr,
    .options = nullptr,
    .noptions = 0,
    .min_ranks = 1,
    .max_ranks = 1,
    .crosses_hosts = 0,
    .probe = nullptr,
    .open = open,
    .close = close,
    .bootstrap = nullptr,
    .address = nullptr,
    .connect = nullptr,
    .reset = nullptr,
    .limits = limits,
    .alloc = nullptr,
    .free = nullptr,
    .send = send,
    .recv = recv,
    .isend = isend,
    .irecv = irecv,
    .wait = wait,
    .test = test,
    .expose = expose,
    .attach = attach,
    .withdraw = withdraw,
    .put = put,
    .get = get,
    .fence = barrier,
    .flush = flush,
    .collective = collective,
    .barrier = barrier,
    .describe = describe,
    .counters = nullptr,
    .prepare = nullptr,
};

}  // namespace
}  // namespace netpipe::null

extern "C" [[gnu::visibility("default")]] const np_module* netpipe_module() { return &netpipe::null::kModule; }
