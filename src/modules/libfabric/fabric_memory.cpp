// SPDX-License-Identifier: Apache-2.0
#include "fabric_memory.h"

#include <cinttypes>
#include <utility>

#include "fabric_progress.h"

namespace netpipe::fabric {
namespace {

constexpr uint64_t kLocalAccess = FI_SEND | FI_RECV | FI_READ | FI_WRITE;

np_status keep(np_endpoint& endpoint, const void* base, size_t bytes) {
  if (endpoint.registered_count == endpoint.registered.size()) {
    return fail(endpoint.context, NP_NO_MEMORY, "libfabric: more than %zu pieces of memory in one visit to register",
                endpoint.registered.size());
  }
  Registered& one = endpoint.registered[endpoint.registered_count];
  if (const np_status s = register_memory(endpoint, base, bytes, kLocalAccess, one.mr); s != NP_OK) return s;
  one.base = reinterpret_cast<uintptr_t>(base);
  one.bytes = bytes;
  ++endpoint.registered_count;
  return NP_OK;
}

}  // namespace

np_status register_memory(np_endpoint& endpoint, const void* base, size_t bytes, uint64_t access, Held<fid_mr>& mr) {
  const np_context* context = endpoint.context;
  const size_t key_bytes = endpoint.info->domain_attr->mr_key_size;
  uint64_t key = endpoint.next_key++;
  if (key_bytes < sizeof key) key &= (uint64_t{1} << (8 * key_bytes)) - 1;
  fid_mr* made = nullptr;
  int code = fi_mr_reg(endpoint.domain.get(), base, bytes, access, 0, key, 0, &made, nullptr);
  if (code == 0) mr.reset(made);
  if (code == 0 && (endpoint.info->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0) {
    if (endpoint.type == kMsg) {
      return fail(context, NP_UNSUPPORTED,
                  "libfabric: provider %s registers memory for one endpoint at a time (FI_MR_ENDPOINT), and ep=msg has "
                  "one for each peer; choose ep=rdm",
                  endpoint.name.c_str());
    }
    code = fi_mr_bind(made, &endpoint.endpoint->fid, 0);
    if (code == 0) code = fi_mr_enable(made);
  }
  if (code == 0) return NP_OK;
  const np_status status = code == -FI_ENOMEM ? NP_NO_MEMORY : NP_FAILED;
  return fail(context, status, "libfabric: provider %s cannot register %zu bytes: %s%s", endpoint.name.c_str(), bytes,
              fi_strerror(-code), status == NP_NO_MEMORY ? "; is the limit of locked memory (ulimit -l) too low?" : "");
}

np_status register_places(np_endpoint& endpoint, const np_visit& visit) {
  while (endpoint.registered_count > 0) endpoint.registered[--endpoint.registered_count].mr.reset();
  if (!endpoint.registers || visit.bytes == 0) return NP_OK;
  for (const np_places* places : {&visit.outgoing, &visit.incoming}) {
    if (places->count == 0) {
      return fail(endpoint.context, NP_UNSUPPORTED,
                  "libfabric: memory that netpipe does not name beforehand (--buffers fresh) cannot be registered; "
                  "provider %s is given registered memory only (register=%s)",
                  endpoint.name.c_str(), endpoint.context->options[kRegister].text);
    }
    const size_t bytes = places->stride * (places->count - 1) + visit.bytes;
    if (const np_status s = keep(endpoint, places->base, bytes); s != NP_OK) return s;
  }
  return NP_OK;
}

void* register_late(np_endpoint& endpoint, const void* data, size_t bytes) {
  constexpr uintptr_t kPage = 4096;
  const auto begin = reinterpret_cast<uintptr_t>(data) & ~(kPage - 1);
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes + kPage - 1) & ~(kPage - 1);
  const np_status status = keep(endpoint, reinterpret_cast<const void*>(begin), end - begin);
  if (status == NP_OK) return fi_mr_desc(endpoint.registered[endpoint.registered_count - 1].mr.get());
  endpoint.status = status;  // the next look at it ends the operation
  return nullptr;
}

}  // namespace netpipe::fabric
