// SPDX-License-Identifier: Apache-2.0
// Large messages that are copied once, from where the sender has them to where the receiver wants them.
//
// The sender offers (an Offer in a cell) and waits; the receiver copies. A sender that waits has nothing better to do
// than to help: so the receiver opens its target to it, and both copy shares of the message at the same time, the
// receiver from the front, the sender from the back, until they meet. A share is three eighths of what is left: few
// claims, and neither waits long for the other at the end.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "shm_cells.h"
#include "shm_memory.h"

namespace netpipe::shm {

// What a cell carries when the message itself stays where it is.
struct Offer {
  std::uint64_t bytes;
  std::uint64_t ticket;  // numbers the offers of one direction, from 1
  Place source;
};
static_assert(sizeof(Offer) <= kInlineBytes);

// The state of the offers of one direction, in shared memory.
struct alignas(kApart) Transfer {
  std::atomic<std::uint64_t> done;    // by the receiver: this offer and those before it have arrived whole
  std::atomic<std::uint64_t> open;    // by the receiver: the offer whose target stands below and may be helped with
  std::atomic<std::uint64_t> claims;  // by both: how far the shares have come from the front and from the back
  std::atomic<std::uint64_t> helped;  // by the sender: units that it has copied, of all offers together
  std::atomic<std::uint64_t> address, slot, offset;  // the Place of the target; slot: generation << 32 | slot
};

inline constexpr std::uint64_t kUnitBytes = 4096;         // what shares are counted in
inline constexpr std::uint64_t kLargestShareUnits = 256;  // 1 MiB: what one test() may copy before it returns
// In a claims word: the lowest 16 bits of the ticket, then 24 bits for each side.
inline constexpr unsigned kClaimBits = 24;
inline constexpr std::uint64_t kClaimMask = (std::uint64_t{1} << kClaimBits) - 1;
inline constexpr std::uint64_t kLargestSharedUnits = kClaimMask;  // 64 GiB; beyond, the receiver copies alone

constexpr std::uint64_t units_of(std::uint64_t bytes) { return (bytes + kUnitBytes - 1) / kUnitBytes; }

constexpr std::uint64_t share_of(std::uint64_t left, std::uint64_t least) {
  return std::min({left, std::max(least, left * 3 / 8), kLargestShareUnits});
}

// The least share worth taking: a claim is a trip of a line; through the kernel, a call of about a microsecond besides.
constexpr std::uint64_t least_share(std::uint64_t units, bool mapped) {
  return mapped ? std::clamp<std::uint64_t>(units / 2, 1, 8) : std::clamp<std::uint64_t>(units / 2, 8, 16);
}
// Whether the sender's help brings more than it costs.
constexpr bool worth_sharing(std::uint64_t units, bool mapped) {
  return units >= (mapped ? 2 : 12) && units <= kLargestSharedUnits;
}

enum class Side { front, back };

struct Share {
  std::uint64_t begin = 0, units = 0;  // no units: nothing is left
};

constexpr std::uint64_t claims_word(std::uint64_t ticket, std::uint64_t front) {
  return (ticket & 0xFFFF) << (2 * kClaimBits) | front;
}

// Units that the sender has taken.
constexpr std::uint64_t claimed_from_back(std::uint64_t claims) { return claims >> kClaimBits & kClaimMask; }

// Takes a share of the offer `ticket` of `units`. The ticket in the word keeps a late sender from taking a share of
// the next message for one of the last.
inline Share claim(std::atomic<std::uint64_t>& claims, std::uint64_t ticket, std::uint64_t units, Side side,
                   std::uint64_t least) {
  std::uint64_t seen = claims.load(std::memory_order_acquire);
  for (;;) {
    if (seen >> (2 * kClaimBits) != (ticket & 0xFFFF)) return {};
    const std::uint64_t front = seen & kClaimMask;
    const std::uint64_t back = claimed_from_back(seen);
    const std::uint64_t share = share_of(units - front - back, least);
    if (share == 0) return {};
    const std::uint64_t next = seen + (side == Side::front ? share : share << kClaimBits);
    if (claims.compare_exchange_weak(seen, next, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return {side == Side::front ? front : units - back - share, share};
    }
  }
}

}  // namespace netpipe::shm
