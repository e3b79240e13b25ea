// SPDX-License-Identifier: Apache-2.0
// The parts of the statistics one by one. That the interval covers as often as it claims is
// statistics_coverage_test.cpp.
#include "sampling/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace netpipe {
namespace {

using Values = std::vector<float>;

std::vector<Block> blocks_of(const std::vector<Values>& visits) {
  std::vector<Block> blocks;
  for (const Values& values : visits) blocks.push_back({static_cast<double>(blocks.size()), values});
  return blocks;
}

Values drawn(std::size_t count, const std::function<double()>& draw) {
  Values values(count);
  for (float& v : values) v = static_cast<float>(draw());
  return values;
}

std::vector<Block> normal_blocks(std::mt19937_64& random, std::size_t visits, std::size_t samples, double sd) {
  std::normal_distribution<> noise(100, sd);
  std::vector<Values> all;
  for (std::size_t i = 0; i < visits; ++i) all.push_back(drawn(samples, [&] { return noise(random); }));
  return blocks_of(all);
}

TEST(Quantile, InterpolatesBetweenOrderStatistics) {
  const Values sorted = {10, 20, 30, 40};
  EXPECT_DOUBLE_EQ(quantile(sorted, 0), 10);
  EXPECT_DOUBLE_EQ(quantile(sorted, 1), 40);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.5), 25);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.25), 17.5);  // definition 7 of Hyndman and Fan: 1 + (n - 1) p
  EXPECT_DOUBLE_EQ(quantile(Values{7}, 0.99), 7);
}

TEST(Quantile, NeverFallsAsTheShareRises) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<> noise(3, 1);
  Values sorted = drawn(137, [&] { return noise(random); });
  std::sort(sorted.begin(), sorted.end());
  double last = sorted.front();
  for (int i = 0; i <= 1000; ++i) {
    const double now = quantile(sorted, i / 1000.0);
    ASSERT_GE(now, last);
    ASSERT_LE(now, sorted.back());
    last = now;
  }
}

TEST(SupportedQuantile, NeedsTenSamplesBeyondIt) {
  const Values sorted(20'000, 1);
  const auto supported = [&](std::size_t n, double p) {
    return supported_quantile(std::span(sorted).first(n), p).has_value();
  };
  EXPECT_FALSE(supported(0, 0.9));
  EXPECT_FALSE(supported(99, 0.9));
  EXPECT_TRUE(supported(100, 0.9));
  EXPECT_FALSE(supported(999, 0.99));
  EXPECT_TRUE(supported(1000, 0.99));
  EXPECT_FALSE(supported(9'999, 0.999));
  EXPECT_TRUE(supported(10'000, 0.999));
}

TEST(StudentT, AgreesWithTheTables) {
  const std::vector<std::pair<std::size_t, double>> table = {
      {1, 12.706}, {2, 4.303},  {3, 3.182},  {4, 2.776},  {5, 2.571},   {6, 2.447},
      {7, 2.365},  {8, 2.306},  {9, 2.262},  {10, 2.228}, {11, 2.201},  {12, 2.179},
      {15, 2.131}, {20, 2.086}, {30, 2.042}, {60, 2.000}, {120, 1.980}, {1000, 1.962}};
  for (const auto& [degrees, t] : table) EXPECT_NEAR(student_t975(degrees), t, 0.0006) << degrees;
}

TEST(StudentT, FallsTowardsTheNormalDistribution) {
  for (std::size_t degrees = 1; degrees < 2000; ++degrees) {
    ASSERT_GT(student_t975(degrees), student_t975(degrees + 1)) << degrees;
    ASSERT_GT(student_t975(degrees), 1.9599);
  }
}

TEST(Estimate, OfNothingIsNothing) {
  const Estimate e = estimate({});
  EXPECT_EQ(e.samples, 0U);
  EXPECT_FALSE(e.bounded);
  EXPECT_TRUE(std::isinf(e.half_width()));
}

TEST(Estimate, HasTheMedianOfOddAndEvenNumbersOfSamples) {
  EXPECT_DOUBLE_EQ(estimate(blocks_of({{5}})).median, 5);
  EXPECT_DOUBLE_EQ(estimate(blocks_of({{9, 1, 5}})).median, 5);
  EXPECT_DOUBLE_EQ(estimate(blocks_of({{9, 1}, {5, 4}})).median, 4.5);
  EXPECT_DOUBLE_EQ(estimate(blocks_of({{1, 1}, {1, 9}})).median, 1);
}

TEST(Estimate, HasNoIntervalWithTooFewSamplesButItsExtremes) {
  for (const std::vector<Values>& visits : std::vector<std::vector<Values>>{
           {{3, 1, 2}}, {{1}, {2}, {3}}, {{1, 2, 3, 4, 5, 6, 7, 8}}, {{1}, {2}, {3}, {4}, {5}, {6}, {7}}}) {
    const Estimate e = estimate(blocks_of(visits));
    EXPECT_FALSE(e.bounded);
    EXPECT_TRUE(std::isinf(e.half_width()));
    EXPECT_DOUBLE_EQ(e.low, 1);
    EXPECT_DOUBLE_EQ(e.high, static_cast<double>(e.samples));
  }
}

TEST(Estimate, CutsFewVisitsIntoPartsAndIsBoundedOnceThereAreEnough) {
  std::mt19937_64 random(2);
  const Estimate one_visit = estimate(normal_blocks(random, 1, 1000, 1));
  EXPECT_TRUE(one_visit.bounded);
  EXPECT_EQ(one_visit.blocks, 1U);
  EXPECT_EQ(one_visit.samples, 1000U);
  EXPECT_LT(one_visit.half_width(), 0.01);
}

TEST(Estimate, OfEqualSamplesIsThatValueWithNoWidth) {
  const Estimate e = estimate(blocks_of(std::vector<Values>(8, Values(10, 42))));
  EXPECT_TRUE(e.bounded);
  EXPECT_DOUBLE_EQ(e.median, 42);
  EXPECT_DOUBLE_EQ(e.low, 42);
  EXPECT_DOUBLE_EQ(e.high, 42);
  EXPECT_DOUBLE_EQ(e.half_width(), 0);
}

// Every visit has one sample below and one above: their shares do not vary at all, and yet the median lies between the
// two.
TEST(Estimate, EnclosesTheMedianAlsoWhenAllVisitsAreSplitAlike) {
  const Estimate e = estimate(blocks_of(std::vector<Values>(8, Values{100, 110})));
  ASSERT_TRUE(e.bounded);
  EXPECT_DOUBLE_EQ(e.median, 105);
  EXPECT_DOUBLE_EQ(e.low, 100);
  EXPECT_DOUBLE_EQ(e.high, 110);
  EXPECT_GT(e.half_width(), 0);
}

TEST(Estimate, AlwaysEnclosesItsMedianWithinTheExtremes) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 5000; ++i) {
    const int steps = 1 + static_cast<int>(random() % 20);  // few: many ties, as from a coarse clock
    std::vector<Values> visits(1 + random() % 12);
    Values all;
    for (Values& visit : visits) {
      visit =
          drawn(1 + random() % 12, [&] { return 50.0 + static_cast<double>(random() % static_cast<unsigned>(steps)); });
      all.insert(all.end(), visit.begin(), visit.end());
    }
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    const Estimate e = estimate(blocks_of(visits));
    ASSERT_EQ(e.samples, all.size());
    ASSERT_LE(*least, e.low);
    ASSERT_LE(e.low, e.median);
    ASSERT_LE(e.median, e.high);
    ASSERT_LE(e.high, *most);
    ASSERT_GE(e.half_width(), 0);
  }
}

TEST(Estimate, ScalesWithItsSamplesAndDoesNotHeedTheirOrderWithinAVisit) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 200; ++i) {
    std::vector<Block> blocks = normal_blocks(random, 8, 9, 5);
    const Estimate before = estimate(blocks);
    for (Block& block : blocks) {
      std::shuffle(block.values.begin(), block.values.end(), random);
      for (float& v : block.values) v *= 4;  // exact
    }
    const Estimate after = estimate(blocks);
    ASSERT_DOUBLE_EQ(after.median, 4 * before.median);
    ASSERT_DOUBLE_EQ(after.low, 4 * before.low);
    ASSERT_DOUBLE_EQ(after.high, 4 * before.high);
  }
}

TEST(Estimate, NarrowsWithMoreVisitsAndWidensWithNoise) {
  std::mt19937_64 random(5);
  const auto mean_width = [&](std::size_t visits, double sd) {
    double sum = 0;
    for (int i = 0; i < 100; ++i) sum += estimate(normal_blocks(random, visits, 20, sd)).half_width() / 100;
    return sum;
  };
  const double narrow = mean_width(40, 5);
  const double wide = mean_width(10, 5);
  EXPECT_NEAR(wide / narrow, 2, 0.6);
  EXPECT_NEAR(mean_width(10, 20) / wide, 4, 1);
}

TEST(Estimate, CountsCorrelatedSamplesAsFewerThanTheyAre) {
  std::mt19937_64 random(6);
  std::normal_distribution<> noise(0, 5);
  double apart = 0;
  double alike = 0;
  for (int i = 0; i < 100; ++i) {
    std::vector<Block> blocks = normal_blocks(random, 16, 20, 5);
    apart += estimate(blocks).correlation / 100;
    for (Block& block : blocks) {
      const auto shift = static_cast<float>(noise(random));
      for (float& v : block.values) v += shift;
    }
    alike += estimate(blocks).correlation / 100;
  }
  EXPECT_NEAR(apart, 1, 0.4);
  EXPECT_GT(alike, 4);
}

TEST(Sources, OfTheSpreadAreThoseThatItWasMadeOf) {
  std::mt19937_64 random(7);
  for (const double visit_sd : {0.0, 0.02, 0.1}) {
    std::vector<Block> blocks;
    for (int v = 0; v < 400; ++v) {
      const double of_visit = 1000 * (1 + visit_sd * std::normal_distribution<>()(random));
      Block block;
      for (int i = 0; i < 25; ++i) {
        block.values.push_back(static_cast<float>(of_visit * (1 + 0.05 * std::normal_distribution<>()(random))));
      }
      blocks.push_back(std::move(block));
    }
    const Sources found = sources_of_spread(blocks);
    EXPECT_NEAR(std::sqrt(found.of_samples), 0.05, 0.01);
    EXPECT_NEAR(found.of_visits, visit_sd * visit_sd, 0.3 * visit_sd * visit_sd + 5e-5) << visit_sd;
    EXPECT_EQ(sources_of_spread(std::span(blocks).first(5)).of_samples, 0) << "too few visits to know";
  }
}

TEST(BestSamples, AreThoseThatMakeTheMedianOfAllVisitsMostCertain) {
  EXPECT_TRUE(std::isinf(best_samples(0, 1e5, 1e3)));
  EXPECT_TRUE(std::isinf(best_samples(-0.1, 1e5, 1e3)));
  // Of a budget each visit costs 1e5 + n * 1e3: the variance of the median over all of them, by trying.
  for (const double ratio : {0.01, 0.1, 1.0, 10.0}) {
    const auto variance = [&](double n) { return (1e5 + n * 1e3) * (ratio + 1.5708 / n); };
    const double best = best_samples(ratio, 1e5, 1e3);
    EXPECT_LT(variance(best), variance(1.2 * best));
    EXPECT_LT(variance(best), variance(best / 1.2));
  }
}

TEST(WarmUp, IsTheHeadThatStandsOut) {
  std::mt19937_64 random(7);
  std::normal_distribution<> noise(100, 1);
  for (std::size_t head = 1; head <= 20; ++head) {
    Values values = drawn(60, [&] { return noise(random); });
    for (std::size_t i = 0; i < head; ++i) values[i] += static_cast<float>(20 + 10 * (head - i));
    EXPECT_EQ(warmup_samples(values), head);
  }
}

TEST(WarmUp, LooksPastOneQuickSampleWithinTheHead) {
  std::mt19937_64 random(15);
  std::normal_distribution<> noise(100, 1);
  Values values = drawn(40, [&] { return noise(random); });
  for (const std::size_t i : {0U, 1U, 3U, 4U}) values[i] += 100;
  EXPECT_EQ(warmup_samples(values), 5U);
}

TEST(WarmUp, FollowsADecayingHeadToItsEnd) {
  std::mt19937_64 random(8);
  std::normal_distribution<> noise(100, 1);
  for (int i = 0; i < 100; ++i) {
    Values values = drawn(100, [&] { return noise(random); });
    for (std::size_t k = 0; k < values.size(); ++k)
      values[k] += static_cast<float>(200 * std::exp(-static_cast<double>(k) / 5));
    const std::size_t warm = warmup_samples(values);
    EXPECT_GE(warm, 15U);  // there the head still adds 10, ten times the noise
    EXPECT_LE(warm, 35U);  // there it adds less than a fifth of the noise
  }
}

TEST(WarmUp, LeavesIndependentSamplesAlone) {
  std::mt19937_64 random(9);
  std::normal_distribution<> normal(100, 5);
  std::lognormal_distribution<> skewed(4.6, 0.2);
  std::exponential_distribution<> tail(0.1);
  // How many of 1000 visits are left alone at least: a fence that is drawn from four samples is a rough one.
  struct Case {
    std::size_t samples;
    std::function<double()> draw;
    int alone;
  };
  const std::vector<Case> cases = {
      {8, [&] { return normal(random); }, 940},   {20, [&] { return normal(random); }, 980},
      {256, [&] { return normal(random); }, 995}, {8, [&] { return skewed(random); }, 930},
      {20, [&] { return skewed(random); }, 980},  {256, [&] { return skewed(random); }, 995},
      {20, [&] { return tail(random); }, 930},    {256, [&] { return tail(random); }, 980}};
  for (const Case& c : cases) {
    int alone = 0;
    for (int i = 0; i < 1000; ++i) alone += warmup_samples(drawn(c.samples, c.draw)) == 0 ? 1 : 0;
    EXPECT_GE(alone, c.alone) << c.samples << " samples";
  }
}

TEST(WarmUp, IsNeverMoreThanHalfAndNeverSeenInAFewSamples) {
  std::mt19937_64 random(10);
  for (std::size_t count = 0; count <= 64; ++count) {
    Values falling(count);
    for (std::size_t i = 0; i < count; ++i)
      falling[i] = static_cast<float>(std::pow(1.5, static_cast<double>(count - i)));
    EXPECT_LE(warmup_samples(falling), count / 2);
    EXPECT_TRUE(count >= 8 || warmup_samples(falling) == 0);
    const Values any = drawn(count, [&] { return static_cast<double>(random() % 5); });
    EXPECT_LE(warmup_samples(any), count / 2);
  }
}

TEST(CommonWarmUp, IsSeenAcrossShortVisits) {
  std::mt19937_64 random(11);
  std::vector<Block> blocks = normal_blocks(random, 8, 3, 1);
  for (Block& block : blocks) block.values[0] += 10;
  EXPECT_EQ(common_warmup(blocks), 1U);
  blocks = normal_blocks(random, 8, 6, 1);
  for (Block& block : blocks) block.values[0] += 30, block.values[1] += 20, block.values[2] += 10, block.values[3] += 5;
  EXPECT_EQ(common_warmup(blocks), 3U) << "never more than half";
}

TEST(CommonWarmUp, IsNotLookedForInLongVisitsOrFew) {
  std::mt19937_64 random(12);
  for (const auto& [visits, samples] : {std::pair<std::size_t, std::size_t>{3, 4}, {8, 8}, {8, 1}}) {
    std::vector<Block> blocks = normal_blocks(random, visits, samples, 1);
    for (Block& block : blocks) block.values[0] += 100;
    EXPECT_EQ(common_warmup(blocks), 0U);
  }
}

// A real one moves the median more than one that was seen by mistake, so with few visits the benefit of the doubt is
// its own.
TEST(CommonWarmUp, IsSeenLessAndLessOftenWhereThereIsNone) {
  std::mt19937_64 random(13);
  const auto seen = [&](std::size_t visits) {
    int count = 0;
    for (int i = 0; i < 1000; ++i) count += common_warmup(normal_blocks(random, visits, 4, 5)) != 0 ? 1 : 0;
    return count;
  };
  EXPECT_LE(seen(8), 150);
  EXPECT_LE(seen(16), 50);
  EXPECT_LE(seen(32), 10);
}

TEST(EstimatePoint, LeavesTheCommonWarmUpOutAndSaysHowMuchItWas) {
  std::mt19937_64 random(14);
  std::vector<Block> blocks = normal_blocks(random, 10, 4, 1);
  for (Block& block : blocks) block.values[0] += 50;
  const PointEstimate e = estimate_point(blocks);
  EXPECT_EQ(e.leading, 1U);
  EXPECT_EQ(e.samples, 30U);
  EXPECT_EQ(e.blocks, 10U);
  EXPECT_LT(e.high, 105);
  EXPECT_EQ(kept_values(blocks, e.leading).size(), 30U);
  const Values kept = kept_values(blocks, e.leading);
  EXPECT_LT(*std::max_element(kept.begin(), kept.end()), 120);
}

}  // namespace
}  // namespace netpipe
