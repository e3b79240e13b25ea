// SPDX-License-Identifier: Apache-2.0
#include "patterns/kit/work.h"

#include <gtest/gtest.h>

namespace netpipe {
namespace {

constexpr int go = 0;
constexpr int stop = 1;

TEST(Work, OfMemoryAndOfRegistersHasASpeed) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1} << 20}) {
    Work work(bytes);
    EXPECT_GT(work.calibrate(), 0);
    EXPECT_TRUE(work.run(5000, &go));
  }
}

TEST(Work, EndsWhenItIsTold) {
  Work work;
  EXPECT_FALSE(work.run(UINT64_MAX, &stop));
  EXPECT_TRUE(work.run(0, &stop)) << "what is done cannot be given up";
}

TEST(Work, GoesRoundInMemoryOfAnySize) {
  Work work(3000);  // no multiple of a unit
  EXPECT_TRUE(work.run(4097, &go));
}

TEST(Work, IsAtLeastOneUnit) {
  EXPECT_EQ(Work::units(1000, 20), 50U);
  EXPECT_EQ(Work::units(3, 20), 1U);
  EXPECT_EQ(Work::units(-5, 20), 1U);
  EXPECT_GT(Work::beyond_caches(), std::uint64_t{1} << 20);
}

}  // namespace
}  // namespace netpipe
