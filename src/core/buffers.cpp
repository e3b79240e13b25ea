// SPDX-License-Identifier: Apache-2.0
#include "core/buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/text.h"

namespace netpipe {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t line = 64;
constexpr std::uint64_t verify_bytes = 16ULL << 20;  // distinct places of one direction for a visit that is verified

std::uint64_t round_up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

// A place keeps its offset from a line boundary, and places never share a line.
std::uint64_t stride_of(std::uint64_t size_bytes) { return round_up(size_bytes + guard_bytes, line); }

std::string reason() { return std::strerror(errno); }

}  // namespace

std::uint64_t last_level_cache_bytes() {
  std::uint64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    std::string text;
    if (!(file >> text)) break;
    if (const Result<std::uint64_t> size = parse_size(text); size) largest = std::max(largest, *size);
  }
  return largest != 0 ? largest : 32ULL << 20;
}

std::uint64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kib = 0;
  std::string rest;
  while (file >> name >> kib && std::getline(file, rest)) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return UINT64_MAX;
}

std::uint64_t BufferPool::room_for(std::uint64_t places, std::uint64_t place_bytes) {
  constexpr std::uint64_t beyond_all = 1ULL << 62U;  // more than any host has, and far from wrapping around
  const std::uint64_t stride = stride_of(place_bytes);
  return places > beyond_all / stride ? beyond_all : places * stride;
}

std::uint64_t BufferPool::half_bytes(const PoolNeed& need) {
  std::uint64_t bytes = std::max(stride_of(need.place_bytes), need.at_once_bytes);
  // More than twice the cache, counted in whole places of any size up to the largest.
  if (need.spreads) bytes += std::max(bytes, 2 * last_level_cache_bytes() + page);
  // The shortest visit of any pattern has two messages in flight or at rest, and each needs a place to be looked at.
  if (need.verify) bytes = std::max({bytes, verify_bytes, 2 * stride_of(need.place_bytes)});
  return round_up(bytes + need.offset_bytes + token_bytes, page);
}

std::uint64_t BufferPool::verified_places(const PoolNeed& need, std::uint64_t place_bytes) {
  PoolNeed warm = need;
  warm.spreads = false;  // a pool of cold places is no smaller
  warm.verify = true;
  return (half_bytes(warm) - need.offset_bytes - token_bytes) / stride_of(place_bytes);
}

Result<std::unique_ptr<BufferPool>> BufferPool::make(const np_module& module, np_endpoint* endpoint,
                                                     const PoolNeed& need, int ranks_here) {
  std::unique_ptr<BufferPool> pool(new BufferPool);
  pool->module_ = &module;
  pool->endpoint_ = endpoint;
  pool->half_bytes_ = half_bytes(need);
  pool->own_ = module.alloc == nullptr;
  const std::string much =
      "two buffers of " + size_text(pool->half_bytes_) + " bytes for messages up to " + size_text(need.place_bytes);
  const std::uint64_t available = available_memory_bytes();
  if (pool->half_bytes_ > available / 2 / static_cast<std::uint64_t>(ranks_here)) {
    return failed(much + " cannot be allocated: this host has " + size_text(available >> 20 << 20) +
                  " bytes available for " + std::to_string(ranks_here) + " rank" + (ranks_here > 1 ? "s" : "") +
                  "; choose a smaller end of the schedule");
  }
  for (char** half : {&pool->outgoing_, &pool->incoming_}) {
    void* memory = nullptr;
    if (pool->own_) {
      memory = mmap(nullptr, pool->half_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) {
        return failed(much + " cannot be allocated: " + reason() + "; choose a smaller end of the schedule");
      }
    } else if (module.alloc(endpoint, pool->half_bytes_, &memory) != NP_OK) {
      return failed(much + " cannot be allocated by module " + module.name + "; choose a smaller end of the schedule");
    }
    *half = static_cast<char*>(memory);
    std::memset(*half, 1, pool->half_bytes_);  // touched: METHOD rule 10
  }
  return pool;
}

BufferPool::~BufferPool() {
  for (char* half : {outgoing_, incoming_}) {
    if (half == nullptr) continue;
    if (own_) {
      munmap(half, half_bytes_);
    } else {
      module_->free(endpoint_, half, half_bytes_);
    }
  }
}

Slots BufferPool::slots(char* half, std::uint64_t offset, const BufferPolicy& policy, std::uint64_t place_bytes,
                        std::uint32_t many) {
  const std::uint64_t stride = stride_of(place_bytes);
  const std::uint64_t fit = std::max<std::uint64_t>((half_bytes_ - offset - token_bytes) / stride, 1);
  const std::uint64_t wanted = policy.spreads() ? fit : std::clamp<std::uint64_t>(many, 1, fit);
  Slots result(half + offset, stride, static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, UINT32_MAX)));
  if (policy.spreads()) result.rewind(turn_ = turn_ * 1664525U + 1013904223U);  // each visit begins elsewhere
  return result;
}

Slots BufferPool::outgoing(const BufferPolicy& policy, std::uint64_t place_bytes, std::uint32_t many) {
  return slots(outgoing_, policy.send_offset_bytes, policy, place_bytes, many);
}

Slots BufferPool::incoming(const BufferPolicy& policy, std::uint64_t place_bytes, std::uint32_t many) {
  return slots(incoming_, policy.recv_offset_bytes, policy, place_bytes, many);
}

char* BufferPool::token_out() const { return outgoing_ + half_bytes_ - token_bytes; }
char* BufferPool::token_in() const { return incoming_ + half_bytes_ - token_bytes; }

Slots BufferPool::returning(const BufferPolicy& policy, std::uint64_t place_bytes) {
  return slots(incoming_, policy.send_offset_bytes, policy, place_bytes, 1);
}

void BufferPool::evict(const Slots& slots, std::uint64_t size_bytes, std::uint64_t messages) {
#if defined(__x86_64__)
  const std::uint64_t count = std::min<std::uint64_t>(messages, slots.count());
  for (std::uint64_t i = 0; i < count; ++i) {
    const char* place = slots.at(slots.next() + i);
    for (std::uint64_t b = 0; b < size_bytes; b += line) _mm_clflush(place + b);
  }
  _mm_mfence();
#else
  (void)slots, (void)size_bytes, (void)messages;  // the pool is larger than the caches, that has to do
#endif
}

}  // namespace netpipe
