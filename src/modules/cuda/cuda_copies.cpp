// SPDX-License-Identifier: Apache-2.0
// The copies of cuda: each is handed to a stream of the device, and a flush waits until the stream is empty.
#include <sched.h>

#include <cstdint>

#include "cuda_endpoint.h"
#include "kit/streams/fd.h"

namespace netpipe::cuda {
namespace {

using netpipe::fd_io::fail;

[[gnu::cold, gnu::noinline]] np_status outside(const np_endpoint* e, const np_region& region, size_t offset,
                                               size_t bytes) {
  return fail(e->context, NP_USAGE, "cuda: %zu bytes at %zu are not within a region of %llu", bytes, offset,
              static_cast<unsigned long long>(region.bytes));
}

[[gnu::cold, gnu::noinline]] np_status broken(const np_endpoint* e, CUresult error, const char* where) {
  return np_cuda_trouble(&e->device, error, where);
}

np_status start(np_endpoint* e, const void* to, const void* from, size_t bytes) {
  ++e->copies;
  const CUdeviceptr target = np_cuda_address(to), source = np_cuda_address(from);
  const CUresult error =
      e->p2p ? e->cuda.cuMemcpyPeerAsync(target, e->peer.context, source, e->device.context, bytes, e->stream)
             : e->cuda.cuMemcpyAsync(target, source, bytes, e->stream);
  if (error == CUDA_SUCCESS) [[likely]]
    return NP_OK;
  return broken(e, error, e->p2p ? "cuMemcpyPeerAsync" : "cuMemcpyAsync");
}

// A copy waits for no other process, so a wait that sleeps ends by itself.
np_status sleep_until_copied(np_endpoint* e) {
  if (*e->context->abort != 0) return fail(e->context, NP_ABORTED, "cuda: gave up before the end of a copy");
  CUresult error = e->cuda.cuEventRecord(e->copied, e->stream);
  if (error != CUDA_SUCCESS) return broken(e, error, "cuEventRecord");
  error = e->cuda.cuEventSynchronize(e->copied);
  return error == CUDA_SUCCESS ? NP_OK : broken(e, error, "cuEventSynchronize");
}

np_status finish(np_endpoint* e) {
  if (e->blocks) return sleep_until_copied(e);
  for (std::uint32_t looks = 1;; ++looks) {
    const CUresult error = e->cuda.cuStreamQuery(e->stream);
    if (error == CUDA_SUCCESS) return NP_OK;
    if (error != CUDA_ERROR_NOT_READY) return broken(e, error, "cuStreamQuery");
    if (e->context->oversubscribed != 0) sched_yield();
    if (looks % 64 == 0 && *e->context->abort != 0) {
      return fail(e->context, NP_ABORTED, "cuda: gave up while it waited for the end of a copy");
    }
  }
}

bool within(const np_region& region, size_t offset, size_t bytes) {
  return offset <= region.bytes && bytes <= region.bytes - offset;
}

np_status put(np_endpoint* e, int, const void* source, const np_region* target, size_t offset, size_t bytes) {
  if (!within(*target, offset, bytes)) [[unlikely]]
    return outside(e, *target, offset, bytes);
  return start(e, static_cast<char*>(target->base) + offset, source, bytes);
}
np_status get(np_endpoint* e, int, void* target, const np_region* source, size_t offset, size_t bytes) {
  if (!within(*source, offset, bytes)) [[unlikely]]
    return outside(e, *source, offset, bytes);
  return start(e, target, static_cast<const char*>(source->base) + offset, bytes);
}

np_status flush(np_endpoint* e, int) { return finish(e); }
np_status fence(np_endpoint* e) { return finish(e); }

np_status put_each(np_endpoint* e, int peer, const void* source, size_t near_stride, const np_region* target,
                   size_t offset, size_t far_stride, size_t bytes, size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) {
    status = put(e, peer, static_cast<const char*>(source) + i * near_stride, target, offset + i * far_stride, bytes);
    if (status == NP_OK) status = finish(e);
  }
  return status;
}
np_status get_each(np_endpoint* e, int peer, void* target, size_t near_stride, const np_region* source, size_t offset,
                   size_t far_stride, size_t bytes, size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) {
    status = get(e, peer, static_cast<char*>(target) + i * near_stride, source, offset + i * far_stride, bytes);
    if (status == NP_OK) status = finish(e);
  }
  return status;
}

// A process alone reaches all of its own memory.
np_status expose(np_endpoint*, void* memory, size_t bytes, np_region* region) {
  *region = {};
  region->base = memory;
  region->bytes = bytes;
  return NP_OK;
}

}  // namespace

constexpr np_one_sided kOneSided = {
    .size = sizeof(np_one_sided),
    .expose = expose,
    .attach = [](np_endpoint*, int, np_region*) { return NP_OK; },
    .withdraw = [](np_endpoint*, np_region*) {},
    .put = put,
    .get = get,
    .fence = fence,
    .flush = flush,
    .put_each = put_each,
    .get_each = get_each,
};

}  // namespace netpipe::cuda
