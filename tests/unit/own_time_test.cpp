// SPDX-License-Identifier: Apache-2.0
// What overhead, overlap and loggp make of their notes.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "catalog/variant.h"

namespace netpipe {
namespace {

struct Outcome {
  double ns = 0, span_ns = 0;
  std::vector<double> measures;
};

// by_rank: the notes of each rank of one sample.
Outcome evaluated(const std::string& text, std::uint64_t rounds,
                  const std::vector<std::vector<std::int64_t>>& by_rank) {
  const Result<Mode> mode = parse_mode(text);
  EXPECT_TRUE(mode) << mode.failure().sentence;
  const Pattern& pattern = *mode->pattern;
  const Part part = mode->part(0, static_cast<int>(by_rank.size()), 8);
  std::vector<std::span<const std::int64_t>> notes;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Part own = mode->part(static_cast<int>(rank), part.nranks, 8);
    EXPECT_EQ(by_rank[rank].size(), notes_of(pattern, own, 1, rounds)) << "rank " << rank;
    notes.emplace_back(by_rank[rank]);
  }
  Outcome outcome;
  outcome.measures.resize(pattern.measures.size());
  Reading reading;
  reading.measures = outcome.measures;
  pattern.evaluate(part, rounds, notes, reading);
  outcome.ns = reading.ns;
  outcome.span_ns = reading.span_ns;
  return outcome;
}

TEST(Overlap, IsWhatExchangeAndComputationSaveTogether) {
  // 4 rounds of an exchange of 100 ns, 70 of which go on alone, and of a computation of 200 ns.
  const Outcome o = evaluated("overlap", 4, {{400, 800, 920, 5000}, {400, 800, 920, 5100}});
  EXPECT_EQ(o.ns, 400);
  EXPECT_EQ(o.span_ns, 5000);
  EXPECT_EQ(o.measures, (std::vector<double>{70, 0.7, 200, 230, 30}));
}

TEST(Overlap, OfTwoRanksTheLongerComputationCountsAndTheMeanExchange) {
  const Outcome o = evaluated("overlap", 1, {{160, 200, 205, 1000}, {40, 240, 310, 1000}});
  EXPECT_EQ(o.ns, 100);
  EXPECT_EQ(o.measures, (std::vector<double>{30, 0.3, 240, 310, 70}));
}

TEST(Overlap, OfOneRankThatComputesItsOwnTimesCount) {
  const Outcome o = evaluated("overlap:computes=one", 1, {{100, 200, 220, 1000}, {5000, 1, 5000, 1000}});
  EXPECT_EQ(o.ns, 100);
  EXPECT_EQ(o.measures, (std::vector<double>{80, 0.8, 200, 220, 20}));
}

TEST(Overlap, OfAmongSeveralPairsIsTheOutermostOnes) {
  const std::vector<std::int64_t> slow{9000, 9000, 9000, 9000};
  const Outcome o = evaluated("overlap", 1, {{100, 200, 300, 1000}, slow, slow, {100, 200, 300, 1000}});
  EXPECT_EQ(o.measures[0], 0);
  EXPECT_EQ(o.measures[1], 0);
}

TEST(Overlap, BelowZeroIsNotHidden) {
  const Outcome o = evaluated("overlap", 1, {{100, 200, 330, 1000}, {100, 200, 320, 1000}});
  EXPECT_EQ(o.measures[0], -30);
  EXPECT_DOUBLE_EQ(o.measures[1], -0.3);
}

TEST(Overhead, IsTheTimeInBothCallsWithoutTheClocksOwn) {
  const Outcome o = evaluated("overhead", 4, {{425, 105, 25, 9000}, {}});
  EXPECT_EQ(o.ns, 480);
  EXPECT_EQ(o.span_ns, 9000);
  EXPECT_EQ(o.measures, (std::vector<double>{100, 20}));
}

TEST(Overhead, OfOneCallHasOneReadingTakenOff) {
  const Outcome o = evaluated("overhead:call=blocking,side=recv", 2, {{225, 0, 25, 900}, {}});
  EXPECT_EQ(o.ns, 200);
  EXPECT_EQ(o.measures, (std::vector<double>{100, 0}));
}

TEST(Overhead, SendsAndReceivesOnOppositeSides) {
  for (const std::string side : {"send", "recv"}) {
    const Result<Mode> mode = parse_mode("overhead:side=" + side);
    ASSERT_TRUE(mode);
    const Pattern& p = *mode->pattern;
    for (const int rank : {0, 1, 2, 3}) {
      const bool sends = (rank < 2) == (side == "send");
      EXPECT_EQ(p.departures(mode->part(rank, 4, 8)), sends ? 1U : 0U) << side << rank;
      EXPECT_EQ(p.arrivals(mode->part(rank, 4, 8)), sends ? 0U : 1U) << side << rank;
    }
    EXPECT_EQ(p.most_rounds(mode->part(0, 2, 1)), 16U);
    EXPECT_EQ(p.most_rounds(mode->part(0, 2, 16 << 20)), 4U) << "places of a batch fit into 64 MiB";
    EXPECT_EQ(p.most_rounds(mode->part(0, 2, 1ULL << 30)), 1U);
  }
}

TEST(LogGP, TakesTheRoundTripApart) {
  // Latency 500, sending 40, receiving 60, a gap of 100; two rounds, 5 messages.
  const std::int64_t single = 2 * 2 * (40 + 500 + 60);
  const Outcome o =
      evaluated("loggp:messages=5", 2, {{single, single + 2 * 4 * 100, single + 2 * 4 * 40, 2 * 5 * 60, 77777}, {}});
  EXPECT_EQ(o.ns, single);
  EXPECT_EQ(o.span_ns, 77777);
  EXPECT_EQ(o.measures, (std::vector<double>{40, 60, 100, 500}));
}

TEST(LogGP, BelowZeroIsNotHidden) {
  const Outcome o = evaluated("loggp:messages=2", 1, {{1000, 990, 980, -4, 5000}, {}});
  EXPECT_EQ(o.measures, (std::vector<double>{-20, -2, -10, 522}));
}

TEST(LogGP, SendsWhatTheOtherSideReceives) {
  const Result<Mode> mode = parse_mode("loggp:messages=7");
  ASSERT_TRUE(mode);
  const Pattern& p = *mode->pattern;
  EXPECT_EQ(p.departures(mode->part(0, 2, 8)), p.arrivals(mode->part(1, 2, 8)));
  EXPECT_EQ(p.arrivals(mode->part(0, 2, 8)), p.departures(mode->part(1, 2, 8)));
  EXPECT_FALSE(parse_mode("loggp:messages=1")) << "one message has no gap";
}

}  // namespace
}  // namespace netpipe
