// SPDX-License-Identifier: Apache-2.0
#include "patterns/kit/agreed_start.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace netpipe::patterns {
namespace {

using agreed_start::name_moment;

TEST(AgreedStart, LiesThreeAgreementsAhead) {
  Start next;
  name_moment(next, false);
  EXPECT_EQ(20'000, next.ahead_ns) << "nothing is known yet";
  next.agreement_ns = 5'000;
  name_moment(next, false);
  EXPECT_EQ(15'000, next.ahead_ns);
  next.agreement_ns = 100;
  name_moment(next, false);
  EXPECT_EQ(2'000, next.ahead_ns) << "the least";
  next.agreement_ns = 1'000'000'000;
  name_moment(next, false);
  EXPECT_EQ(5'000'000, next.ahead_ns) << "the most";
}

TEST(AgreedStart, MovesAwayForGoodWhenARankWasLate) {
  Start next;
  next.agreement_ns = 5'000;
  name_moment(next, false);
  name_moment(next, true);
  EXPECT_EQ(30'000, next.ahead_ns);
  name_moment(next, true);
  EXPECT_EQ(60'000, next.ahead_ns);
  for (int i = 0; i < 1000; ++i) name_moment(next, false);
  EXPECT_EQ(60'000, next.ahead_ns) << "it does not come nearer until a rank is late again";
  for (int i = 0; i < 100; ++i) name_moment(next, true);
  EXPECT_EQ(5'000'000, next.ahead_ns);
}

TEST(AgreedStart, WandersOverTheStepsOfTheClock) {
  Start next;
  next.agreement_ns = 5'000;
  std::set<std::uint32_t> places;
  for (int i = 0; i < 64; ++i) {
    const std::int64_t before = now_ns();
    const std::uint32_t place = agreed_start::wander_ns(next.turn);
    name_moment(next, false);
    EXPECT_GE(next.moment, before + next.ahead_ns + place);
    EXPECT_LE(next.moment, now_ns() + next.ahead_ns + place);
    places.insert(place);
  }
  EXPECT_EQ(64U, places.size()) << "each nanosecond of 64 once";
}

}  // namespace
}  // namespace netpipe::patterns
