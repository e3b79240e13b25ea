// SPDX-License-Identifier: Apache-2.0
// What the notes of the ranks come to as samples, over the patterns that note in each way.
#include "worker/results/samples.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace netpipe {
namespace {

ChosenPattern chosen_of(const std::string& text) {
  Result<ChosenPattern> chosen = parse_pattern(text);
  EXPECT_TRUE(chosen) << chosen.failure().sentence;
  return std::move(*chosen);
}

TEST(Samples, OfClockReadingsLieBetweenThem) {
  const Samples samples = take_samples(chosen_of("pingpong"), {.nranks = 2, .samples = 3, .rounds = 4},
                                       {.notes = {{100, 110, 125, 165}, {}}});
  EXPECT_EQ(samples.ns, (std::vector<double>{10, 15, 40}));
  EXPECT_EQ(samples.span_ns, 0) << "as long as its operations";
  EXPECT_TRUE(samples.beside.measures.empty());
}

TEST(Samples, AreTakenFromTheRankWhoseClockCounts) {
  const ChosenPattern stream = chosen_of("stream");
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
  const ChosenPattern overlap = chosen_of("overlap");
  const Samples samples =
      take_samples(overlap, {.nranks = 2, .size_bytes = 8, .samples = 2, .rounds = 4}, {.notes = {both, both}});
  EXPECT_EQ(samples.ns, (std::vector<double>{400, 800}));
  EXPECT_EQ(samples.span_ns, 12000);
  ASSERT_EQ(samples.beside.measures.size(), overlap.pattern->measures.size());
  EXPECT_EQ(samples.beside.measures[0], (std::vector<float>{70, 70}));
}

// Of six ranks 0 and 5, 1 and 4, 2 and 3 are pairs. The first rank of each counts in pingpong, the last in stream.
TEST(Samples, OfManyPairsAreThoseOfTheSlowestAndEachPairIsACell) {
  for (const std::string pattern : {"pingpong", "stream"}) {
    const ChosenPattern chosen = chosen_of(pattern);
    const VisitShape shape{.nranks = 6, .size_bytes = 8, .samples = 3, .rounds = 1};
    RankNumbers notes(6);
    for (int rank = 0; rank < 6; ++rank) {
      const std::uint64_t wanted = notes_of(*chosen.pattern, chosen.part(rank, 6, 8), shape.samples, shape.rounds);
      EXPECT_EQ(wanted, (rank < 3) == (pattern == "pingpong") ? 4U : 0U) << pattern << " " << rank;
    }
    const std::vector<std::vector<std::int64_t>> of_pair = {{0, 10, 20, 30}, {0, 30, 35, 40}, {0, 20, 60, 70}};
    for (std::size_t pair = 0; pair < 3; ++pair) notes[pattern == "pingpong" ? pair : 5 - pair] = of_pair[pair];
    const Samples samples = take_samples(chosen, shape, {.notes = notes});
    EXPECT_EQ(samples.ns, (std::vector<double>{30, 40, 10}));
    const auto per_operation = static_cast<float>(chosen.pattern->operations(chosen.part(0, 6, 8)));
    EXPECT_EQ(samples.beside.cells, (std::vector<float>{10 / per_operation, 5 / per_operation, 20 / per_operation}));
    EXPECT_EQ(samples.beside.slowest, (std::vector<std::uint32_t>{1, 1, 1})) << "of equal ones the first";
    ASSERT_EQ(samples.beside.measures.size(), 1U) << "the imbalance";
    EXPECT_EQ(samples.beside.measures[0], (std::vector<float>{1.5, 4, 1}));
    EXPECT_EQ(measures_of(*chosen.pattern, 6).back().name, std::string("imbalance"));
    EXPECT_EQ(messages_of(*chosen.pattern, chosen.part(0, 6, 8)), 3U) << "a rate is that of all pairs";
    const Cell cell = cell_of(*chosen.pattern, chosen.part(0, 6, 8), 1);
    EXPECT_EQ(cell.rank, 1);
    EXPECT_EQ(cell.peer, 4);
  }
}

TEST(Samples, OfManyPairsHaveTheMeasuresOfTheSlowest) {
  const ChosenPattern overlap = chosen_of("overlap");
  // Exchange, computation, together, whole; both ranks of a pair alike.
  const std::vector<std::int64_t> slow = {800, 800, 1320, 7000};
  const std::vector<std::int64_t> fast = {400, 800, 920, 5000};
  const Samples samples = take_samples(overlap, {.nranks = 4, .size_bytes = 8, .samples = 1, .rounds = 4},
                                       {.notes = {fast, slow, slow, fast}});
  EXPECT_EQ(samples.ns, (std::vector<double>{800}));
  EXPECT_EQ(samples.span_ns, 7000);
  ASSERT_EQ(samples.beside.measures.size(), overlap.pattern->measures.size() + 1);
  EXPECT_EQ(samples.beside.measures[2], (std::vector<float>{200})) << "the computation";
  EXPECT_EQ(samples.beside.measures.back(), (std::vector<float>{2})) << "the imbalance";
}

TEST(Samples, OfManyPairsHaveNoTimeWhereOneOfThemLostAMessage) {
  const ChosenPattern pingpong = chosen_of("pingpong");
  const VisitShape shape{.nranks = 4, .size_bytes = 8, .samples = 3, .rounds = 1};
  Gathered gathered{.notes = {{0, 10, 20, 30}, {0, 11, 22, 33}, {}, {}}};
  gathered.lost = {{0, 0, 0}, {0, 1, 0}, {0, 0, 0}, {0, 0, 0}};
  const Samples samples = take_samples(pingpong, shape, gathered);
  EXPECT_EQ(samples.ns, (std::vector<double>{11, 11}));
  EXPECT_EQ(samples.losses.lost, 1U);
}

// A message that rank 0 lost, and a request that rank 2 did not get: only the first is a lost message.
TEST(Samples, OfAPatternThatNotesHaveNoTimeWhereAMessageWasLost) {
  const ChosenPattern incast = chosen_of("incast:arrivals=yes");
  const VisitShape shape{.nranks = 3, .size_bytes = 8, .samples = 3, .rounds = 1};
  // Of each sample: how long it lasted, and when the messages of ranks 1 and 2 came.
  Gathered gathered{.notes = {{10, 8, 9, 500, 20, 499, 30, 7, 29}, {}, {}}};
  gathered.lost = {{0, 1, 0}, {0, 0, 0}, {0, 0, 1}};
  const Samples samples = take_samples(incast, shape, gathered);
  EXPECT_EQ(samples.ns, (std::vector<double>{10}));
  EXPECT_EQ(samples.beside.cells, (std::vector<float>{8, 9}));
  EXPECT_EQ(samples.losses.lost, 1U);
  EXPECT_EQ(samples.losses.messages, 6U);
  EXPECT_TRUE(samples.losses_of_ranks.empty()) << "one rank receives all messages";
  VisitShape calibrating = shape;
  calibrating.calibrating = true;
  EXPECT_EQ(take_samples(incast, calibrating, gathered).ns, (std::vector<double>{10, 500, 30}));
}

// The first sample is far above all others: warm-up, but not while the speed is being found out.
TEST(Samples, DropWarmUpFromCellsAndEvents) {
  const ChosenPattern pairs = chosen_of("pairs");
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
