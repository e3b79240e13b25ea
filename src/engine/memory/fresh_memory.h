// SPDX-License-Identifier: Apache-2.0
// Pages that no message has been in before, at addresses that this process never used before: whatever a library keeps
// by address (a registration, a translation, a mapping of a peer) it has not kept of these.
//
// The addresses are taken in rising order from a range that is reserved once. What is given back stays reserved, so
// that nothing else is ever mapped there.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace netpipe {

class FreshMemory {
 public:
  // most_bytes: of addresses; fewer where the system gives fewer.
  explicit FreshMemory(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}
  ~FreshMemory();
  FreshMemory(const FreshMemory&) = delete;
  FreshMemory& operator=(const FreshMemory&) = delete;

  // So many bytes in new pages, at a multiple of alignment (a power of two). Every page is there and was written to.
  // Not to be called while a clock runs.
  Result<char*> map(std::uint64_t bytes, std::uint64_t alignment);
  // Gives all pages back to the system, not their addresses.
  void unmap();
  // The most that was mapped at one time.
  [[nodiscard]] std::uint64_t most_mapped() const { return most_mapped_; }

 private:
  struct Pages {
    char* base;
    std::uint64_t bytes;
  };

  Outcome reserve();

  std::uint64_t most_bytes_;
  char* begin_ = nullptr;
  std::uint64_t bytes_ = 0, used_ = 0;
  std::uint64_t mapped_bytes_ = 0, most_mapped_ = 0;
  std::vector<Pages> mapped_;
};

}  // namespace netpipe
