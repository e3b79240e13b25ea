// SPDX-License-Identifier: Apache-2.0
// What the pattern `offered` makes of what was noted.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "catalog/variant.h"
#include "patterns/kit/pattern.h"

namespace netpipe {
namespace {

struct Batch {
  std::vector<double> events;
  std::array<double, 4> measures{};
  Reading reading;
};

// offered: which rate; latencies: of a batch whose departures were planned at these distances.
Batch evaluated(const std::string& offered, std::int64_t gap_ns, const std::vector<std::int64_t>& latencies,
                std::int64_t late = 0, std::int64_t clock_error = 0) {
  const Result<ChosenPattern> chosen = parse_pattern(offered, {});
  EXPECT_TRUE(chosen);
  const Part part = chosen->part(1, 2, 8);
  const auto rounds = latencies.size();
  const auto planned = gap_ns * static_cast<std::int64_t>(rounds - 1);
  std::vector<std::int64_t> own = {late, clock_error, 12'345, planned};
  own.insert(own.end(), latencies.begin(), latencies.end());
  EXPECT_EQ(chosen->pattern->notes(part, rounds), own.size());
  EXPECT_EQ(chosen->pattern->clock_rank(2), 1) << "the receiver's";
  const std::array<std::span<const std::int64_t>, 2> of = {std::span<const std::int64_t>{}, own};
  Batch batch;
  batch.reading.measures = batch.measures;
  batch.reading.events = &batch.events;
  chosen->pattern->evaluate(part, rounds, of, batch.reading);
  return batch;
}

TEST(Offered, HasTheMedianLatencyOfABatchAsItsTime) {
  const Batch batch = evaluated("offered:rate=1000", 1'000'000, {900, 100, 300, 200, 70'000});
  EXPECT_DOUBLE_EQ(batch.reading.ns / 5, 300);
  EXPECT_DOUBLE_EQ(batch.reading.span_ns, 12'345);
  EXPECT_EQ(batch.events, (std::vector<double>{900, 100, 300, 200, 70'000}));
}

TEST(Offered, ReachesItsRateWhereTheLastMessageWaitsNoLongerThanTheFirst) {
  const Batch batch = evaluated("offered:rate=1000", 1'000'000, {500, 90'000, 500, 500, 500});
  EXPECT_DOUBLE_EQ(batch.measures[0], 1000);
  EXPECT_DOUBLE_EQ(batch.measures[1], 1000);
  EXPECT_DOUBLE_EQ(batch.measures[2], 0);
}

// A layer that takes 400 ns a message is offered one every 100 ns.
TEST(Offered, ReachesWhatTheLayerHoldsWhereTheQueueGrows) {
  std::vector<std::int64_t> latencies;
  for (std::int64_t i = 0; i < 1000; ++i) latencies.push_back(400 + 300 * i);
  const Batch batch = evaluated("offered:rate=10000000", 100, latencies, 999);
  EXPECT_DOUBLE_EQ(batch.measures[0], 1e7);
  EXPECT_NEAR(batch.measures[1], 2.5e6, 1);
  EXPECT_DOUBLE_EQ(batch.measures[2], 0.999);
}

TEST(Offered, SaysHowFarTheClocksMayBeApart) {
  EXPECT_DOUBLE_EQ(evaluated("offered", 100'000, {5, 5, 5}, 0, 7'000).measures[3], 7'000);
}

TEST(Offered, CopesWithABatchOfOneMessage) {
  const Batch batch = evaluated("offered:rate=1", 0, {4'000});
  EXPECT_DOUBLE_EQ(batch.reading.ns, 4'000);
  EXPECT_DOUBLE_EQ(batch.measures[1], 1) << "nothing says otherwise";
}

// So long that there is a median, so short that a size at a low rate does not take the time of all others.
TEST(Offered, TakesBatchesThatLastNeitherTooLongNorTooShort) {
  for (const std::int64_t rate : {1, 2, 10, 100, 128, 1'000, 10'000, 1'000'000, 100'000'000}) {
    const Result<ChosenPattern> chosen = parse_pattern("offered:rate=" + std::to_string(rate), {});
    ASSERT_TRUE(chosen);
    for (const std::uint64_t size_bytes : {1ULL, 8ULL, 1ULL << 20U, 8ULL << 20U, 1ULL << 31U}) {
      const Part part = chosen->part(0, 2, size_bytes);
      const std::uint64_t rounds = chosen->pattern->fewest_rounds(part);
      EXPECT_EQ(chosen->pattern->most_rounds(part), rounds);
      EXPECT_GE(rounds, rate >= 128 && size_bytes <= 1U << 20U ? 64U : 1U);
      EXPECT_LE(rounds, 4096U);
      EXPECT_TRUE(rounds == 1 || static_cast<double>(rounds) / static_cast<double>(rate) <= 0.5) << rate;
      EXPECT_TRUE(rounds == 1 || rounds * size_bytes <= 64U << 20U) << "a rate that cannot be held";
    }
  }
}

TEST(Offered, RefusesARateThatIsNone) {
  for (const char* wrong :
       {"offered:rate=0", "offered:rate=-5", "offered:rate=100000001", "offered:rate=fast", "offered:arrivals=odd"}) {
    const Result<ChosenPattern> chosen = parse_pattern(wrong, {});
    ASSERT_FALSE(chosen) << wrong;
    EXPECT_EQ(chosen.failure().exit, Exit::usage);
  }
}

}  // namespace
}  // namespace netpipe
