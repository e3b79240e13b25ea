// SPDX-License-Identifier: Apache-2.0
#include "ucx_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace netpipe::ucx {
namespace {

// ---------------------------------------------------------------------------------------------- of the host

np_status alloc(np_endpoint* e, size_t bytes, void** memory) {
  Allocation made{nullptr, bytes, nullptr, false};
  if (static_cast<Memory>(e->option(kMemory)) == Memory::pages) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
      return fail(e->context, NP_NO_MEMORY, "ucx: cannot get %zu bytes of memory: %s", bytes, std::strerror(errno));
    made.base = static_cast<char*>(at);
  } else {
    if (const np_status s = map_memory(e, nullptr, bytes, UCP_MEM_MAP_ALLOCATE, made.handle); s != NP_OK) return s;
    ucp_mem_attr_t attributes{};
    attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
    const ucs_status_t status = ucp_mem_query(made.handle, &attributes);
    made.base = static_cast<char*>(attributes.address);
    if (status != UCS_OK || reinterpret_cast<uintptr_t>(made.base) % static_cast<size_t>(getpagesize()) != 0) {
      ucp_mem_unmap(e->library, made.handle);
      return fail(e->context, NP_NO_MEMORY,
                  "ucx: UCX allocated %zu bytes that do not begin at a page; take memory=pages", bytes);
    }
  }
  e->memory.push_back(made);
  *memory = made.base;
  return NP_OK;
}

void free(np_endpoint* e, void* memory, size_t) {
  if (e->broken) return;  // a transfer that was given up may still be on its way: close() frees it
  const auto one = std::ranges::find(e->memory, static_cast<char*>(memory), &Allocation::base);
  if (one == e->memory.end()) return;
  release_memory(e, *one);
  e->memory.erase(one);
}

// ---------------------------------------------------------------------------------------------- of a device

// Registered once, outside the timed region, as memory=layer is.
np_status alloc_on_device(np_endpoint* e, size_t bytes, void** memory) {
  void* at = nullptr;
  if (const np_status s = np_cuda_alloc(&e->device, bytes, &at); s != NP_OK) return s;
  Allocation made{static_cast<char*>(at), bytes, nullptr, true};
  if (const np_status s = map_memory(e, at, bytes, 0, made.handle); s != NP_OK) {
    np_cuda_free(&e->device, at);
    return s;
  }
  e->memory.push_back(made);
  *memory = at;
  return NP_OK;
}

constexpr np_memory kOnHost = {
    .size = sizeof(np_memory), .kind = NP_MEMORY_LAYER, .host_access = 1, .alloc = alloc, .free = free};
constexpr np_memory kOnDevice = {
    .size = sizeof(np_memory),
    .kind = NP_MEMORY_DEVICE,
    .alloc = alloc_on_device,
    .free = free,
    .copy_in = [](np_endpoint* e, void* memory, const void* host,
                  size_t bytes) { return np_cuda_copy(&e->device, memory, host, bytes); },
    .copy_out = [](np_endpoint* e, void* host, const void* memory,
                   size_t bytes) { return np_cuda_copy(&e->device, host, memory, bytes); },
    .fill = [](np_endpoint* e, void* memory, int byte,
               size_t bytes) { return np_cuda_fill(&e->device, memory, byte, bytes); },
    .compare = [](np_endpoint* e, const void* memory, const void* host, size_t bytes,
                  size_t* equal) { return np_cuda_compare(&e->device, memory, host, bytes, equal); },
};

}  // namespace

const np_memory* const kMemories[] = {&kOnHost, &kOnDevice, nullptr};

np_status map_memory(np_endpoint* e, void* at, size_t bytes, unsigned flags, ucp_mem_h& handle) {
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  params.address = at;
  params.length = bytes;
  params.flags = flags;
  if (e->on_device) {
    params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
    params.memory_type = UCS_MEMORY_TYPE_CUDA;
  }
  const ucs_status_t status = ucp_mem_map(e->library, &params, &handle);
  if (status == UCS_OK) return NP_OK;
  const std::string said = Log::take();
  return fail(e->context, status == UCS_ERR_NO_MEMORY ? NP_NO_MEMORY : NP_FAILED,
              "ucx: cannot %s %zu bytes of memory: %s; UCX says: %s", at == nullptr ? "allocate" : "register", bytes,
              ucs_status_string(status), said.empty() ? "nothing" : said.c_str());
}

void release_memory(np_endpoint* e, const Allocation& one) {
  if (one.handle != nullptr) ucp_mem_unmap(e->library, one.handle);
  if (one.on_device) np_cuda_free(&e->device, one.base);
  if (one.handle == nullptr) munmap(one.base, one.bytes);
}

np_status open_device(np_endpoint* e) {
  const np_context* const context = e->context;
  if (const np_status s = np_cuda_load(&e->cuda, context->message, context->message_bytes); s != NP_OK) return s;
  return np_cuda_open_for(&e->device, &e->cuda, context, static_cast<int>(e->option(kCudaDevice)),
                          np_cuda_place(context));
}

np_status check_memory_types(np_endpoint* e) {
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  const ucs_status_t status = ucp_context_query(e->library, &attributes);
  if (status != UCS_OK) return e->failed(status, "ucp_context_query", -1);
  for (int type = 0; type < UCS_MEMORY_TYPE_LAST; ++type) {
    if ((attributes.memory_types >> type & 1) == 0) continue;
    e->memory_types += (e->memory_types.empty() ? "" : ", ") + std::string(ucs_memory_type_names[type]);
  }
  if ((attributes.memory_types >> UCS_MEMORY_TYPE_CUDA & 1) != 0) return NP_OK;
  return fail(e->context, NP_UNAVAILABLE,
              "ucx: memory=cuda: UCX %s moves no memory of a CUDA device here, only: %s (ucp_context_query); take a "
              "UCX that was built with CUDA, and leave cuda_copy among its transports (tls), or take memory=layer",
              ucp_get_version_string(), e->memory_types.c_str());
}

}  // namespace netpipe::ucx
