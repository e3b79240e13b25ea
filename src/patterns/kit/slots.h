// SPDX-License-Identifier: Apache-2.0
// Which memory each message starts from and lands in, as a pattern and a user see it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "netpipe/module.h"

namespace netpipe {

enum class Buffers : std::uint8_t {
  warm,   // always the same place; messages leave from where they landed, if the pattern can (Pattern::one_buffer)
  apart,  // always the same two places, one to send from and one to receive into
  cold,   // each message from and to a new place in main memory, out of a pool that is larger than the caches
  fresh,  // each message from and to pages that were mapped for it
};

inline constexpr const char* buffer_choices = "warm|apart|cold|fresh";
inline constexpr const char* buffers_help =
    "warm uses the same memory for every message, to send and to receive alike where the pattern can; apart uses one "
    "buffer to send and another to receive; cold takes each from memory that is in no cache; fresh from pages that "
    "were mapped for it";

// The pages of the memory that a variant's messages are in.
enum class Pages : std::uint8_t {
  automatic,  // what the kernel gives
  small,      // no huge pages
  huge,
};

inline constexpr const char* page_choices = "auto|small|huge";
inline constexpr const char* pages_help =
    "pages of message memory: auto takes what the kernel gives, small has no huge pages, huge no others";
inline constexpr int most_node = 1023;

struct PageChoice {
  Pages kind = Pages::automatic;
  int node = -1;  // NUMA node that they are on; -1: that of the processor that writes to a page first
  [[nodiscard]] bool chosen() const { return kind != Pages::automatic || node >= 0; }
};

struct BufferPolicy {
  Buffers kind = Buffers::warm;
  int reuse_percent = 100;  // of messages so many use the same place, all others pages that were mapped for them
  std::uint64_t send_offset_bytes = 0;  // from a page boundary
  std::uint64_t recv_offset_bytes = 0;
  // Percentage of messages that have pages of their own.
  [[nodiscard]] int fresh_percent() const { return kind == Buffers::fresh ? 100 : 100 - reuse_percent; }
};

// The places of one direction, taken in turn. A value type without logic worth a call: it is used in the timed region.
class Slots {
 public:
  Slots() = default;
  Slots(char* base, std::size_t stride, std::uint32_t count) : base_(base), stride_(stride), count_(count) {}
  char* take() noexcept {
    // So that reuse_ of a hundred, evenly spread, are the same place.
    if (reuse_ != 0) {
      credit_ += reuse_;
      if (credit_ >= 100) {
        credit_ -= 100;
        return again_;
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
  // How many the next row can have at most.
  [[nodiscard]] std::uint64_t left_in_row(std::uint64_t wanted) const noexcept {
    if (reuse_ != 0) return 1;
    return count_ == 1 ? wanted : std::min<std::uint64_t>(wanted, count_ - next_);
  }
  [[nodiscard]] char* at(std::uint64_t i) const noexcept { return base_ + stride_ * (i % count_); }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] char* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t stride() const noexcept { return stride_; }
  [[nodiscard]] np_places places() const noexcept { return {base_, stride_, announced_ ? count_ : 0, next_}; }
  void rewind(std::uint32_t to = 0) noexcept { next_ = count_ == 0 ? 0 : to % count_; }
  // The layer is not told of them beforehand.
  void keep_from_layer() noexcept { announced_ = false; }
  // So many of a hundred are this place instead. No rule says which, so the layer is told of none.
  void reuse(std::uint32_t percent, char* again) noexcept {
    reuse_ = percent;
    again_ = again;
    announced_ = false;
  }
  [[nodiscard]] std::uint32_t next() const noexcept { return next_; }

 private:
  char* base_ = nullptr;
  std::size_t stride_ = 0;
  std::uint32_t count_ = 1;
  std::uint32_t next_ = 0;
  std::uint32_t reuse_ = 0;
  std::uint32_t credit_ = 0;
  char* again_ = nullptr;
  bool announced_ = true;
};

// Behind every message lie at least this many bytes of its place that no message has.
inline constexpr std::size_t guard_bytes = 64;
// Where messages are verified, every byte this near to a message, on either side, is looked at afterwards: it belongs
// to another message, or still has to be guard_byte.
inline constexpr std::size_t watched_bytes = 4096;
inline constexpr char guard_byte = 0x5a;

// For what ranks tell each other, in a line of its own at the end of each half.
inline constexpr std::size_t token_bytes = 64;

}  // namespace netpipe
