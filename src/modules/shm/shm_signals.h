// SPDX-License-Identifier: Apache-2.0
// Values that tell a process that something has been put into its memory, in the order of their puts.
//
// A ring of slots for each direction. The number in a slot says whose turn it holds, so a receiver looks at one word.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shm_cells.h"

namespace netpipe::shm {

inline constexpr std::size_t kSignals = 64;  // that a receiver may be behind

// One direction, in shared memory. The kernel's zeroes are what it begins with.
struct SignalRing {
  struct Slot {
    std::atomic<std::uint64_t> number;  // of the signal that it holds, from 1
    std::uint64_t value;
  };
  alignas(kApart) Slot slots[kSignals];
  alignas(kApart) std::atomic<std::uint64_t> taken;  // by the receiver: signals so far, told now and then
};

class Signals {
 public:
  // rings: of the two directions, by the side that sends; side: 0 of the lower rank.
  void bind(SignalRing* rings, unsigned side) {
    out_ = &rings[side];
    in_ = &rings[1 - side];
  }

  // False: the receiver is too far behind.
  [[nodiscard]] bool room() {
    if (sent_ - seen_taken_ < kSignals) return true;
    seen_taken_ = out_->taken.load(std::memory_order_acquire);
    return sent_ - seen_taken_ < kSignals;
  }
  // Publishes everything that this process has written before.
  void send(std::uint64_t value) {
    SignalRing::Slot& slot = out_->slots[sent_ % kSignals];
    slot.value = value;
    slot.number.store(++sent_, std::memory_order_release);
  }

  [[nodiscard]] bool there() const {
    return in_->slots[received_ % kSignals].number.load(std::memory_order_acquire) == received_ + 1;
  }
  // The next value, which is there. True: it has told the sender of room.
  bool take(std::uint64_t* value) {
    *value = in_->slots[received_ % kSignals].value;
    if (++received_ % (kSignals / 4) != 0) return false;
    in_->taken.store(received_, std::memory_order_release);
    return true;
  }

 private:
  SignalRing *out_ = nullptr, *in_ = nullptr;
  std::uint64_t sent_ = 0, seen_taken_ = 0, received_ = 0;
};

}  // namespace netpipe::shm
