// SPDX-License-Identifier: Apache-2.0
// Messages made of puts, over a library that may put a word twice (put_messages.c).
#include <gtest/gtest.h>

extern "C" int netpipe_test_put_messages(int count, int ahead, int reachable);

namespace {

// A ring has 256 places for what receivers post.
constexpr int laps = 5 * 256 + 3;

TEST(PutMessages, APlaceOfTheLastLapIsNotTakenForOneOfThisLap) {
  for (const int ahead : {1, 7}) EXPECT_EQ(netpipe_test_put_messages(laps, ahead, 1), 0) << ahead << " ahead";
}

TEST(PutMessages, MoreReceivesThanTheRingHasPlacesWaitTheirTurn) {
  EXPECT_EQ(netpipe_test_put_messages(laps, 600, 1), 0);
}

TEST(PutMessages, WhatNobodyCanReachGoesThroughCellsInAnyNumber) {
  for (const int ahead : {1, 600}) EXPECT_EQ(netpipe_test_put_messages(laps, ahead, 0), 0) << ahead << " ahead";
}

}  // namespace
