// SPDX-License-Identifier: Apache-2.0
#include "worker/results/counts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "engine/opening/facts.h"
#include "worker/results/samples.h"

namespace netpipe {
namespace {

constexpr std::int64_t unknown = INT64_MIN;

Layer counting() {
  Layer layer;
  layer.keep_counters({{"retransmits", "1", "", NP_COUNTS_UP}, {"window", "bytes", "", NP_GAUGE}});
  return layer;
}

TEST(Counters, OfAVisitAreDifferencesAndGaugesAreValuesAtItsEnd) {
  const Layer layer = counting();
  std::vector<std::int64_t> after = {17, 900};
  count_since(layer, {12, 100}, after);
  EXPECT_EQ(after, (std::vector<std::int64_t>{5, 900}));
  after = {17, unknown};
  count_since(layer, {unknown, 100}, after);
  EXPECT_EQ(after, (std::vector<std::int64_t>{unknown, unknown})) << "there was nothing to take the difference to";
}

TEST(Counters, OfManyRanksAndVisitsAreSumsAndTheLargestGauge) {
  const Layer layer = counting();
  std::vector<std::int64_t> total;
  add_counters(layer, std::vector<std::int64_t>{3, 10}, total);
  add_counters(layer, std::vector<std::int64_t>{4, 70}, total);
  add_counters(layer, std::vector<std::int64_t>{unknown, 20}, total);
  EXPECT_EQ(total, (std::vector<std::int64_t>{7, 70}));
  add_counters(layer, std::vector<std::int64_t>{1, 2, 3}, total);
  EXPECT_EQ(total, (std::vector<std::int64_t>{7, 70})) << "of another version of the layer";
}

TEST(Counters, AreWrittenByNameWithoutWhatIsNotKnown) {
  const Layer layer = counting();
  EXPECT_EQ(counters_json(layer, std::vector<std::int64_t>{0, 5}, true), R"({"retransmits":0,"window":5})");
  EXPECT_EQ(counters_json(layer, std::vector<std::int64_t>{0, 5}, false), R"({"window":5})");
  EXPECT_EQ(counters_json(layer, std::vector<std::int64_t>{unknown, 0}, true), R"({"window":0})");
  EXPECT_EQ(counters_json(layer, {}, true), "{}");
}

TEST(LossShare, IsThatOfAllMessages) {
  const RatioEstimate loss = loss_share(std::vector<Losses>{{1, 100}, {0, 100}, {5, 400}});
  EXPECT_DOUBLE_EQ(loss.value, 0.01);
  EXPECT_FALSE(loss.bounded) << "three visits do not tell how visits differ";
  EXPECT_EQ(loss_share({}).value, 0);
}

TEST(LossShare, WithoutALossIsBoundedByThreeOverTheMessages) {
  const RatioEstimate loss = loss_share(std::vector<Losses>(10, {0, 1000}));
  EXPECT_EQ(loss.value, 0);
  EXPECT_EQ(loss.low, 0);
  EXPECT_DOUBLE_EQ(loss.high, 3.0 / 10000);
}

// Messages are lost in bursts: in one visit of five, two of a hundred. An interval that took each loss for independent
// of the others would be too narrow.
TEST(LossShare, HasAnIntervalThatHoldsForBursts) {
  std::mt19937_64 random(7);
  constexpr double truth = 0.2 * 0.02;
  int covered = 0;
  constexpr int runs = 1000;
  for (int run = 0; run < runs; ++run) {
    std::vector<Losses> visits;
    for (int v = 0; v < 40; ++v) {
      const bool bad = std::bernoulli_distribution(0.2)(random);
      visits.push_back({bad ? std::binomial_distribution<std::uint64_t>(1000, 0.02)(random) : 0, 1000});
    }
    const RatioEstimate loss = loss_share(visits);
    EXPECT_TRUE(loss.bounded);
    covered += loss.low <= truth && truth <= loss.high ? 1 : 0;
  }
  EXPECT_GE(covered, runs * 92 / 100);
}

// A mean of what has no bound above: here of a mean that is 3, from visits of very different lengths.
TEST(RatioEstimate, IsThatOfAllVisitsHoweverLongTheyAre) {
  std::vector<Ratio> visits;
  for (int v = 0; v < 8; ++v) visits.push_back(v % 2 == 0 ? Ratio{30, 10} : Ratio{303, 101});
  const RatioEstimate mean = estimate_ratio(visits, false);
  EXPECT_DOUBLE_EQ(mean.value, 3);
  EXPECT_TRUE(mean.bounded);
  EXPECT_DOUBLE_EQ(mean.low, 3);
  EXPECT_DOUBLE_EQ(mean.high, 3);
  visits[0].sum = 60;
  const RatioEstimate wider = estimate_ratio(visits, false);
  EXPECT_LT(wider.low, 3);
  EXPECT_GT(wider.high, wider.value) << "above 1: it is no share";
  EXPECT_DOUBLE_EQ(estimate_ratio(std::vector<Ratio>(8, {10, 10}), true).high, 1);
  EXPECT_FALSE(estimate_ratio(std::vector<Ratio>(7, {30, 10}), false).bounded);
  EXPECT_FALSE(estimate_ratio({}, false).bounded);
}

Layer measuring() {
  Layer layer;
  layer.keep_counters(
      {{"came", "1", "", NP_COUNTS_UP}, {"late", "1", "", NP_COUNTS_UP}, {"late_ns", "ns", "", NP_COUNTS_UP}});
  layer.keep_measures({{"late", "1", "", 1, 0}, {"lateness", "ns", "", 2, 1}});
  return layer;
}

TEST(MeasuresOfALayer, TakeEachVisitThatSaysSomething) {
  const Layer layer = measuring();
  std::vector<std::vector<Ratio>> of_layer;
  add_to_measures(layer, std::vector<std::int64_t>{100, 5, 700}, of_layer);
  add_to_measures(layer, std::vector<std::int64_t>{50, 0, 0}, of_layer);
  add_to_measures(layer, std::vector<std::int64_t>{unknown, 3, unknown}, of_layer);
  add_to_measures(layer, std::vector<std::int64_t>{1, 2}, of_layer);
  ASSERT_EQ(of_layer.size(), 2U);
  ASSERT_EQ(of_layer[0].size(), 2U);
  EXPECT_DOUBLE_EQ(estimate_ratio(of_layer[0], true).value, 5.0 / 150);
  ASSERT_EQ(of_layer[1].size(), 1U) << "where nothing was late, or it is not known how much, nothing is added";
  EXPECT_DOUBLE_EQ(estimate_ratio(of_layer[1], false).value, 140);
}

ChosenPattern chosen(const char* name) { return std::move(*parse_pattern(name)); }

TEST(LostMessages, TakeTheTimeFromTheirSampleInPingPong) {
  const Gathered gathered{.notes = {{0, 100, 5100, 5200}, {}}, .counters = {}, .lost = {{0, 0, 0}, {0, 1, 0}}};
  const VisitShape visit{.nranks = 2, .size_bytes = 8, .samples = 3, .rounds = 5};
  const Samples samples = take_samples(chosen("pingpong"), visit, gathered);
  EXPECT_EQ(samples.ns, (std::vector<double>{100, 100}));
  EXPECT_EQ(samples.losses.lost, 1U);
  EXPECT_EQ(samples.losses.messages, 30U) << "three samples of five rounds, there and back";
  VisitShape calibrating = visit;
  calibrating.calibrating = true;
  EXPECT_EQ(take_samples(chosen("pingpong"), calibrating, gathered).ns.size(), 3U);
}

TEST(LostMessages, ThinAStream) {
  const int receiver = 1;
  Gathered gathered{.notes = RankNumbers(2), .counters = {}, .lost = {{0, 0}, {5, 10}}};
  gathered.notes[receiver] = {0, 1000, 2000};
  const VisitShape visit{.nranks = 2, .size_bytes = 8, .samples = 2, .rounds = 10};
  const Samples samples = take_samples(chosen("stream"), visit, gathered);
  EXPECT_EQ(samples.ns, (std::vector<double>{2000})) << "half arrived; of the second sample nothing did";
  EXPECT_EQ(samples.losses.lost, 15U);
  EXPECT_EQ(samples.losses.messages, 20U);
}

TEST(LostMessages, ToManyAreCountedAtEachReceiver) {
  const Gathered gathered{.notes = {{0, 100, 5100, 9000, 9100}, {}, {}},
                          .counters = {},
                          .lost = {{0, 0, 0, 0}, {0, 1, 0, 0}, {0, 2, 3, 0}}};
  const VisitShape visit{.nranks = 3, .size_bytes = 8, .samples = 4, .rounds = 5};
  const Samples samples = take_samples(chosen("cast"), visit, gathered);
  EXPECT_EQ(samples.ns, (std::vector<double>{100, 100}));
  EXPECT_EQ(samples.losses.lost, 6U);
  EXPECT_EQ(samples.losses.messages, 40U);
  ASSERT_EQ(samples.losses_of_ranks.size(), 3U);
  EXPECT_EQ(samples.losses_of_ranks[0].messages, 0U) << "nothing is sent to rank 0 but answers";
  EXPECT_EQ(samples.losses_of_ranks[1].lost, 1U);
  EXPECT_EQ(samples.losses_of_ranks[2].lost, 5U);
  EXPECT_EQ(samples.losses_of_ranks[2].messages, 20U);
}

TEST(LostMessages, DoNotIncludeAnAnswerWhoseLossSpoiledASample) {
  const Gathered gathered{.notes = {{0, 100, 5100}, {}, {}}, .counters = {}, .lost = {{0, 1}, {0, 0}, {0, 0}}};
  const VisitShape visit{.nranks = 3, .size_bytes = 8, .samples = 2, .rounds = 5};
  const Samples samples = take_samples(chosen("cast"), visit, gathered);
  EXPECT_EQ(samples.ns, (std::vector<double>{100}));
  EXPECT_EQ(samples.losses.lost, 0U);
  EXPECT_EQ(samples.losses.messages, 20U);
}

TEST(LostMessages, OfTwoRanksOrOfPairsAreToldOfAllTogether) {
  const VisitShape two{.nranks = 2, .size_bytes = 8, .samples = 1, .rounds = 1};
  const Gathered of_two{.notes = {{0, 100}, {}}, .counters = {}, .lost = {{0}, {0}}};
  EXPECT_TRUE(take_samples(chosen("cast"), two, of_two).losses_of_ranks.empty());
  const VisitShape four{.nranks = 4, .size_bytes = 8, .samples = 1, .rounds = 1};
  const Gathered of_four{.notes = {{0, 100}, {0, 100}, {}, {}}, .counters = {}, .lost = {{0}, {0}, {0}, {0}}};
  EXPECT_TRUE(take_samples(chosen("pingpong"), four, of_four).losses_of_ranks.empty());
}

}  // namespace
}  // namespace netpipe
