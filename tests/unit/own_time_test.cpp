// SPDX-License-Identifier: Apache-2.0
// What overhead, overlap and loggp make of their notes, and what they and window ask for with their options.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "catalog/variant.h"
#include "patterns/kit/longest.h"

namespace netpipe {
namespace {

struct Outcome {
  double ns = 0, span_ns = 0;
  std::vector<double> measures;
};

// by_rank: the notes of each rank of one sample.
Outcome evaluated(const std::string& text, std::uint64_t rounds,
                  const std::vector<std::vector<std::int64_t>>& by_rank) {
  const Result<ChosenPattern> chosen = parse_pattern(text);
  EXPECT_TRUE(chosen) << chosen.failure().sentence;
  const Pattern& pattern = *chosen->pattern;
  const Part part = chosen->part(0, static_cast<int>(by_rank.size()), 8);
  std::vector<std::span<const std::int64_t>> notes;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Part own = chosen->part(static_cast<int>(rank), part.nranks, 8);
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
  while (!outcome.measures.empty() && std::isnan(outcome.measures.back())) outcome.measures.pop_back();
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

TEST(Overlap, BySearchIsWhatWasFoundBesideTheModel) {
  // Two rounds: an exchange of 100 ns, of which the model hides 70 and the search 30, give or take 2.
  const Outcome o = evaluated("overlap:by=search", 2, {{200, 400, 460, 9000, 60, 4}, {200, 400, 460, 9000, 0, 0}});
  EXPECT_EQ(o.ns, 200);
  EXPECT_EQ(o.measures, (std::vector<double>{30, 0.3, 200, 230, 30, 70, 2}));
}

// A transfer of 1000 ns, 600 of which go on without calls; helper: so long after its start the rest does, too.
double with_computation(double c, double helper) {
  if (c <= 600) return 1000;
  const double helped = c > helper ? std::min(c - helper, 400.0) : 0;
  return c + 400 - helped;
}

TEST(Overlap, BySearchDiffersFromTheModelWhereItMattersWhenCallsAreMade) {
  for (const double helper : {1e9, 1000.0}) {
    const double a = with_computation(0, helper), c = 2 * a, b = with_computation(c, helper);
    EXPECT_EQ(a + c - b, helper == 1000 ? 1000 : 600) << "the model";
    const double found = longest_unnoticed(1.25 * a, 7, [&](double x) { return with_computation(x, helper) > a + 10; });
    EXPECT_NEAR(found, 610, 1250.0 / 128) << "what an application can do meanwhile, and the tolerance";
  }
  EXPECT_NEAR(longest_unnoticed(1250, 7, [](double) { return true; }), 0, 1250.0 / 128) << "nothing overlaps";
  EXPECT_NEAR(longest_unnoticed(1250, 7, [](double) { return false; }), 1250, 1250.0 / 128);
}

TEST(Overlap, CountsAsLengthenedWhatIsMoreThanPairsOfTheSameDiffer) {
  std::vector<std::int64_t> alike{-30, 10, 5000, -20, 0};
  EXPECT_EQ(tolerance_of(alike, 10), 50) << "2.5 x 20, whatever one pair met";
  std::vector<std::int64_t> exact(9, 0);
  EXPECT_EQ(tolerance_of(exact, 10), 10) << "a clock has steps";
}

TEST(Overlap, CountsTheExchangesOfItsSearch) {
  const Result<ChosenPattern> model = parse_pattern("overlap"), search = parse_pattern("overlap:by=search");
  ASSERT_TRUE(model && search);
  const Pattern& p = *model->pattern;
  EXPECT_EQ(p.arrivals(model->part(1, 2, 8)), 2U);
  EXPECT_EQ(p.arrivals(search->part(1, 2, 8)), 2U + 2 * (7 * 5 + 9));
  EXPECT_EQ(p.fewest_rounds(model->part(0, 2, 8)), 1U);
  EXPECT_EQ(p.fewest_rounds(search->part(0, 2, 8)), 8U);
  EXPECT_EQ(p.fewest_rounds(search->part(0, 2, 1 << 20)), 1U);
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

TEST(Overhead, OfBothSidesHasTwoReadingsOfEachRoundTripTakenOff) {
  for (const std::string call : {"request", "blocking"}) {
    const Outcome o = evaluated("overhead:side=both,call=" + call, 4, {{500, 700, 25, 9000}, {}});
    EXPECT_EQ(o.ns, 1000) << call;
    EXPECT_EQ(o.measures, (std::vector<double>{100, 150})) << call;
  }
}

TEST(Overhead, OfBothSidesIsAPingPong) {
  const Result<ChosenPattern> chosen = parse_pattern("overhead:side=both");
  ASSERT_TRUE(chosen);
  const Pattern& p = *chosen->pattern;
  for (const int rank : {0, 1}) {
    EXPECT_EQ(p.departures(chosen->part(rank, 2, 8)), 1U);
    EXPECT_EQ(p.arrivals(chosen->part(rank, 2, 8)), 1U);
    EXPECT_EQ(p.in_flight(chosen->part(rank, 2, 8)), 1U);
  }
  EXPECT_EQ(p.requests(chosen->part(0, 2, 8), 16), 2U);
  EXPECT_EQ(p.unfit(chosen->part(0, 2, 8), Layer()), "");
  const Result<ChosenPattern> wide = parse_pattern("overhead:side=both,in_flight=4");
  ASSERT_TRUE(wide);
  EXPECT_NE(p.unfit(wide->part(0, 2, 8), Layer()), "") << "it would not be obeyed";
}

TEST(Window, OfLocalCompletionSendsNoMoreThanMayPileUp) {
  const Result<ChosenPattern> chosen = parse_pattern("window:completion=local"), acknowledged = parse_pattern("window");
  ASSERT_TRUE(chosen && acknowledged);
  const Pattern& p = *chosen->pattern;
  EXPECT_EQ(p.most_rounds(chosen->part(0, 2, 1)), 4096U) << "65536 messages";
  EXPECT_EQ(p.most_rounds(chosen->part(0, 2, 64 << 10)), 64U) << "64 MiB";
  EXPECT_EQ(p.most_rounds(chosen->part(0, 2, 1 << 30)), 1U);
  EXPECT_EQ(p.most_rounds(acknowledged->part(0, 2, 1)), 0U) << "no bound";
  EXPECT_EQ(notes_of(p, chosen->part(0, 2, 8), 3, 1), 6U) << "the clock stops between samples";
  EXPECT_EQ(notes_of(p, acknowledged->part(0, 2, 8), 3, 1), 4U);
  EXPECT_EQ(all_rounds(p, chosen->part(0, 2, 8), 3, 5), 15U) << "all of its windows are timed";
  const Result<ChosenPattern> both = parse_pattern("window:completion=local,directions=both");
  ASSERT_TRUE(both);
  EXPECT_EQ(p.unfit(chosen->part(0, 2, 8), Layer()), "");
  EXPECT_NE(p.unfit(both->part(0, 2, 8), Layer()), "");
}

TEST(Overhead, SendsAndReceivesOnOppositeSides) {
  for (const std::string side : {"send", "recv"}) {
    const Result<ChosenPattern> chosen = parse_pattern("overhead:side=" + side);
    ASSERT_TRUE(chosen);
    const Pattern& p = *chosen->pattern;
    for (const int rank : {0, 1, 2, 3}) {
      const bool sends = (rank < 2) == (side == "send");
      EXPECT_EQ(p.departures(chosen->part(rank, 4, 8)), sends ? 1U : 0U) << side << rank;
      EXPECT_EQ(p.arrivals(chosen->part(rank, 4, 8)), sends ? 0U : 1U) << side << rank;
    }
    EXPECT_EQ(p.most_rounds(chosen->part(0, 2, 1)), 16U);
    EXPECT_EQ(p.most_rounds(chosen->part(0, 2, 16 << 20)), 4U) << "places of a batch fit into 64 MiB";
    EXPECT_EQ(p.most_rounds(chosen->part(0, 2, 1ULL << 30)), 1U);
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
  const Result<ChosenPattern> chosen = parse_pattern("loggp:messages=7");
  ASSERT_TRUE(chosen);
  const Pattern& p = *chosen->pattern;
  EXPECT_EQ(p.departures(chosen->part(0, 2, 8)), p.arrivals(chosen->part(1, 2, 8)));
  EXPECT_EQ(p.arrivals(chosen->part(0, 2, 8)), p.departures(chosen->part(1, 2, 8)));
  EXPECT_FALSE(parse_pattern("loggp:messages=1")) << "one message has no gap";
}

}  // namespace
}  // namespace netpipe
