// SPDX-License-Identifier: Apache-2.0
#include "patterns/kit/departures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace netpipe {
namespace {

std::vector<std::int64_t> laid_out(Departures& departures, std::size_t count) {
  std::vector<std::int64_t> moments(count);
  departures.lay_out(moments);
  return moments;
}

TEST(Departures, AtEvenDistancesAreAsManyASecondAsWereAskedFor) {
  for (const std::int64_t rate : {1, 3, 10'000, 3'000'000, 100'000'000}) {
    Departures departures(rate, false, 1);
    const std::vector<std::int64_t> moments = laid_out(departures, 1000);
    for (std::size_t i = 0; i < moments.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(moments[i]), static_cast<double>(i + 1) * 1e9 / static_cast<double>(rate), 0.51);
    }
    EXPECT_EQ(laid_out(departures, 1000), moments) << "every batch begins anew";
  }
}

TEST(Departures, AtRandomHaveExponentialGaps) {
  constexpr double rate = 50'000;
  constexpr double mean_ns = 1e9 / rate;
  Departures departures(static_cast<std::int64_t>(rate), true, 7);
  constexpr std::size_t count = 200'000;
  const std::vector<std::int64_t> moments = laid_out(departures, count);
  ASSERT_TRUE(std::is_sorted(moments.begin(), moments.end()));
  std::vector<double> gaps;
  double before = 0;
  for (const std::int64_t moment : moments) {
    gaps.push_back(static_cast<double>(moment) - before);
    before = static_cast<double>(moment);
  }
  // Five standard errors; the deviation of an exponential is its mean.
  const double error = 5 / std::sqrt(static_cast<double>(count));
  EXPECT_NEAR(before / static_cast<double>(count) / mean_ns, 1, error);
  for (const double part : {0.1, 0.5, 0.9, 0.99}) {
    const auto shorter = static_cast<double>(
        std::count_if(gaps.begin(), gaps.end(), [&](double gap) { return gap < -mean_ns * std::log(1 - part); }));
    EXPECT_NEAR(shorter / static_cast<double>(count), part, error);
  }
}

TEST(Departures, AreTheSameForTheSameSeedOnly) {
  Departures one(1000, true, 3);
  Departures same(1000, true, 3);
  Departures other(1000, true, 4);
  const std::vector<std::int64_t> first = laid_out(one, 100);
  EXPECT_EQ(laid_out(same, 100), first);
  EXPECT_NE(laid_out(other, 100), first);
  const std::vector<std::int64_t> second = laid_out(one, 100);
  EXPECT_NE(second, first) << "batches differ";
  EXPECT_EQ(laid_out(same, 100), second);
}

}  // namespace
}  // namespace netpipe
