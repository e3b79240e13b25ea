// SPDX-License-Identifier: Apache-2.0
// What a network does to the frames on their way to one host: holds each back for the delay, lets them leave no faster
// than the rate, and drops what has no room. Pure: it is told the time, and touches no device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

namespace netpipe::relay {

struct Network {
  std::int64_t delay_ns = 0;    // of each frame, one way
  double bits_per_s = 0;        // of the link to each host; 0: no limit
  double loss = 0;              // the probability with which a frame is dropped
  std::uint64_t seed = 1;       // of the losses
  std::int64_t queue_ns = 0;    // the longest that a frame may wait for the rate; used with a limit only
  std::size_t queue_bytes = 0;  // on their way to one host, those that are only delayed included
};

// Which frames of one host are lost: the k-th frame that it sends meets the same fate in every run with the same seed,
// whatever the other hosts send.
class Loss {
 public:
  Loss(const Network& network, std::uint64_t host);
  bool next();

 private:
  double probability_;
  std::uint64_t state_;
};

struct Frame {
  std::unique_ptr<std::byte[]> bytes;
  std::uint32_t size = 0;
  std::int64_t due_ns = 0;  // when it leaves
};

// The frames to one host, in the order in which they leave.
class Port {
 public:
  explicit Port(const Network& network) : network_(network) {}
  // Takes a frame that came at now_ns. False: there was no room, and it is dropped.
  bool take(std::unique_ptr<std::byte[]>& bytes, std::uint32_t size, std::int64_t now_ns);
  [[nodiscard]] std::optional<std::int64_t> next_due_ns() const;
  [[nodiscard]] std::size_t frames() const { return frames_.size(); }
  // The next frame that is due at now_ns.
  std::optional<Frame> give(std::int64_t now_ns);

 private:
  Network network_;
  std::deque<Frame> frames_;
  std::size_t bytes_ = 0;
  std::int64_t free_ns_ = 0;  // when the link has carried what was given to it
};

}  // namespace netpipe::relay
