// SPDX-License-Identifier: Apache-2.0
#include "verbs_memory.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace netpipe::verbs {
namespace {

constexpr size_t kMostLate = 64;

std::string limit_of_locked_memory() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return "; the limit of locked memory (ulimit -l) is " + std::to_string(limit.rlim_cur / 1024) +
         " KiB: raise it, or end at smaller messages";
}

bool holds(const Registered& one, uintptr_t at, size_t bytes) {
  return at >= one.base && at - one.base < one.bytes && bytes <= one.bytes - (at - one.base);
}

// What is exposed already need not be locked twice.
np_status keep(np_endpoint& endpoint, uintptr_t base, size_t bytes, Registered& kept) {
  for (const Registered& one : endpoint.exposed) {
    if (!holds(one, base, bytes)) continue;
    kept = {base, bytes, one.lkey, one.rkey, {}};
    return NP_OK;
  }
  const np_status status = register_memory(endpoint, reinterpret_cast<const void*>(base), bytes, kRemote, kept.mr);
  if (status != NP_OK) return status;
  kept.base = base;
  kept.bytes = bytes;
  kept.lkey = kept.mr->lkey;
  kept.rkey = kept.mr->rkey;
  return NP_OK;
}

}  // namespace

np_status register_memory(np_endpoint& endpoint, const void* base, size_t bytes, int access, HeldMr& mr) {
  ++endpoint.counts.registrations;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): what is only sent is not written
  mr.reset(ibv_reg_mr(endpoint.domain.get(), const_cast<void*>(base), bytes, access));
  if (mr) return NP_OK;
  const bool memory = errno == ENOMEM;
  return fail(endpoint.context, memory ? NP_NO_MEMORY : NP_FAILED, "verbs: %zu bytes cannot be registered: %s%s", bytes,
              std::strerror(errno), memory ? limit_of_locked_memory().c_str() : "");
}

np_status register_visit(np_endpoint& endpoint, const np_visit& visit) {
  for (Registered& one : endpoint.visit_memory) one = Registered{};
  endpoint.late_memory.clear();
  if (visit.bytes == 0) return NP_OK;
  if (endpoint.set.each && (visit.uses & NP_USES_MESSAGES) != 0) return NP_OK;
  const np_places* const both[] = {&visit.outgoing, &visit.incoming};
  for (size_t i = 0; i < endpoint.visit_memory.size(); ++i) {
    const np_places& places = *both[i];
    if (places.count == 0) {
      return fail(endpoint.context, NP_UNSUPPORTED,
                  "verbs: memory that netpipe does not name beforehand (--buffers fresh) cannot be registered before "
                  "the clock runs; register=each registers each message");
    }
    const size_t bytes = places.stride * (places.count - 1) + visit.bytes;
    const np_status s = keep(endpoint, reinterpret_cast<uintptr_t>(places.base), bytes, endpoint.visit_memory[i]);
    if (s != NP_OK) return s;
  }
  return NP_OK;
}

uint32_t late_key(np_endpoint& endpoint, const void* data, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(data);
  if (bytes == 0) return endpoint.room_memory->lkey;
  for (const auto* list : {&endpoint.exposed, &endpoint.late_memory}) {
    for (const Registered& one : *list) {
      if (holds(one, at, bytes)) return one.lkey;
    }
  }
  Registered one;
  np_status status = NP_OK;
  if (endpoint.late_memory.size() == kMostLate) {
    status = fail(endpoint.context, NP_NO_MEMORY, "verbs: more than %zu pieces of memory in one visit to register",
                  kMostLate);
  } else {
    status = keep(endpoint, at, bytes, one);
  }
  if (status != NP_OK) {
    endpoint.status = status;
    return 0;
  }
  endpoint.late_memory.push_back(std::move(one));
  return endpoint.late_memory.back().lkey;
}

}  // namespace netpipe::verbs
