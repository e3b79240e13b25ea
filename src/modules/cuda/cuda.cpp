// SPDX-License-Identifier: Apache-2.0
// cuda: copies between the memory of the host and that of NVIDIA GPUs, within a GPU, and between two: what every
// message out of GPU memory costs at least where it passes through the host. One process; a message is one put or get
// between two of its buffers.
#include <new>
#include <type_traits>

#include "cuda_endpoint.h"
#include "kit/streams/fd.h"

// NOLINTBEGIN(bugprone-macro-parentheses): a symbol
#define NP_CUDA_CHECK(symbol, parameters)                                     \
  static_assert(std::is_same_v<decltype(np_cuda::symbol), decltype(&symbol)>, \
                "kit/gpu/cuda_driver.h and cuda.h disagree about " #symbol);
NP_CUDA_CALLS(NP_CUDA_CHECK)
#undef NP_CUDA_CHECK
// NOLINTEND(bugprone-macro-parentheses)

#define NP_TEXT_OF(number) #number
#define NP_TEXT(number) NP_TEXT_OF(number)

np_endpoint::~np_endpoint() {
  if (device.context != nullptr && np_cuda_use(&device) == NP_OK) {
    if (stream != nullptr) cuda.cuStreamDestroy_v2(stream);
    if (copied != nullptr) cuda.cuEventDestroy_v2(copied);
  }
  np_cuda_close(&peer);
  np_cuda_close(&device);
}

namespace netpipe::cuda {
namespace {

using netpipe::fd_io::fail;

// Lets the device write to the memory of its peer.
np_status join_peer(np_endpoint& e, int number) {
  if (number == e.device.number) {
    return fail(e.context, NP_USAGE, "kind=p2p copies between two devices, and device and peer are both %d", number);
  }
  if (const np_status s = np_cuda_open(&e.peer, &e.cuda, e.context, number); s != NP_OK) return s;
  int can = 0;
  NP_CUDA_TRY(&e.device, cuDeviceCanAccessPeer(&can, e.device.device, e.peer.device), "cuDeviceCanAccessPeer");
  if (can == 0) {
    return fail(e.context, NP_UNAVAILABLE,
                "CUDA device %d cannot reach the memory of device %d (cuDeviceCanAccessPeer): the driver would copy "
                "through the host; `nvidia-smi topo -p2p w` shows which can",
                e.device.number, number);
  }
  if (const np_status s = np_cuda_use(&e.device); s != NP_OK) return s;
  const CUresult error = e.cuda.cuCtxEnablePeerAccess(e.peer.context, 0);
  if (error == CUDA_SUCCESS || error == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) return NP_OK;
  return np_cuda_trouble(&e.device, error, "cuCtxEnablePeerAccess");
}

np_status begin(np_endpoint& e) {
  const np_context* const context = e.context;
  const np_value* const options = context->options;
  if (const np_status s = np_cuda_load(&e.cuda, context->message, context->message_bytes); s != NP_OK) return s;
  const auto number = static_cast<int>(options[kDevice].number);
  if (const np_status s = np_cuda_open(&e.device, &e.cuda, context, number); s != NP_OK) return s;
  e.p2p = e.kind() == Kind::p2p;
  e.blocks = e.wait() == Wait::block;
  if (e.p2p) {
    if (const np_status s = join_peer(e, static_cast<int>(options[kPeer].number)); s != NP_OK) return s;
  }
  if (const np_status s = np_cuda_use(&e.device); s != NP_OK) return s;
  NP_CUDA_TRY(&e.device, cuStreamCreate(&e.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  if (e.blocks) {
    NP_CUDA_TRY(&e.device, cuEventCreate(&e.copied, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  }
  return NP_OK;
}

np_status open(const np_context* context, np_endpoint** endpoint) {
  auto* const made = new (std::nothrow) np_endpoint(context);
  if (made == nullptr) return fail(context, NP_NO_MEMORY, "cuda: no memory for an endpoint");
  const np_status status = begin(*made);
  if (status != NP_OK) {
    delete made;
    return status;
  }
  *endpoint = made;
  return NP_OK;
}

np_status limits(np_endpoint* e, np_limits* limits) {
  if (limits->size < sizeof(np_limits)) {
    return fail(e->context, NP_UNSUPPORTED,
                "cuda needs a netpipe that can have messages start and land in memory of two "
                "kinds; this one is older than the module");
  }
  const Kind kind = e->kind();
  limits->outgoing_memory = kind == Kind::h2d ? kHostMemory : kDeviceMemory;
  limits->incoming_memory = kind == Kind::d2h ? kHostMemory : kind == Kind::p2p ? kPeerMemory : kDeviceMemory;
  return NP_OK;
}

constexpr np_counter kCounters[] = {{"copies", "1", "copies that were handed to the device", NP_COUNTS_UP}};

}  // namespace
}  // namespace netpipe::cuda

extern "C" [[gnu::visibility("default")]] const np_module* netpipe_module() {
  using namespace netpipe::cuda;  // NOLINT(google-build-using-namespace): its table
  static const np_module module = {
      .magic = NP_MAGIC,
      .abi = NP_ABI,
      .size = sizeof(np_module),
      .name = "cuda",
      .summary = "copies between the host and NVIDIA GPUs, within a GPU and between two",
      .version = "CUDA driver API, built with cuda.h " NP_TEXT(CUDA_VERSION),
      .options = kTable,
      .noptions = kOptions,
      .option_bytes = sizeof(np_option),
      .counters = kCounters,
      .ncounters = 1,
      .counter_bytes = sizeof(np_counter),
      .process_model = NP_FORKED,
      .min_ranks = 1,
      .max_ranks = 1,
      .one_sided = &kOneSided,
      .memories = kMemories,
      .probe = np_cuda_probe,
      .open = open,
      .close = [](np_endpoint* e) { delete e; },
      .limits = limits,
      .describe = describe,
      .read_counters = [](np_endpoint* e, int64_t* values) { values[0] = static_cast<int64_t>(e->copies); },
      .prepare = [](np_endpoint* e, const np_visit*) { return np_cuda_use(&e->device); },
  };
  return &module;
}
