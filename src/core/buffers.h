// SPDX-License-Identifier: Apache-2.0
// Which memory each message starts from and lands in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/result.h"
#include "netpipe/module.h"

namespace netpipe {

struct BufferPolicy {
  bool cold = false;  // each message from and to a new place in main memory; else always the same one, warm in cache
  int reuse_percent = 100;  // of warm messages so many use the same place, all others one that none used before
  std::uint64_t send_offset_bytes = 0;  // from a page boundary
  std::uint64_t recv_offset_bytes = 0;
  [[nodiscard]] bool spreads() const { return cold || reuse_percent < 100; }  // over more memory than the caches hold
};

// What a pool must have room for.
struct PoolNeed {
  std::uint64_t place_bytes = 0;    // the largest place
  std::uint64_t at_once_bytes = 0;  // places that are needed at once, in one direction: room_for()
  std::uint64_t offset_bytes = 0;   // the largest offset
  bool spreads = false;
  bool verify = false;
};

// The places of one direction, taken in turn. A value type without logic worth a call: it is used in the timed region.
class Slots {
 public:
  Slots() = default;
  Slots(char* base, std::size_t stride, std::uint32_t count) : base_(base), stride_(stride), count_(count) {}
  char* take() noexcept {
    // So that reuse_ of a hundred, evenly spread, are the first place.
    if (reuse_ != 0) {
      credit_ += reuse_;
      if (credit_ >= 100) {
        credit_ -= 100;
        return base_;
      }
    }
    char* place = base_ + stride_ * next_;
    if (++next_ >= count_) next_ = 0;
    return place;
  }
  // Places that lie evenly apart.
  struct Row {
    char* base;
    std::size_t stride;
    std::size_t count;
  };
  // The next places at once: all that are wanted, or those up to where the row breaks.
  Row take(std::uint64_t wanted) noexcept {
    if (reuse_ != 0) return {take(), 0, 1};
    if (count_ == 1) return {base_, 0, wanted};
    const Row row{base_ + stride_ * next_, stride_, std::min<std::uint64_t>(wanted, count_ - next_)};
    next_ += static_cast<std::uint32_t>(row.count);
    if (next_ >= count_) next_ = 0;
    return row;
  }
  [[nodiscard]] char* at(std::uint64_t i) const noexcept { return base_ + stride_ * (i % count_); }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] char* base() const noexcept { return base_; }
  [[nodiscard]] np_places places() const noexcept { return {base_, stride_, reuse_ == 0 ? count_ : 0, next_}; }
  void rewind(std::uint32_t to = 0) noexcept { next_ = count_ == 0 ? 0 : to % count_; }
  void reuse(std::uint32_t percent) noexcept { reuse_ = percent; }
  [[nodiscard]] std::uint32_t next() const noexcept { return next_; }

 private:
  char* base_ = nullptr;
  std::size_t stride_ = 0;
  std::uint32_t count_ = 1;
  std::uint32_t next_ = 0;
  std::uint32_t reuse_ = 0;
  std::uint32_t credit_ = 0;
};

// Behind every message lie this many bytes of its place, to see a message that is longer than it says.
inline constexpr std::size_t guard_bytes = 64;
inline constexpr char guard_byte = 0x5a;

// For what ranks tell each other, in a line of its own at the end of each half.
inline constexpr std::size_t token_bytes = 64;

// The memory of one endpoint: outgoing and incoming halves, from the module's alloc where it has one.
class BufferPool {
 public:
  // Bytes of so many places.
  static std::uint64_t room_for(std::uint64_t places, std::uint64_t place_bytes);

  // Bytes of each half, for a plan's dry run and for the bound of a server.
  static std::uint64_t half_bytes(const PoolNeed& need);

  // How many messages of one visit can be verified: each needs a place of its own. It depends on the plan alone,
  // because both sides have to come to the same number and their caches may differ.
  static std::uint64_t verified_places(const PoolNeed& need, std::uint64_t place_bytes);

  // ranks_here: how many ranks of this host will make the same pool, so that together they fit.
  static Result<std::unique_ptr<BufferPool>> make(const np_module& module, np_endpoint* endpoint, const PoolNeed& need,
                                                  int ranks_here);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // Warm: one place. Cold: as many as fit, continued from where the last visit of this pool stopped; and so are the
  // places that are not used again. many: at least this number of distinct places (for verification) as far as they
  // fit.
  Slots outgoing(const BufferPolicy& policy, std::uint64_t place_bytes, std::uint32_t many = 1);
  Slots incoming(const BufferPolicy& policy, std::uint64_t place_bytes, std::uint32_t many = 1);
  // Warm: the place where messages land, as one to send from (with the offset of sending).
  Slots returning(const BufferPolicy& policy, std::uint64_t place_bytes);
  // Pushes what a visit will touch out of the caches, where the processor can. Outside the timed region.
  static void evict(const Slots& slots, std::uint64_t size_bytes, std::uint64_t messages);

  // token_bytes of each half where no message is.
  [[nodiscard]] char* token_out() const;
  [[nodiscard]] char* token_in() const;
  [[nodiscard]] char* outgoing_base() const { return outgoing_; }
  [[nodiscard]] char* incoming_base() const { return incoming_; }
  [[nodiscard]] std::uint64_t bytes() const { return 2 * half_bytes_; }

 private:
  BufferPool() = default;
  Slots slots(char* half, std::uint64_t offset, const BufferPolicy& policy, std::uint64_t place_bytes,
              std::uint32_t many);

  const np_module* module_ = nullptr;
  np_endpoint* endpoint_ = nullptr;
  std::uint64_t half_bytes_ = 0;
  char* outgoing_ = nullptr;
  char* incoming_ = nullptr;
  bool own_ = false;
  std::uint32_t turn_ = 0;
};

// What can be had without swapping, from /proc/meminfo; the largest number when the system does not say.
std::uint64_t available_memory_bytes();

// Largest cache of this host that one processor can reach, in bytes; 32 MiB when the system does not say.
std::uint64_t last_level_cache_bytes();

}  // namespace netpipe
