// SPDX-License-Identifier: Apache-2.0
#include "sampling/histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace netpipe {
namespace {

// Spread evenly over the orders of magnitude from 0.1 ns to 1000 s.
double any_duration(std::mt19937_64& random) {
  std::uniform_real_distribution<> exponent(-1, 12);
  return std::pow(10, exponent(random));
}

TEST(Histogram, SaysEachDurationWithLessThanOne128thOfError) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const double ns = any_duration(random);
    const int bucket = Histogram::bucket_of(ns);
    const double low = Histogram::lower_ns(bucket);
    ASSERT_LE(low, ns);
    ASSERT_LT(ns, Histogram::lower_ns(bucket + 1));
    ASSERT_LT((ns - low) / ns, Histogram::resolution);
  }
}

TEST(Histogram, HasBucketsThatAscendWithoutGapOrOverlap) {
  const int first = Histogram::bucket_of(0.1);
  const int last = Histogram::bucket_of(1e12);
  for (int bucket = first; bucket <= last; ++bucket) {
    const double low = Histogram::lower_ns(bucket);
    const double next = Histogram::lower_ns(bucket + 1);
    ASSERT_LT(low, next);
    ASSERT_LE((next - low) / low, Histogram::resolution);
    ASSERT_EQ(Histogram::bucket_of(low), bucket);
    ASSERT_EQ(Histogram::bucket_of(std::nextafter(next, 0)), bucket);
  }
}

TEST(Histogram, PutsALongerDurationNeverIntoALowerBucket) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100'000; ++i) {
    const double a = any_duration(random);
    const double b = any_duration(random);
    ASSERT_EQ(
        a < b ? Histogram::bucket_of(a) <= Histogram::bucket_of(b) : Histogram::bucket_of(b) <= Histogram::bucket_of(a),
        true);
  }
}

TEST(Histogram, LosesNoCount) {
  std::mt19937_64 random(3);
  Histogram histogram;
  std::uint64_t added = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t count = random() % 4 == 0 ? random() % 1000 : 1;
    histogram.add(any_duration(random), count);
    added += count;
  }
  std::uint64_t sum = 0;
  for (const auto& [bucket, count] : histogram.counts()) sum += count;
  EXPECT_EQ(sum, added);
  EXPECT_EQ(histogram.total(), added);
}

TEST(Histogram, KnowsItsEndsAndItsMeanExactly) {
  Histogram one;
  one.add(3.25, 2);
  one.add(1e6 + 1);
  EXPECT_EQ(one.min_ns(), 3.25);
  EXPECT_EQ(one.max_ns(), 1e6 + 1);
  EXPECT_DOUBLE_EQ(one.mean_ns(), (6.5 + 1e6 + 1) / 3);
  Histogram other;
  other.add(2e6);
  other.add(0.125);
  one.add(other);
  one.add(Histogram());
  EXPECT_EQ(one.min_ns(), 0.125);
  EXPECT_EQ(one.max_ns(), 2e6);
  EXPECT_DOUBLE_EQ(one.mean_ns(), (6.5 + 1e6 + 1 + 2e6 + 0.125) / 5);
}

TEST(Histogram, TakesADurationOfNothing) {
  Histogram histogram;
  histogram.add(0);
  histogram.add(-1);
  EXPECT_EQ(histogram.total(), 2U);
  ASSERT_EQ(histogram.counts().size(), 1U);
  EXPECT_LE(Histogram::lower_ns(histogram.counts().begin()->first), 1e-6);
}

}  // namespace
}  // namespace netpipe
