// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "engine/yardsticks.h"

namespace netpipe {
namespace {

Yardstick shown(std::optional<double> bounce_ns, double copy_bytes_per_s) {
  Yardstick y;
  y.bounce_ns = bounce_ns;
  y.copy_bytes_per_s = copy_bytes_per_s;
  return y;
}

TEST(MachineStates, AreOneWhileTheYardsticksOnlyWander) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<> wander(0.9, 1.1);
  MachineStates states;
  EXPECT_EQ(states.classify(shown(60, 10e9)), 0);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(states.classify(shown(60 * wander(random), 10e9 * wander(random))), 0);
  EXPECT_EQ(states.count(), 1);
}

TEST(MachineStates, AreToldApartByTheBounceAndRecognisedAgain) {
  MachineStates states;
  EXPECT_EQ(states.classify(shown(54, 10e9)), 0);
  EXPECT_EQ(states.classify(shown(108, 10e9)), 1) << "a doubled bounce";
  EXPECT_EQ(states.classify(shown(278, 10e9)), 2) << "a core was moved";
  EXPECT_EQ(states.classify(shown(56, 10e9)), 0) << "back to the first";
  EXPECT_EQ(states.classify(shown(270, 11e9)), 2);
  EXPECT_EQ(states.classify(shown(25, 10e9)), 3) << "faster is another state, too";
  EXPECT_EQ(states.count(), 4);
}

TEST(MachineStates, AreToldApartByTheCopyRate) {
  MachineStates states;
  EXPECT_EQ(states.classify(shown(54, 10e9)), 0);
  EXPECT_EQ(states.classify(shown(54, 5e9)), 1);
  EXPECT_EQ(states.classify(shown(54, 9e9)), 0);
}

TEST(MachineStates, DoNotDriftAwayInSmallSteps) {
  MachineStates states;
  double bounce = 50;
  for (int i = 0; i < 40; ++i) states.classify(shown(bounce *= 1.05, 10e9));
  EXPECT_GT(states.count(), 1) << "what a state is must not move with what is found to be of it";
}

TEST(MachineStates, GoByTheCopyRateWhereNoBounceIsKnown) {
  MachineStates states;
  EXPECT_EQ(states.classify(shown(std::nullopt, 4e9)), 0);
  EXPECT_EQ(states.classify(shown(std::nullopt, 3.6e9)), 0);
  EXPECT_EQ(states.classify(shown(std::nullopt, 1e9)), 1);
  EXPECT_EQ(states.classify(shown(54, 4.2e9)), 0) << "what is not known cannot tell two states apart";
}

TEST(Yardstick, OfOneRankHasTheClockAndTheCopyRate) {
  std::vector<char> memory(1U << 20, 1);
  const Yardstick y = measure_alone(memory);
  EXPECT_GT(y.clock.cost_ns, 0);
  EXPECT_GT(y.clock.resolution_ns, 0);
  EXPECT_GT(y.multiply_ns, 0.1) << "three cycles of 30 GHz";
  EXPECT_LT(y.multiply_ns, 1000);
  EXPECT_GT(y.copy_bytes_per_s, 0);
  EXPECT_FALSE(y.bounce_ns);
  EXPECT_FALSE(y.wakeup_ns);
}

TEST(Yardstick, OfTwoRanksIsMeasuredTogetherAgainAndAgain) {
  SharedPage* page = make_shared_page();
  ASSERT_NE(page, nullptr);
  const volatile int abort = 0;
  for (int i = 0; i < 3; ++i) {
    Yardstick here;
    Yardstick there;
    std::thread other([&] { measure_together(*page, 1, &abort, true, there); });
    measure_together(*page, 0, &abort, true, here);
    other.join();
    ASSERT_TRUE(here.bounce_ns);
    ASSERT_TRUE(here.wakeup_ns);
    EXPECT_GT(*here.bounce_ns, 0);
    EXPECT_GT(*here.wakeup_ns, 0);
  }
}

TEST(Yardstick, IsUnknownWhenItIsBrokenOff) {
  const volatile int abort = 1;  // nobody answers, and the flag is up
  for (const int rank : {0, 1}) {
    SharedPage* page = make_shared_page();
    ASSERT_NE(page, nullptr);
    Yardstick y;
    measure_together(*page, rank, &abort, false, y);
    EXPECT_FALSE(y.bounce_ns);
    EXPECT_FALSE(y.wakeup_ns);
  }
}

}  // namespace
}  // namespace netpipe
