// SPDX-License-Identifier: Apache-2.0
#include "engine/memory/fresh_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/text.h"
#include "machine/memory.h"

namespace netpipe {
namespace {

constexpr int reserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

std::uint64_t round_up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

}  // namespace

FreshMemory::~FreshMemory() {
  if (begin_ != nullptr) munmap(begin_, bytes_);
}

// Address space alone costs nothing, but a user may have a limit on it (ulimit -v).
Outcome FreshMemory::reserve() {
  constexpr std::uint64_t least_bytes = 1ULL << 30U;
  for (std::uint64_t bytes = most_bytes_; begin_ == nullptr; bytes /= 2) {
    void* const range = mmap(nullptr, bytes, PROT_NONE, reserved, -1, 0);
    if (range != MAP_FAILED) {
      begin_ = static_cast<char*>(range);
      bytes_ = bytes;
    } else if (bytes / 2 < std::min(least_bytes, most_bytes_)) {
      return failed(std::string("no address space can be reserved for fresh buffers: ") + std::strerror(errno) +
                    "; raise its limit (ulimit -v), or measure with buffers=apart");
    }
  }
  return ok();
}

Result<char*> FreshMemory::map(std::uint64_t bytes, std::uint64_t alignment) {
  if (begin_ == nullptr) {
    if (Outcome there = reserve(); !there) return there.failure();
  }
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(begin_);
  const std::uint64_t from = round_up(address + used_, std::max(alignment, page)) - address;
  bytes = round_up(bytes, page);
  if (from > bytes_ || bytes > bytes_ - from) {
    return failed("fresh buffers have used " + size_text(used_ >> 20U << 20U) +
                  " bytes of addresses in this run, and there are none left that were never used; measure fewer "
                  "sizes, or with a smaller --budget");
  }
  if (bytes > available_memory_bytes()) {
    return failed("fresh buffers of " + size_text(bytes) +
                  " bytes are more than this host has available; choose a "
                  "smaller end of the schedule");
  }
  char* const base = begin_ + from;
  // In place of the reservation. Populated by the kernel in one go, and then written to, in case it did not.
  if (mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0) ==
      MAP_FAILED) {
    return failed("fresh buffers of " + size_text(bytes) + " bytes cannot be mapped: " + std::strerror(errno));
  }
  used_ = from + bytes;
  mapped_.push_back({base, bytes});
  mapped_bytes_ += bytes;
  most_mapped_ = std::max(most_mapped_, mapped_bytes_);
  for (std::uint64_t at = 0; at < bytes; at += page) base[at] = 1;
  return base;
}

void FreshMemory::unmap() {
  // The kernel drops the pages and takes the reservation in their place in one step. Pages that it keeps are not used
  // again: addresses are not.
  for (const Pages& pages : mapped_) {
    [[maybe_unused]] const void* there = mmap(pages.base, pages.bytes, PROT_NONE, reserved | MAP_FIXED, -1, 0);
  }
  mapped_.clear();
  mapped_bytes_ = 0;
}

}  // namespace netpipe
