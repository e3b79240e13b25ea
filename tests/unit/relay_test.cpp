// SPDX-License-Identifier: Apache-2.0
// The network of a lab with a delay, a rate or losses, told the time by the tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "relay/port.cpp"  // of a program of its own

namespace netpipe::relay {
namespace {

constexpr std::uint32_t size = 1000;

Network network(std::int64_t delay_ns, double bits_per_s = 0) {
  return {.delay_ns = delay_ns, .bits_per_s = bits_per_s, .queue_ns = 20'000'000, .queue_bytes = std::size_t{1} << 20};
}

bool take(Port& port, std::int64_t now_ns, std::uint32_t bytes = size, unsigned mark = 0) {
  auto frame = std::make_unique<std::byte[]>(bytes);
  frame[0] = static_cast<std::byte>(mark);
  return port.take(frame, bytes, now_ns);
}

TEST(RelayPort, GivesAFrameWhenItsDelayIsOverAndNoNanosecondSooner) {
  Port port(network(50'000));
  ASSERT_TRUE(take(port, 1'000));
  EXPECT_EQ(port.next_due_ns(), 51'000);
  EXPECT_FALSE(port.give(50'999));
  const std::optional<Frame> frame = port.give(51'000);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->due_ns, 51'000);
  EXPECT_FALSE(port.next_due_ns());
}

TEST(RelayPort, KeepsTheOrderOfFramesThatCameAtOnce) {
  Port port(network(10));
  for (unsigned mark = 0; mark < 50; ++mark) ASSERT_TRUE(take(port, 5, size, mark));
  for (unsigned mark = 0; mark < 50; ++mark) {
    const std::optional<Frame> frame = port.give(15);
    ASSERT_TRUE(frame);
    EXPECT_EQ(std::to_integer<unsigned>(frame->bytes[0]), mark);
  }
}

TEST(RelayPort, LetsFramesLeaveAtTheRateAndNoFaster) {
  Port port(network(50'000, 1e9));  // 8000 ns for each frame
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(take(port, 0));
  for (int i = 0; i < 100; ++i) {
    const std::int64_t due = 50'000 + (i + 1) * 8'000;
    EXPECT_FALSE(port.give(due - 1));
    ASSERT_TRUE(port.give(due));
  }
}

TEST(RelayPort, AnIdleLinkSavesNothingForLater) {
  Port port(network(0, 1e9));
  ASSERT_TRUE(take(port, 0));
  ASSERT_TRUE(port.give(8'000));
  ASSERT_TRUE(take(port, 1'000'000));
  ASSERT_TRUE(take(port, 1'000'000));
  EXPECT_TRUE(port.give(1'008'000));
  EXPECT_EQ(port.next_due_ns(), 1'016'000);
}

TEST(RelayPort, DropsWhatWouldWaitForTheRateTooLong) {
  Port slow(network(0, 1e6));  // 8 ms each
  int taken = 0;
  for (int i = 0; i < 10; ++i) taken += take(slow, 0) ? 1 : 0;
  EXPECT_EQ(taken, 2);  // 16 ms; the third would wait 24
}

TEST(RelayPort, ADelayIsNoWaitForTheRate) {
  Port port(network(1'000'000'000, 1e9));
  EXPECT_TRUE(take(port, 0));
}

TEST(RelayPort, HasRoomForSoManyBytesAndGetsItBack) {
  Network narrow = network(1'000'000);
  narrow.queue_bytes = 2 * size;
  Port port(narrow);
  EXPECT_TRUE(take(port, 0));
  EXPECT_TRUE(take(port, 0));
  EXPECT_FALSE(take(port, 0));
  EXPECT_EQ(port.frames(), 2U);
  ASSERT_TRUE(port.give(1'000'000));
  EXPECT_TRUE(take(port, 1'000'000));
}

TEST(RelayPort, LeavesAFrameThatItDropsToTheCaller) {
  Network none = network(0);
  none.queue_bytes = 10;
  Port port(none);
  auto frame = std::make_unique<std::byte[]>(size);
  EXPECT_FALSE(port.take(frame, size, 0));
  EXPECT_TRUE(frame);
}

std::vector<bool> lots(double loss, std::uint64_t seed, std::uint64_t host, int count) {
  Network lossy;
  lossy.loss = loss;
  lossy.seed = seed;
  Loss one(lossy, host);
  std::vector<bool> lost;
  for (int i = 0; i < count; ++i) lost.push_back(one.next());
  return lost;
}

TEST(RelayLoss, DropsTheShareThatWasAskedFor) {
  constexpr int count = 1'000'000;
  for (const double share : {0.001, 0.01, 0.5, 0.999}) {
    const std::vector<bool> lost = lots(share, 1, 0, count);
    const double found = static_cast<double>(std::count(lost.begin(), lost.end(), true)) / count;
    // Five standard deviations of a binomial share.
    EXPECT_NEAR(found, share, 5 * std::sqrt(share * (1 - share) / count)) << share;
  }
  const std::vector<bool> none = lots(0, 1, 0, count);
  EXPECT_EQ(std::count(none.begin(), none.end(), true), 0);
}

TEST(RelayLoss, DropsFramesIndependentlyOfEachOther) {
  constexpr int count = 1'000'000;
  const std::vector<bool> lost = lots(0.1, 3, 1, count);
  int both = 0;
  for (int i = 1; i < count; ++i) both += lost[i - 1] && lost[i] ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(both) / count, 0.01, 5 * std::sqrt(0.01 / count));
}

TEST(RelayLoss, IsTheSameForASeedAndAHostAndDiffersOtherwise) {
  const std::vector<bool> first = lots(0.5, 7, 0, 256);
  EXPECT_EQ(lots(0.5, 7, 0, 256), first);
  EXPECT_NE(lots(0.5, 8, 0, 256), first);
  EXPECT_NE(lots(0.5, 7, 1, 256), first);
}

}  // namespace
}  // namespace netpipe::relay
