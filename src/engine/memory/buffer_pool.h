// SPDX-License-Identifier: Apache-2.0
// The memory that messages start from and land in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/memory/fresh_memory.h"
#include "engine/memory/pages.h"
#include "layer/layer.h"
#include "patterns/kit/memory.h"
#include "patterns/kit/slots.h"
#include "plan/pool_need.h"

namespace netpipe {

// The memory of one endpoint: an outgoing and an incoming half, from the layer's own memory where it has some.
class BufferPool {
 public:
  // ranks_here: how many ranks of this host make the same pool, so that all of them fit into its memory together.
  // limits: of the endpoint; they name the kind of memory of each half. pages: what its pages have to be.
  static Result<std::unique_ptr<BufferPool>> make(const Layer& module, np_endpoint* endpoint, const PoolNeed& need,
                                                  int ranks_here, const np_limits& limits = {},
                                                  const PageChoice& pages = {});
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Warm and apart: one place. Cold: as many as fit, from another one on in each visit. many: at least this number of
  // distinct places, for verification, as far as they fit.
  Slots outgoing(const BufferPolicy& policy, std::uint64_t place_bytes, std::uint32_t many = 1);
  Slots incoming(const BufferPolicy& policy, std::uint64_t place_bytes, std::uint32_t many = 1);
  // Warm: the place where messages land, to send from it (with the offset for sending).
  Slots returning(const BufferPolicy& policy, std::uint64_t place_bytes);
  // So many places in pages of their own, which were mapped for them, at this distance from the beginning of a page.
  // They are there until release_fresh().
  Result<Slots> fresh(const BufferPolicy& policy, std::uint64_t offset, std::uint64_t place_bytes,
                      std::uint64_t places);
  void release_fresh() { fresh_.unmap(); }
  [[nodiscard]] std::uint64_t most_fresh_bytes() const { return fresh_.most_mapped(); }
  // Flushes what a visit will touch out of the caches, where the processor can. Outside the timed region.
  void evict(const Slots& slots, std::uint64_t size_bytes, std::uint64_t messages) const;

  // What lies in it.
  [[nodiscard]] Memory& memory() { return memory_; }
  // token_bytes in each half that no message uses.
  [[nodiscard]] char* token_out() const;
  [[nodiscard]] char* token_in() const;
  [[nodiscard]] char* outgoing_base() const { return outgoing_.base; }
  [[nodiscard]] char* incoming_base() const { return incoming_.base; }
  [[nodiscard]] std::uint64_t bytes() const { return 2 * half_bytes_; }
  // What its pages were found to be, of both halves together.
  [[nodiscard]] const PagesFound& pages() const { return pages_; }

 private:
  explicit BufferPool(int ranks_here);
  Outcome make_half(const Layer& module, MemoryHalf& half, const PageChoice& pages, const std::string& much);
  Slots slots(char* half, std::uint64_t offset, const BufferPolicy& policy, std::uint64_t place_bytes,
              std::uint32_t many);

  np_endpoint* endpoint_ = nullptr;
  Memory memory_;
  FreshMemory fresh_;
  std::uint64_t half_bytes_ = 0, alignment_ = 1, margin_bytes_ = 0;
  MemoryHalf outgoing_, incoming_;
  PagesFound pages_;
  std::uint32_t turn_ = 0;
};

}  // namespace netpipe
