// SPDX-License-Identifier: Apache-2.0
// What the pattern `loaded` makes of what was noted.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "catalog/variant.h"
#include "patterns/kit/pattern.h"

namespace netpipe {
namespace {

struct Sample {
  std::array<double, 3> measures{};
  Reading reading;
};

// Of each rank: ns unloaded, ns loaded, units then, ns alone, units then, ns of the whole.
using Noted = std::vector<std::int64_t>;

Sample evaluated(const std::vector<Noted>& noted, std::uint64_t rounds) {
  const Result<ChosenPattern> chosen = parse_pattern("loaded", {});
  EXPECT_TRUE(chosen);
  const int ranks = static_cast<int>(noted.size());
  const Part part = chosen->part(0, ranks, 8);
  std::vector<std::span<const std::int64_t>> of;
  for (const Noted& own : noted) {
    EXPECT_EQ(chosen->pattern->notes(part, rounds), own.size());
    of.emplace_back(own);
  }
  Sample sample;
  sample.reading.measures = sample.measures;
  chosen->pattern->evaluate(part, rounds, of, sample.reading);
  sample.reading.ns /= static_cast<double>(rounds) * chosen->pattern->operations(part);
  return sample;
}

TEST(Loaded, ComparesTheTimesAndTheRatesOfWork) {
  // 100 round trips: 1 ms without load, 3 ms with it; work at 4 and 2 units a us alone, at 1 each beside it.
  const Sample sample = evaluated({{1'000'000, 3'000'000, 3'000, 2'000'000, 8'000, 9'000'000},
                                   {1'000'000, 3'000'000, 3'000, 2'000'000, 4'000, 9'000'000}},
                                  100);
  EXPECT_DOUBLE_EQ(sample.reading.ns, 15'000) << "one way";
  EXPECT_DOUBLE_EQ(sample.reading.span_ns, 9'000'000);
  EXPECT_DOUBLE_EQ(sample.measures[0], 5'000);
  EXPECT_DOUBLE_EQ(sample.measures[1], 3);
  EXPECT_DOUBLE_EQ(sample.measures[2], 3) << "6 units a us in all against 2";
}

TEST(Loaded, CountsTheWorkOfThoseThatCompute) {
  const Sample sample = evaluated(
      {{1'000'000, 1'500'000, 0, 0, 0, 9'000'000}, {1'000'000, 1'500'000, 3'000, 2'000'000, 5'000, 9'000'000}}, 100);
  EXPECT_DOUBLE_EQ(sample.measures[2], 1.25);
}

TEST(Loaded, HasNothingToSlowDownWithoutLoad) {
  const Sample sample = evaluated({{1'000'000, 1'000'000, 0, 0, 0, 9'000}, {1'000'000, 1'000'000, 0, 0, 0, 9'000}}, 10);
  EXPECT_DOUBLE_EQ(sample.measures[1], 1);
  EXPECT_DOUBLE_EQ(sample.measures[2], 1);
}

TEST(Loaded, RefusesALoadThatIsNone) {
  for (const char* wrong : {"loaded:load=101", "loaded:load=-1", "loaded:work=disk", "loaded:side=middle"}) {
    const Result<ChosenPattern> chosen = parse_pattern(wrong, {});
    ASSERT_FALSE(chosen) << wrong;
    EXPECT_EQ(chosen.failure().exit, Exit::usage);
  }
}

}  // namespace
}  // namespace netpipe
