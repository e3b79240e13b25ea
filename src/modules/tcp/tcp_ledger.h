// SPDX-License-Identifier: Apache-2.0
// Which sends of a socket the kernel still reads from: it says so by number, mostly in order and sometimes not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace netpipe::tcp {

class Ledger {
 public:
  static constexpr uint64_t kMost = 4096;  // sends under way

  [[nodiscard]] bool full() const { return issued_ - settled_ == kMost; }
  [[nodiscard]] bool empty() const { return issued_ == settled_; }
  [[nodiscard]] uint64_t issued() const { return issued_; }
  [[nodiscard]] bool settled(uint64_t until) const { return settled_ >= until; }

  // The number of the send, modulo 2^32: as the kernel counts those of a socket.
  uint32_t issue() { return static_cast<uint32_t>(issued_++); }

  void settle(uint32_t number) {
    // Of the 64-bit numbers with these low bits the one that is under way.
    const uint64_t whole = settled_ + (number - static_cast<uint32_t>(settled_));
    if (whole >= issued_) return;  // nobody sent it
    done_[whole % kMost] = true;
    while (settled_ < issued_ && done_[settled_ % kMost]) done_[settled_++ % kMost] = false;
  }

 private:
  uint64_t issued_ = 0, settled_ = 0;  // all below have settled
  std::array<bool, kMost> done_{};
};

}  // namespace netpipe::tcp
