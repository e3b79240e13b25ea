// SPDX-License-Identifier: Apache-2.0
// The three kinds of memory that a copy starts from or ends in: of the device, of its peer, and of the host.
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "cuda_endpoint.h"
#include "kit/streams/fd.h"

namespace netpipe::cuda {
namespace {

using netpipe::fd_io::fail;

// Before memory goes: a copy that was given up may still be on its way into it or out of it.
void drain(np_endpoint* e) {
  if (np_cuda_use(&e->device) == NP_OK && e->stream != nullptr) e->cuda.cuStreamSynchronize(e->stream);
}

// The two of it differ in where they allocate alone.
template <np_cuda_device np_endpoint::* where>
constexpr np_memory device_memory() {
  return {
      .size = sizeof(np_memory),
      .kind = NP_MEMORY_DEVICE,
      .alloc = [](np_endpoint* e, size_t bytes, void** memory) { return np_cuda_alloc(&(e->*where), bytes, memory); },
      .free =
          [](np_endpoint* e, void* memory, size_t) {
            drain(e);
            np_cuda_free(&(e->*where), memory);
          },
      .copy_in = [](np_endpoint* e, void* memory, const void* host,
                    size_t bytes) { return np_cuda_copy(&(e->*where), memory, host, bytes); },
      .copy_out = [](np_endpoint* e, void* host, const void* memory,
                     size_t bytes) { return np_cuda_copy(&(e->*where), host, memory, bytes); },
      .fill = [](np_endpoint* e, void* memory, int byte,
                 size_t bytes) { return np_cuda_fill(&(e->*where), memory, byte, bytes); },
      .compare = [](np_endpoint* e, const void* memory, const void* host, size_t bytes,
                    size_t* equal) { return np_cuda_compare(&(e->*where), memory, host, bytes, equal); }};
}
constexpr np_memory kOnDevice = device_memory<&np_endpoint::device>();
constexpr np_memory kOnPeer = device_memory<&np_endpoint::peer>();

np_status ordinary(const np_endpoint* e, size_t bytes, void** memory) {
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return fail(e->context, NP_NO_MEMORY, "cuda: %zu bytes: %s", bytes, std::strerror(errno));
  *memory = pages;
  return NP_OK;
}

np_status host_alloc(np_endpoint* e, size_t bytes, void** memory) {
  if (const np_status s = np_cuda_use(&e->device); s != NP_OK) return s;
  if (e->host() == Host::pinned) {
    const CUresult error = e->cuda.cuMemHostAlloc(memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
    return error == CUDA_SUCCESS ? NP_OK : np_cuda_trouble(&e->device, error, "cuMemHostAlloc");
  }
  void* pages = nullptr;
  if (const np_status s = ordinary(e, bytes, &pages); s != NP_OK) return s;
  if (e->host() == Host::registered) {
    const CUresult error = e->cuda.cuMemHostRegister_v2(pages, bytes, CU_MEMHOSTREGISTER_PORTABLE);
    if (error != CUDA_SUCCESS) {
      munmap(pages, bytes);
      return np_cuda_trouble(&e->device, error, "cuMemHostRegister");
    }
  }
  *memory = pages;
  return NP_OK;
}

void host_free(np_endpoint* e, void* memory, size_t bytes) {
  drain(e);
  if (e->host() == Host::pinned) {
    e->cuda.cuMemFreeHost(memory);
    return;
  }
  if (e->host() == Host::registered) e->cuda.cuMemHostUnregister(memory);
  munmap(memory, bytes);
}

constexpr np_memory kOnHost = {
    .size = sizeof(np_memory), .kind = NP_MEMORY_LAYER, .host_access = 1, .alloc = host_alloc, .free = host_free};

}  // namespace

const np_memory* const kMemories[] = {&kOnDevice, &kOnPeer, &kOnHost, nullptr};

}  // namespace netpipe::cuda
