// SPDX-License-Identifier: Apache-2.0
// What the notes of the ranks come to as samples, over the patterns that note in each way.
#include "worker/samples.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace netpipe {
namespace {

Mode mode_of(const std::string& text) {
  Result<Mode> mode = parse_mode(text);
  EXPECT_TRUE(mode) << mode.failure().sentence;
  return std::move(*mode);
}

TEST(Samples, OfClockReadingsLieBetweenThem) {
  const Samples samples = take_samples(mode_of("pingpong"), {.nranks = 2, .samples = 3, .rounds = 4},
                                       {.notes = {{100, 110, 125, 165}, {}}});
  EXPECT_EQ(samples.ns, (std::vector<double>{10, 15, 40}));
  EXPECT_EQ(samples.span_ns, 0) << "as long as its operations";
  EXPECT_TRUE(samples.beside.measures.empty());
}

TEST(Samples, AreTakenFromTheRankWhoseClockCounts) {
  const Mode stream = mode_of("stream");
  const int clock_rank = stream.pattern->clock_rank(2);
  RankNumbers notes(2);
  notes[static_cast<std::size_t>(clock_rank)] = {0, 7};
  notes[static_cast<std::size_t>(1 - clock_rank)] = {0, 9999};
  EXPECT_EQ(take_samples(stream, {.nranks = 2, .samples = 1, .rounds = 1}, {.notes = notes}).ns,
            (std::vector<double>{7}));
}

TEST(Samples, OfAPatternThatNotesAreWhatItMakesOfEachSample) {
  // Two samples of four rounds; what overlap makes of one is tested with the pattern.
  const std::vector<std::int64_t> first = {400, 800, 920, 5000};
  const std::vector<std::int64_t> second = {800, 800, 1320, 7000};
  std::vector<std::int64_t> both = first;
  both.insert(both.end(), second.begin(), second.end());
  const Mode overlap = mode_of("overlap");
  const Samples samples =
      take_samples(overlap, {.nranks = 2, .size_bytes = 8, .samples = 2, .rounds = 4}, {.notes = {both, both}});
  EXPECT_EQ(samples.ns, (std::vector<double>{400, 800}));
  EXPECT_EQ(samples.span_ns, 12000);
  ASSERT_EQ(samples.beside.measures.size(), overlap.pattern->measures.size());
  EXPECT_EQ(samples.beside.measures[0], (std::vector<float>{70, 70}));
}

// The first sample is far above all others: warm-up, but not while the speed is being found out.
TEST(Samples, DropWarmUpFromCellsAndEvents) {
  const Mode pairs = mode_of("pairs");
  constexpr int nranks = 4;
  constexpr std::uint64_t count = 16;
  RankNumbers notes(nranks);
  for (int rank = 0; rank < nranks; ++rank) {
    const Part part = pairs.part(rank, nranks, 8);
    const std::uint64_t each = notes_of(*pairs.pattern, part, 1, 1);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::int64_t ns = i == 0 ? 1'000'000 : 1000 + 10 * rank;
      for (std::uint64_t n = 0; n < each; ++n)
        notes[static_cast<std::size_t>(rank)].push_back(static_cast<std::int64_t>(n) * ns);
    }
  }
  const VisitShape shape{.nranks = nranks, .size_bytes = 8, .samples = count, .rounds = 1};
  const Samples samples = take_samples(pairs, shape, {.notes = notes});
  ASSERT_EQ(samples.ns.size(), count) << "the times of all samples are kept: the sampler drops them";
  ASSERT_FALSE(samples.beside.cells.empty());
  std::uint64_t slowest = 0;
  for (const std::uint32_t times : samples.beside.slowest) slowest += times;
  VisitShape calibrating = shape;
  calibrating.calibrating = true;
  std::uint64_t slowest_calibrating = 0;
  for (const std::uint32_t times : take_samples(pairs, calibrating, {.notes = notes}).beside.slowest)
    slowest_calibrating += times;
  EXPECT_EQ(slowest_calibrating, count);
  EXPECT_EQ(slowest, count - 1);
}

}  // namespace
}  // namespace netpipe
