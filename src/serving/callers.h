// SPDX-License-Identifier: Apache-2.0
// How often an address may call in a second. Fixed in size, so strangers cannot make it grow.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace netpipe {

// One IPv4 address, or one IPv6 network of 64 bits: within it a host chooses its address itself (RFC 4291, 2.5.1). Of
// link-local addresses, which all share one network, each is one.
using Origin = std::array<std::byte, 16>;
Origin origin_of(const sockaddr_storage& address);

// Counts what happens within a second. The first after its end begins the next one.
class Second {
 public:
  // Counts one more. false: it is one too many.
  bool one_more(std::int64_t now_ns, std::uint32_t most);
  [[nodiscard]] std::uint32_t count(std::int64_t now_ns) const;

 private:
  std::int64_t from_ns_ = 0;
  std::uint32_t count_ = 0;
};

class Callers {
 public:
  // The clients of one address come no faster: each measures, and a client that was sent away tries again 20 times a
  // second.
  static constexpr std::uint32_t most_calls = 100;

  // Counts a call. false: this address has called too often, it is to be sent away.
  bool may_call(const Origin& origin, std::int64_t now_ns);

 private:
  struct Known {
    Origin origin{};
    Second calls;
  };
  // Those that call most often are known; the one that calls least is forgotten for a new one (Metwally et al.,
  // Efficient computation of frequent and top-k elements in data streams, 2005).
  std::array<Known, 64> known_;
};

}  // namespace netpipe
