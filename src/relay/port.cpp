// SPDX-License-Identifier: Apache-2.0
#include "relay/port.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace netpipe::relay {

namespace {

// SplitMix64 (Steele, Lea, Flood 2014): every state is good, so hosts and seeds may be small numbers.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr std::uint64_t step = 0x9e3779b97f4a7c15ULL;

// Without preamble, check sequence and gap (IEEE 802.3), which tbf at the sender's end leaves out too.
std::int64_t on_the_link_ns(std::uint32_t size, double bits_per_s) {
  return std::llround(static_cast<double>(size) * 8e9 / bits_per_s);
}

}  // namespace

Loss::Loss(const Network& network, std::uint64_t host)
    : probability_(network.loss), state_(mixed(mixed(network.seed + step) + host * step)) {}

bool Loss::next() {
  if (probability_ <= 0) return false;
  state_ += step;
  return static_cast<double>(mixed(state_) >> 11) * 0x1p-53 < probability_;
}

bool Port::take(std::unique_ptr<std::byte[]>& bytes, std::uint32_t size, std::int64_t now_ns) {
  std::int64_t due_ns = now_ns + network_.delay_ns;
  if (bytes_ + size > network_.queue_bytes) return false;
  if (network_.bits_per_s > 0) {
    // The last bit of a frame leaves when the link has carried all of it. Here alone: tbf at the sender's end lets
    // short messages through at once (links.py).
    const std::int64_t leaves_ns = std::max(due_ns, free_ns_) + on_the_link_ns(size, network_.bits_per_s);
    if (leaves_ns - due_ns > network_.queue_ns) return false;
    due_ns = free_ns_ = leaves_ns;
  }
  bytes_ += size;
  frames_.push_back({std::move(bytes), size, due_ns});
  return true;
}

std::optional<std::int64_t> Port::next_due_ns() const {
  if (frames_.empty()) return std::nullopt;
  return frames_.front().due_ns;
}

std::optional<Frame> Port::give(std::int64_t now_ns) {
  if (frames_.empty() || frames_.front().due_ns > now_ns) return std::nullopt;
  Frame frame = std::move(frames_.front());
  frames_.pop_front();
  bytes_ -= frame.size;
  return frame;
}

}  // namespace netpipe::relay
