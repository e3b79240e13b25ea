// SPDX-License-Identifier: Apache-2.0
// Which addresses are one origin, and how often it may call, on a clock that the tests hold.
#include "serving/callers.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>

namespace netpipe {
namespace {

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t start = 77 * second;

Origin at(const char* text) {
  sockaddr_storage address{};
  sockaddr_in four{};
  sockaddr_in6 six{};
  four.sin_family = AF_INET;
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(7);  // another one at each call
  if (::inet_pton(AF_INET, text, &four.sin_addr) == 1) {
    std::memcpy(&address, &four, sizeof four);
  } else {
    EXPECT_EQ(::inet_pton(AF_INET6, text, &six.sin6_addr), 1) << text;
    std::memcpy(&address, &six, sizeof six);
  }
  return origin_of(address);
}

// How many of so many calls are taken, all at this moment.
std::uint32_t taken(Callers& callers, const Origin& origin, int calls, std::int64_t now_ns) {
  std::uint32_t count = 0;
  for (int i = 0; i < calls; ++i) count += callers.may_call(origin, now_ns) ? 1 : 0;
  return count;
}

TEST(Callers, AreAddressesOfIpv4AndNetworksOfIpv6) {
  EXPECT_EQ(at("192.0.2.1"), at("192.0.2.1"));
  EXPECT_NE(at("192.0.2.1"), at("192.0.2.2"));
  EXPECT_EQ(at("::ffff:192.0.2.1"), at("192.0.2.1"));
  EXPECT_EQ(at("2001:db8:1:2::1"), at("2001:db8:1:2:ffff::9"));
  EXPECT_NE(at("2001:db8:1:2::1"), at("2001:db8:1:3::1"));
  EXPECT_NE(at("fe80::1"), at("fe80::2"));
}

TEST(Callers, AreSentAwayForTheRestOfASecond) {
  Callers callers;
  EXPECT_EQ(taken(callers, at("192.0.2.1"), 1000, start), Callers::most_calls);
  EXPECT_EQ(taken(callers, at("192.0.2.1"), 1000, start + second - 1), 0U);
  EXPECT_EQ(taken(callers, at("192.0.2.1"), 1000, start + second), Callers::most_calls);
}

TEST(Callers, DoNotPayForEachOther) {
  Callers callers;
  taken(callers, at("192.0.2.1"), 1000, start);
  EXPECT_TRUE(callers.may_call(at("192.0.2.2"), start));
}

// The one that calls most stays known however many others call in between.
TEST(Callers, AreKnownInAFloodFromManyAddresses) {
  Callers callers;
  Origin other{};
  std::uint32_t of_one = 0;
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    std::memcpy(other.data(), &i, sizeof i);
    EXPECT_TRUE(callers.may_call(other, start));
    if (i % 10 == 0) of_one += taken(callers, at("192.0.2.1"), 2, start);
  }
  EXPECT_EQ(of_one, Callers::most_calls);
}

}  // namespace
}  // namespace netpipe
