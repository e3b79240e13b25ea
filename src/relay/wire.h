// SPDX-License-Identifier: Apache-2.0
// Carries frames between the network cards of virtual hosts, as a switch with the delay, rate and loss of a network.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "relay/port.h"
#include "relay/tap.h"
#include "sampling/histogram.h"

namespace netpipe::relay {

// What became of the frames so far.
struct Counts {
  std::uint64_t read = 0;       // from all cards
  std::uint64_t delivered = 0;  // copies: a broadcast reaches every other host
  std::uint64_t lost = 0;       // by lot
  std::uint64_t dropped = 0;    // for lack of room, or because a card took no frame
  std::uint64_t astray = 0;     // to an address that no host has
  Histogram late_ns;            // how much later than due a frame was delivered
};

class Wire {
 public:
  Wire(const Network& network, std::vector<Card> cards, std::vector<Descriptor> taps);
  // Until `stop` is set, by a signal handler for example; `report` is set to have `on_report` called.
  Outcome run(const std::atomic<bool>& stop, std::atomic<bool>& report, void (*on_report)(const Counts&, void*),
              void* context);
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  void read_some(std::size_t from);
  void send(std::size_t from, std::uint32_t size);
  void put(std::size_t to, std::unique_ptr<std::byte[]> bytes, std::uint32_t size, std::int64_t now_ns);
  // What is due now; when the next frame is, or a negative number.
  std::int64_t deliver();
  [[nodiscard]] std::size_t on_their_way() const;
  std::unique_ptr<std::byte[]> buffer();

  Network network_;
  std::vector<Card> cards_;
  std::vector<Descriptor> taps_;
  std::deque<Port> ports_;
  std::vector<Loss> losses_;
  std::vector<std::unique_ptr<std::byte[]>> spare_;
  std::unique_ptr<std::byte[]> reading_;
  Counts counts_;
};

}  // namespace netpipe::relay
