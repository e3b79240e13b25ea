// SPDX-License-Identifier: Apache-2.0
#include "serving/callers.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace netpipe {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

}  // namespace

Origin origin_of(const sockaddr_storage& address) {
  Origin origin{};
  if (address.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &address, sizeof four);
    origin[10] = origin[11] = std::byte{0xff};  // as an IPv6 socket shows it (RFC 4291, 2.5.5.2)
    std::memcpy(&origin[12], &four.sin_addr, 4);
    return origin;
  }
  sockaddr_in6 six{};
  std::memcpy(&six, &address, sizeof six);
  const bool whole = IN6_IS_ADDR_V4MAPPED(&six.sin6_addr) || IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr);
  std::memcpy(origin.data(), six.sin6_addr.s6_addr, whole ? 16 : 8);
  return origin;
}

bool Second::one_more(std::int64_t now_ns, std::uint32_t most) {
  if (count(now_ns) == 0) {
    from_ns_ = now_ns;
    count_ = 0;
  }
  return ++count_ <= most;
}

std::uint32_t Second::count(std::int64_t now_ns) const { return now_ns - from_ns_ < second_ns ? count_ : 0; }

bool Callers::may_call(const Origin& origin, std::int64_t now_ns) {
  auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& one) { return one.origin == origin; });
  if (found == known_.end()) {
    found = std::min_element(known_.begin(), known_.end(), [&](const Known& a, const Known& b) {
      return a.calls.count(now_ns) < b.calls.count(now_ns);
    });
    *found = {origin, {}};
  }
  return found->calls.one_more(now_ns, most_calls);
}

}  // namespace netpipe
