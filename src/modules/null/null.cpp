// SPDX-License-Identifier: Apache-2.0
// null: the module that does nothing. Every operation returns at once, so what is measured is what netpipe itself adds
// to a message: the call through the table, the pattern's loop and the clock. Every run prints it as its floor.
#include "netpipe/module.h"
#include "netpipe/waiting.h"

struct np_endpoint {};  // no state, so one serves all

namespace netpipe::null {
namespace {

np_endpoint only;

np_status open(const np_context*, np_endpoint** endpoint) {
  *endpoint = &only;
  return NP_OK;
}
void close(np_endpoint*) {}

np_status limits(np_endpoint*, np_limits* limits) {
  limits->delivers = 0;
  limits->empty = 1;
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

np_status any_collective(np_endpoint*, void*, const void*, void*, np_request*) { return NP_OK; }
np_status prepare(np_endpoint*, const np_collective_plan*, np_prepared* prepared) {
  *prepared = {any_collective, nullptr};
  return NP_OK;
}
void release(np_endpoint*, np_prepared*) {}
np_status barrier(np_endpoint*) { return NP_OK; }

void describe(np_endpoint*, np_emit emit, void* to) {
  np_emit_text(emit, to, "moves", "nothing");
  np_emit_text(emit, to, "wait", np_waiting_word(NP_WAIT_NONE));
}

constexpr np_messages kMessages = {
    .size = sizeof(np_messages), .send = send, .recv = recv, .isend = isend, .irecv = irecv};
constexpr np_one_sided kOneSided = {.size = sizeof(np_one_sided),
                                    .expose = expose,
                                    .attach = attach,
                                    .withdraw = withdraw,
                                    .put = put,
                                    .get = get,
                                    .fence = barrier,
                                    .flush = flush};
constexpr np_collectives kCollectives = {.size = sizeof(np_collectives), .prepare = prepare, .release = release};

constexpr np_module kModule = {
    .magic = NP_MAGIC,
    .abi = NP_ABI,
    .size = sizeof(np_module),
    .name = "null",
    .summary = "nothing at all: what netpipe itself adds to a message",
    .version = "netpipe",
    .min_ranks = 1,
    .max_ranks = 1,
    .messages = &kMessages,
    .one_sided = &kOneSided,
    .collectives = &kCollectives,
    .open = open,
    .close = close,
    .limits = limits,
    .wait = wait,
    .test = test,
    .barrier = barrier,
    .describe = describe,
    .idle = 1,
};

}  // namespace
}  // namespace netpipe::null

extern "C" [[gnu::visibility("default")]] const np_module* netpipe_module() { return &netpipe::null::kModule; }
