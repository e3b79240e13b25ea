// SPDX-License-Identifier: Apache-2.0
// nccl: messages and collective operations of NCCL, NVIDIA's library between GPUs. Each rank has one device, and all
// messages lie in its memory.
#include <pthread.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "kit/streams/fd.h"
#include "nccl_endpoint.h"
#include "netpipe/waiting.h"

np_endpoint::~np_endpoint() {
  if (device.context != nullptr && np_cuda_use(&device) == NP_OK) {
    if (comm != nullptr) status == NP_OK && *context->abort == 0 ? nccl.destroy(comm) : nccl.abort(comm);
    if (stream != nullptr) cuda.cuStreamDestroy_v2(stream);
  }
  np_cuda_close(&device);
}

namespace netpipe::nccl {
namespace {

using netpipe::fd_io::fail;
using netpipe::fd_io::now_ns;

constexpr np_option kTable[kOptions] = {
    {"device", NP_INT, "-1", -1, 255, nullptr, "",
     "number of the device of every rank; -1 gives the ranks the devices of their host in turn (NCCL refuses two ranks "
     "on one device)",
     0},
};

np_status probe(char* message, size_t message_bytes) {
  if (const np_status s = np_cuda_probe(message, message_bytes); s != NP_OK) return s;
  Library library;
  return load(library, message, message_bytes);
}

np_status begin(np_endpoint& e) {
  const np_context* const context = e.context;
  np_status s = load(e.nccl, context->message, context->message_bytes);
  if (s == NP_OK) s = np_cuda_load(&e.cuda, context->message, context->message_bytes);
  const auto wanted = static_cast<int>(context->options[kDevice].number);
  if (s == NP_OK) s = np_cuda_open_for(&e.device, &e.cuda, context, wanted, np_cuda_place(context));
  if (s != NP_OK) return s;
  e.waiting.reserve(kMostInGroup);
  e.needed.resize(static_cast<size_t>(context->nranks));
  NP_CUDA_TRY(&e.device, cuStreamCreate(&e.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  return context->rank == 0 ? e.checked(e.nccl.unique_id(&e.id), "ncclGetUniqueId") : NP_OK;
}

np_status open(const np_context* context, np_endpoint** endpoint) {
  std::unique_ptr<np_endpoint> made(new (std::nothrow) np_endpoint(context));
  if (!made) return fail(context, NP_NO_MEMORY, "nccl: no memory for an endpoint");
  try {
    if (const np_status s = begin(*made); s != NP_OK) return s;
  } catch (const std::bad_alloc&) {
    return fail(context, NP_NO_MEMORY, "nccl: no memory for requests");
  }
  *endpoint = made.release();
  return NP_OK;
}

// Rank 0's identifier says where its others find it; all others have nothing to tell.
np_status address(np_endpoint* e, void* data, size_t* bytes) {
  const size_t needed = e->context->rank == 0 ? sizeof e->id : 0;
  if (*bytes < needed) return fail(e->context, NP_FAILED, "nccl: no room for an address");
  if (needed != 0) std::memcpy(data, &e->id, needed);
  *bytes = needed;
  return NP_OK;
}

// ncclCommInitRank waits for all ranks and cannot be told to give up, so a thread calls it. What it never ends is left
// to the end of the process.
struct Joining {
  Library nccl;
  np_cuda cuda;
  CUcontext device;
  ncclUniqueId id;
  int rank, nranks;
  ncclComm_t comm = nullptr;
  ncclResult_t result = ncclInternalError;
  std::atomic<bool> over{false};
};

void* join(void* given) {
  const std::unique_ptr<std::shared_ptr<Joining>> kept(static_cast<std::shared_ptr<Joining>*>(given));
  Joining& j = **kept;
  j.cuda.cuCtxSetCurrent(j.device);
  j.result = j.nccl.init(&j.comm, j.nranks, j.id, j.rank);
  j.over.store(true, std::memory_order_release);
  return nullptr;
}

np_status join_all(np_endpoint& e) {
  const np_context* const context = e.context;
  auto joining = std::make_shared<Joining>();
  joining->nccl = e.nccl;
  joining->cuda = e.cuda;
  joining->device = e.device.context;
  joining->id = e.id;
  joining->rank = context->rank;
  joining->nranks = context->nranks;
  auto given = std::make_unique<std::shared_ptr<Joining>>(joining);
  pthread_t thread{};
  if (pthread_create(&thread, nullptr, join, given.get()) != 0) {
    return fail(context, NP_FAILED, "nccl: no thread can be started");
  }
  [[maybe_unused]] const auto* const owned_by_the_thread = given.release();
  pthread_detach(thread);
  const int64_t deadline_ns = now_ns() + context->timeout_ns;
  while (!joining->over.load(std::memory_order_acquire)) {
    if (*context->abort != 0) return fail(context, NP_ABORTED, "nccl: gave up before all ranks had met");
    if (now_ns() > deadline_ns) {
      return fail(context, NP_FAILED, "nccl: ncclCommInitRank did not return in time on rank %d of %d", context->rank,
                  context->nranks);
    }
    const timespec moment{0, 200'000};
    nanosleep(&moment, nullptr);
  }
  if (const np_status s = e.checked(joining->result, "ncclCommInitRank"); s != NP_OK) return s;
  e.comm = joining->comm;
  return NP_OK;
}

np_status connect(np_endpoint* e, const void* const* addresses, const size_t* bytes) {
  if (bytes[0] != sizeof e->id) return fail(e->context, NP_FAILED, "nccl: rank 0 sent a malformed address");
  std::memcpy(&e->id, addresses[0], sizeof e->id);
  if (const np_status s = np_cuda_use(&e->device); s != NP_OK) return s;
  try {
    return join_all(*e);
  } catch (const std::exception&) {
    return fail(e->context, NP_NO_MEMORY, "nccl: no memory to connect");
  }
}

void describe(np_endpoint* e, np_emit emit, void* to) {
  int version = 0;
  np_emit_text(emit, to, "wait", np_waiting_word(e->context->oversubscribed != 0 ? NP_WAIT_YIELD : NP_WAIT_POLL));
  np_emit_text(emit, to, "receives", "when waited for");  // none is posted ahead, whatever the pattern
  np_cuda_describe(&e->device, emit, to);
  if (e->nccl.version(&version) == ncclSuccess) {
    // 2.9 and later: 2.32.3 is 23203
    const std::string text = std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
                             std::to_string(version % 100);
    np_emit_text(emit, to, "library", ("NCCL " + text).c_str());
  }
}

constexpr np_memory kMemory = {
    .size = sizeof(np_memory),
    .kind = NP_MEMORY_DEVICE,
    .alloc = [](np_endpoint* e, size_t bytes, void** memory) { return np_cuda_alloc(&e->device, bytes, memory); },
    .free = [](np_endpoint* e, void* memory, size_t) { np_cuda_free(&e->device, memory); },
    .copy_in = [](np_endpoint* e, void* memory, const void* host,
                  size_t bytes) { return np_cuda_copy(&e->device, memory, host, bytes); },
    .copy_out = [](np_endpoint* e, void* host, const void* memory,
                   size_t bytes) { return np_cuda_copy(&e->device, host, memory, bytes); },
    .fill = [](np_endpoint* e, void* memory, int byte,
               size_t bytes) { return np_cuda_fill(&e->device, memory, byte, bytes); },
    .compare = [](np_endpoint* e, const void* memory, const void* host, size_t bytes,
                  size_t* equal) { return np_cuda_compare(&e->device, memory, host, bytes, equal); },
};
constexpr const np_memory* kMemories[] = {&kMemory, nullptr};

constexpr np_counter kCounters[] = {
    {"launches", "1", "groups of sends and receives, and collective operations, that were handed to the stream",
     NP_COUNTS_UP}};

#define NP_TEXT_OF(number) #number
#define NP_TEXT(number) NP_TEXT_OF(number)

}  // namespace
}  // namespace netpipe::nccl

extern "C" [[gnu::visibility("default")]] const np_module* netpipe_module() {
  using namespace netpipe::nccl;  // NOLINT(google-build-using-namespace): its table
  static const np_module module = {
      .magic = NP_MAGIC,
      .abi = NP_ABI,
      .size = sizeof(np_module),
      .name = "nccl",
      .summary = "messages and collective operations of NCCL between NVIDIA GPUs",
      .version = "NCCL, built with nccl.h " NP_TEXT(NCCL_MAJOR) "." NP_TEXT(NCCL_MINOR) "." NP_TEXT(NCCL_PATCH),
      .adds = "NCCL",
      .options = kTable,
      .noptions = kOptions,
      .option_bytes = sizeof(np_option),
      .counters = kCounters,
      .ncounters = 1,
      .counter_bytes = sizeof(np_counter),
      .process_model = NP_FORKED,
      .min_ranks = 2,
      .max_ranks = INT32_MAX,
      .crosses_hosts = 1,
      .messages = &kMessages,
      .collectives = &kCollectives,
      .memories = kMemories,
      .probe = probe,
      .open = open,
      .close = [](np_endpoint* e) { delete e; },
      .address = address,
      .connect = connect,
      .wait = [](np_endpoint* e, np_request* requests, size_t count) { return e->finish(requests, count); },
      .test = [](np_endpoint* e, np_request* request) { return e->look(request); },
      .describe = describe,
      .read_counters = [](np_endpoint* e, int64_t* values) { values[0] = static_cast<int64_t>(e->groups); },
      .prepare = [](np_endpoint* e, const np_visit*) { return np_cuda_use(&e->device); },
  };
  return &module;
}
