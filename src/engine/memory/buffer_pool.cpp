// SPDX-License-Identifier: Apache-2.0
#include "engine/memory/buffer_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/text.h"
#include "machine/memory.h"

namespace netpipe {
namespace {

std::string reason() { return std::strerror(errno); }

// Addresses for fresh buffers: 30,000 visits with the most pages that a visit has. Simulated ranks share one process.
constexpr std::uint64_t fresh_addresses = 4ULL << 40U;
constexpr std::uint64_t addresses_of_a_process = 64ULL << 40U;  // half of 2^47: the library needs some, too

// MAP_FAILED: there is no memory. alignment: a power of two.
void* map_pages(std::uint64_t bytes, std::uint64_t alignment) {
  const std::uint64_t spare = alignment > 1 ? alignment : 0;
  void* const mapped = mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED || spare == 0) return mapped;
  char* const begin = static_cast<char*>(mapped);
  const std::uint64_t before = (alignment - reinterpret_cast<std::uintptr_t>(mapped) % alignment) % alignment;
  if (before > 0) munmap(begin, before);
  if (before < spare) munmap(begin + before + bytes, spare - before);
  return begin + before;
}

}  // namespace

BufferPool::BufferPool(int ranks_here)
    : fresh_(std::min(fresh_addresses, addresses_of_a_process / static_cast<std::uint64_t>(ranks_here))) {}

Result<std::unique_ptr<BufferPool>> BufferPool::make(const Layer& module, np_endpoint* endpoint, const PoolNeed& need,
                                                     int ranks_here, const np_limits& limits, const PageChoice& pages) {
  std::unique_ptr<BufferPool> pool(new BufferPool(ranks_here));
  pool->endpoint_ = endpoint;
  pool->half_bytes_ = netpipe::half_bytes(need, pages.kind);
  pool->alignment_ = need.alignment;
  pool->margin_bytes_ = margin_bytes(need);
  pool->outgoing_.table = module.memory_at(limits.outgoing_memory);
  pool->incoming_.table = module.memory_at(limits.incoming_memory);
  const std::string much =
      "two buffers of " + size_text(pool->half_bytes_) + " bytes for messages up to " + size_text(need.place_bytes);
  const std::uint64_t available = available_memory_bytes();
  if (pool->half_bytes_ > available / 2 / static_cast<std::uint64_t>(ranks_here)) {
    return failed(much + " cannot be allocated: this host has " + size_text(available >> 20 << 20) +
                  " bytes available for " + std::to_string(ranks_here) + " rank" + (ranks_here > 1 ? "s" : "") +
                  "; choose a smaller end of the schedule");
  }
  for (MemoryHalf* half : {&pool->outgoing_, &pool->incoming_}) {
    if (Outcome made = pool->make_half(module, *half, pages, much); !made) return made.failure();
  }
  return pool;
}

Outcome BufferPool::make_half(const Layer& module, MemoryHalf& half, const PageChoice& pages, const std::string& much) {
  void* memory = nullptr;
  if (half.table == nullptr) {
    memory = map_pages(half_bytes_, pages.kind == Pages::huge ? huge_page_bytes : 1);
    if (memory == MAP_FAILED) {
      return failed(much + " cannot be allocated: " + reason() + "; choose a smaller end of the schedule");
    }
  } else if (half.table->alloc(endpoint_, half_bytes_, &memory) != NP_OK) {
    return failed(much + " cannot be allocated by module " + module.name + "; choose a smaller end of the schedule");
  }
  half.base = static_cast<char*>(memory);
  half.bytes = half_bytes_;
  if (reinterpret_cast<std::uintptr_t>(memory) % alignment_ != 0) {
    return failed(std::string("module ") + module.name + " wants messages at multiples of " + size_text(alignment_) +
                  " bytes, and the memory for them does not begin at one");
  }
  memory_ = Memory(outgoing_, incoming_, endpoint_);
  if (pages.chosen() && !memory_.of_host(memory)) {
    return unavailable(std::string("module ") + module.name +
                       " has its messages in memory of a device, which is on no page of this host; leave pages and "
                       "node out");
  }
  if (Outcome chosen = choose_pages(half.base, half.bytes, pages); !chosen) return chosen;
  memory_.set(memory, 1, half_bytes_);  // touched before anything is timed (docs/method.md)
  if (memory_.take_status() != NP_OK) {
    return failed(std::string("module ") + module.name + " cannot write to its own message memory");
  }
  const Result<PagesFound> found = found_pages(half.base, half.bytes, pages);
  if (!found) return found.failure();
  if (found->huge_bytes) pages_.huge_bytes = pages_.huge_bytes.value_or(0) + *found->huge_bytes;
  pages_.node = found->node;
  return ok();
}

BufferPool::~BufferPool() {
  for (const MemoryHalf& half : {outgoing_, incoming_}) {
    if (half.base == nullptr) continue;
    if (half.table == nullptr) {
      munmap(half.base, half.bytes);
    } else {
      half.table->free(endpoint_, half.base, half.bytes);
    }
  }
}

Slots BufferPool::slots(char* half, std::uint64_t offset, const BufferPolicy& policy, std::uint64_t place_bytes,
                        std::uint32_t many) {
  const std::uint64_t stride = place_stride(place_bytes, alignment_);
  const std::uint64_t room = half_bytes_ - 2 * margin_bytes_ - offset - token_room(alignment_);
  const std::uint64_t fit = std::max<std::uint64_t>(room / stride, 1);
  const std::uint64_t wanted = policy.kind == Buffers::cold ? fit : std::clamp<std::uint64_t>(many, 1, fit);
  Slots result(half + margin_bytes_ + offset, stride,
               static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, UINT32_MAX)));
  if (policy.kind == Buffers::cold)
    result.rewind(turn_ = turn_ * 1664525U + 1013904223U);  // each visit begins elsewhere
  return result;
}

Slots BufferPool::outgoing(const BufferPolicy& policy, std::uint64_t place_bytes, std::uint32_t many) {
  return slots(outgoing_.base, policy.send_offset_bytes, policy, place_bytes, many);
}

Slots BufferPool::incoming(const BufferPolicy& policy, std::uint64_t place_bytes, std::uint32_t many) {
  return slots(incoming_.base, policy.recv_offset_bytes, policy, place_bytes, many);
}

char* BufferPool::token_out() const { return outgoing_.base + half_bytes_ - token_room(alignment_); }
char* BufferPool::token_in() const { return incoming_.base + half_bytes_ - token_room(alignment_); }

Slots BufferPool::returning(const BufferPolicy& policy, std::uint64_t place_bytes) {
  return slots(incoming_.base, policy.send_offset_bytes, policy, place_bytes, 1);
}

Result<Slots> BufferPool::fresh(const BufferPolicy& policy, std::uint64_t offset, std::uint64_t place_bytes,
                                std::uint64_t places) {
  const auto page = std::max<std::uint64_t>(static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)), alignment_);
  const std::uint64_t stride = (fresh_stride(policy, place_bytes, alignment_) + page - 1) / page * page;
  // What lies before the first and behind the last message is looked at where messages are verified.
  const std::uint64_t margin = (watched_bytes + page - 1) / page * page;
  Result<char*> base = fresh_.map(2 * margin + places * stride, page);
  if (!base) return base.failure();
  Slots slots(*base + margin + offset % page, stride, static_cast<std::uint32_t>(places));
  slots.keep_from_layer();
  return slots;
}

void BufferPool::evict(const Slots& slots, std::uint64_t size_bytes, std::uint64_t messages) const {
  if (!memory_.of_host(slots.base())) return;  // the pool is larger than the caches, that has to do
#if defined(__x86_64__)
  const std::uint64_t count = std::min<std::uint64_t>(messages, slots.count());
  for (std::uint64_t i = 0; i < count; ++i) {
    const char* place = slots.at(slots.next() + i);
    for (std::uint64_t b = 0; b < size_bytes; b += line_bytes) _mm_clflush(place + b);
  }
  _mm_mfence();
#else
  (void)slots, (void)size_bytes, (void)messages;  // the pool is larger than the caches, that has to do
#endif
}

}  // namespace netpipe
