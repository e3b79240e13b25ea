// SPDX-License-Identifier: Apache-2.0
// The network card of a virtual host: a TAP device in the host's network namespace, whose other end is a descriptor
// here. It has no offloads, so what is read from it are the frames that a wire would carry.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"

namespace netpipe::relay {

using Address = std::array<std::uint8_t, 6>;  // of Ethernet

struct Card {
  int process = 0;  // one that is in the host's network namespace
  Address address{};
};

// "4711:02:6e:70:00:00:01": the process and the address.
Result<Card> parse_card(const std::string& text);

// Makes `device` in the host's namespace, down and with this address; it is gone when the descriptor is closed. Leaves
// this thread in the namespace.
Result<Descriptor> make_tap(const Card& card, const std::string& device);

}  // namespace netpipe::relay
