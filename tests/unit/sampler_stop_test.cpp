// SPDX-License-Identifier: Apache-2.0
// When a point is done, what belongs to its number, and how the sampler comes to an end.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "sampling/sampler.h"
#include "simulated_machine.h"

namespace netpipe {
namespace {

TEST(SamplerStop, StopsByPrecisionWhereTheNoiseIsSmall) {
  Sampler sampler({}, {curve(powers(20))});
  Simulation simulation(sampler, {latency_and_rate});
  simulation.run();
  for (std::size_t p = 0; p < 20; ++p) {
    const Point& point = sampler.curves()[0].points[p];
    EXPECT_EQ(point.stop, Stop::precision);
    EXPECT_GE(point.passes, fewest_passes);
    const PointEstimate e = estimate_point(sampler.blocks_of(0, p));
    EXPECT_LE(e.half_width(), 0.01);
    EXPECT_NEAR(e.median, latency_and_rate(0, point.size_bytes) / 2, 0.01 * e.median)
        << "of one operation: half a round";
  }
  EXPECT_LT(sampler.curves()[0].used_s, 3);
}

TEST(SamplerStop, StopsByBudgetWhereTheNoiseIsLarge) {
  SamplerSetting setting;
  setting.budget_s = 0.2;
  Sampler sampler(setting, {curve(powers(20))});
  Machine machine{latency_and_rate};
  machine.noise = 0.8;
  Simulation simulation(sampler, machine);
  simulation.run();
  std::map<Stop, int> stops;
  for (const Point& point : sampler.curves()[0].points) ++stops[point.stop];
  EXPECT_EQ(stops[Stop::budget], 20);
  EXPECT_GE(sampler.curves()[0].used_s, 0.2);
}

// The smallest size is steady, and from its tenth visit or so on twice as fast if it `changes`; the next one is always
// steady; the others never settle.
Sampler beside_unsteady_sizes(bool changes) {
  SamplerSetting setting;
  setting.budget_s = 0.5;
  Sampler sampler(setting, {curve(powers(8))});
  std::mt19937_64 random(7);
  int asked = 0;
  Simulation simulation(sampler, {[&](std::size_t, std::uint64_t size_bytes) {
                          const bool fast = random() % 2 == 0;
                          if (size_bytes == 1) return changes && ++asked > 12 ? 5'000.0 : 10'000.0;
                          return size_bytes == 2 || fast ? 10'000.0 : 30'000.0;
                        }});
  simulation.run();
  return sampler;
}

TEST(SamplerStop, VisitsWhatIsPreciseFewerTimesUntilTheOthersAreDone) {
  const Sampler sampler = beside_unsteady_sizes(false);
  const Point& open = sampler.curves()[0].points[7];
  ASSERT_EQ(open.stop, Stop::budget);
  for (const std::size_t p : {0, 1}) {
    const Point& precise = sampler.curves()[0].points[p];
    EXPECT_EQ(precise.stop, Stop::precision);
    EXPECT_GT(precise.passes, fewest_passes + 2) << "it stands for the whole launch";
    EXPECT_LT(precise.passes, open.passes * 3 / 4) << "and leaves its time to the others";
    EXPECT_GT(precise.blocks.back().at_s, open.blocks.back().at_s / 2);
  }
}

TEST(SamplerStop, OpensAPrecisePointAgainWhereItChanges) {
  const Sampler sampler = beside_unsteady_sizes(true);
  EXPECT_EQ(sampler.curves()[0].points[0].stop, Stop::budget);
  EXPECT_EQ(sampler.curves()[0].points[1].stop, Stop::precision);
}

// tcp with a send buffer of 16 KiB: the receiver's delayed acknowledgement is waited for.
double stalls(std::size_t, std::uint64_t size_bytes) { return size_bytes < 65536 ? 14'000 : 88'000'000; }

TEST(SamplerStop, SlowSizesLeaveTheOthersTheirSamples) {
  SamplerSetting setting;
  setting.budget_s = 0.75;
  setting.target = 1e-4;
  Sampler sampler(setting, {curve(powers(21))});
  Machine machine{stalls};
  machine.noise = 0.2;
  Simulation simulation(sampler, machine);
  simulation.run();
  for (const Point& point : sampler.curves()[0].points) {
    ASSERT_FALSE(point.blocks.empty()) << point.size_bytes;
    const bool slow = point.size_bytes >= 65536;
    EXPECT_GE(point.passes, slow ? 1 : fewest_passes) << point.size_bytes;
  }
  const double slow_s = sampler.curves()[0].slow_s;
  EXPECT_GE(sampler.curves()[0].used_s - slow_s, 0.5 * setting.budget_s) << "what is fast has half of the budget";
  EXPECT_LE(slow_s, 5 * 2 * 0.088 * 1.5) << "of each slow size the calibration and one visit";
}

TEST(SamplerStop, WhatTakesLongerThanThereIsTimeForIsLeftOut) {
  SamplerSetting setting;
  setting.budget_s = 2;
  Sampler sampler(setting, {curve(powers(24))});
  Simulation simulation(sampler,
                        {[](std::size_t, std::uint64_t size_bytes) { return 1e3 * static_cast<double>(size_bytes); }});
  simulation.run();
  for (const Point& point : sampler.curves()[0].points) {
    const bool fits = 1e-6 * static_cast<double>(point.size_bytes) <= 1;  // half of the budget
    EXPECT_EQ(point.blocks.empty(), !fits) << point.size_bytes;
    EXPECT_EQ(point.too_slow, !fits) << point.size_bytes;
    EXPECT_TRUE(fits || point.stop == Stop::budget) << point.size_bytes;
  }
  EXPECT_LE(sampler.curves()[0].used_s, 3 * setting.budget_s);
}

TEST(SamplerStop, NoCurveIsLeftWithoutItsSmallestSize) {
  SamplerSetting setting;
  setting.budget_s = 0.1;
  Sampler sampler(setting, {curve({1 << 20, 1 << 21})});
  Simulation simulation(sampler, {[](std::size_t, std::uint64_t) { return 3e8; }});
  simulation.run();
  const std::vector<Point>& points = sampler.curves()[0].points;
  EXPECT_FALSE(points[0].blocks.empty());
  EXPECT_FALSE(points[0].too_slow);
  EXPECT_TRUE(points[1].too_slow);
}

TEST(SamplerStop, StopsByLimitWhereNothingElseEndsAPoint) {
  SamplerSetting setting;
  setting.target = 1e-5;
  setting.budget_s = 86400;
  Sampler sampler(setting, {curve({8})});
  Machine machine{latency_and_rate};
  machine.noise = 0.8;
  Simulation simulation(sampler, machine);
  simulation.run();
  const Point& point = sampler.curves()[0].points[0];
  EXPECT_EQ(point.stop, Stop::limit);
  EXPECT_GE(point.samples, most_samples_per_point);
  EXPECT_LT(point.samples, most_samples_per_point + most_samples_per_visit);
}

TEST(SamplerStop, GivesEveryPointSamplesAndNoMoreOnceTheBudgetIsSpent) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100; ++i) {
    SamplerSetting setting;
    setting.budget_s = std::pow(10.0, std::uniform_real_distribution<>(-2.5, 0.5)(random));
    setting.seed = random();
    Sampler sampler(setting, {curve(powers(24)), stream_curve(powers(24))});
    Machine machine{latency_and_rate};
    machine.noise = std::uniform_real_distribution<>(0, 0.5)(random);
    machine.around_s = 1e-6 * static_cast<double>(random() % 2000);
    Simulation simulation(sampler, machine);
    simulation.run();
    for (const Done& one : simulation.done()) {
      ASSERT_TRUE(one.visit.pass < 0 || !one.had_samples || one.used_before_s < setting.budget_s);
    }
    for (std::size_t c = 0; c < 2; ++c) {
      for (std::size_t p = 0; p < 24; ++p) {
        ASSERT_NE(sampler.curves()[c].points[p].stop, Stop::none);
        ASSERT_FALSE(sampler.blocks_of(c, p).empty()) << "a point that vanishes without a word";
      }
    }
  }
}

// A visit that lost a message in each sample takes its time and says no more.
void lose_all(Sampler& sampler, const Visit& visit, double at_s) { sampler.report(visit, {}, 1e-3, at_s, 0); }

TEST(SamplerStop, MakesUpForAVisitThatSaidNothingAlsoWhenTheBudgetIsSpent) {
  SamplerSetting setting;
  setting.budget_s = 0.0001;
  Sampler sampler(setting, {curve(powers(5))});
  std::set<Place> lost;
  double at_s = 0;
  while (const std::optional<Visit> visit = sampler.next()) {
    at_s += 1e-3;
    if (visit->pass >= 0 && lost.emplace(visit->curve, visit->point).second) {
      lose_all(sampler, *visit, at_s);
    } else {
      sampler.report(*visit, std::vector<double>(visit->samples, 20'000.0 * static_cast<double>(visit->rounds)), 1e-3,
                     at_s, 0);
    }
  }
  for (std::size_t p = 0; p < 5; ++p) {
    EXPECT_EQ(sampler.blocks_of(0, p).size(), 1U);
    EXPECT_EQ(sampler.curves()[0].points[p].stop, Stop::budget);
  }
}

TEST(SamplerStop, EndsAlsoWhenEveryVisitSaysNothing) {
  SamplerSetting setting;
  setting.budget_s = 0.01;
  Sampler sampler(setting, {curve(powers(5))});
  int steps = 0;
  for (double at_s = 0; steps < 10'000; ++steps) {
    const std::optional<Visit> visit = sampler.next();
    if (!visit) break;
    at_s += 1e-3;
    if (visit->pass < 0) {
      sampler.report(*visit, std::vector<double>(visit->samples, 20'000.0 * static_cast<double>(visit->rounds)), 1e-3,
                     at_s, 0);
    } else {
      lose_all(sampler, *visit, at_s);
    }
  }
  EXPECT_LT(steps, 10'000);
  for (const Point& point : sampler.curves()[0].points) EXPECT_EQ(point.stop, Stop::budget);
}

// A curve that nothing converges on spends its budget and not a multiple of it, however dear each visit is.
TEST(SamplerStop, StaysWithinItsBudgetByNoMoreThanOneVisit) {
  for (const double around_s : {0.0, 50e-6, 1e-3}) {
    SamplerSetting setting;
    setting.target = 1e-5;
    Sampler sampler(setting, {curve(powers(24))});
    Machine machine{latency_and_rate};
    machine.noise = 0.5;
    machine.around_s = around_s;
    Simulation simulation(sampler, machine);
    simulation.run();
    double longest = 0;
    for (const Done& one : simulation.done()) longest = std::max(longest, one.seconds);
    EXPECT_GE(sampler.curves()[0].used_s, setting.budget_s);
    // A size that has nothing yet is visited all the same; such visits are short.
    EXPECT_LE(sampler.curves()[0].used_s, 1.001 * setting.budget_s + longest);
    EXPECT_GE(simulation.done().back().visit.pass, fewest_passes - 1);
  }
}

TEST(SamplerStop, SaysOfEveryPointOnceThatItIsDone) {
  Sampler sampler({}, {curve(powers(10)), curve(powers(7))});
  Simulation simulation(sampler, {latency_and_rate});
  EXPECT_EQ(sampler.points(), 17U);
  std::vector<Place> done;
  bool more = true;
  while (more) {
    more = simulation.step();
    const std::vector<Place> now = sampler.take_done();
    done.insert(done.end(), now.begin(), now.end());
    EXPECT_EQ(sampler.points_done(), done.size());
  }
  EXPECT_EQ(std::set<Place>(done.begin(), done.end()).size(), 17U);
  EXPECT_EQ(done.size(), 17U);
  EXPECT_FALSE(sampler.next());
}

TEST(SamplerStop, GivesACurveUpAndGoesOnWithTheOther) {
  Sampler sampler({}, {curve(powers(10)), curve(powers(10))});
  Simulation simulation(sampler, {latency_and_rate});
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(simulation.step());
  sampler.give_up(0, Stop::error);
  const std::size_t before = simulation.done().size();
  simulation.run();
  for (std::size_t i = before; i < simulation.done().size(); ++i) EXPECT_EQ(simulation.done()[i].visit.curve, 1U);
  for (const Point& point : sampler.curves()[0].points) EXPECT_EQ(point.stop, Stop::error);
  for (const Point& point : sampler.curves()[1].points) EXPECT_EQ(point.stop, Stop::precision);
  EXPECT_EQ(sampler.points_done(), 20U);
}

TEST(SamplerStop, GivesASizeUpAndGoesOnWithTheOthers) {
  Sampler sampler({}, {curve(powers(4))});
  Simulation simulation(sampler, {latency_and_rate});
  const std::optional<Visit> first = sampler.next();
  ASSERT_TRUE(first);
  sampler.forget(*first);
  sampler.give_up_size(*first, Stop::error);
  simulation.run();
  for (std::size_t p = 0; p < 4; ++p) {
    EXPECT_EQ(sampler.curves()[0].points[p].stop, p == first->point ? Stop::error : Stop::precision);
    EXPECT_EQ(sampler.blocks_of(0, p).empty(), p == first->point);
  }
  EXPECT_EQ(sampler.points_done(), 4U);
}

TEST(SamplerStop, EndsACurveWhoseOnlySizeWasGivenUp) {
  Sampler sampler({}, {curve(powers(1))});
  const std::optional<Visit> only = sampler.next();
  ASSERT_TRUE(only);
  sampler.give_up_size(*only, Stop::error);
  EXPECT_FALSE(sampler.next());
  EXPECT_EQ(sampler.take_done().size(), 1U);
}

TEST(SamplerStop, KeepsNothingOfASizeThatFailed) {
  Sampler sampler({}, {curve(powers(4))});
  Simulation simulation(sampler, {latency_and_rate});
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(simulation.step());
  const std::optional<Visit> failed = sampler.next();
  ASSERT_TRUE(failed);
  EXPECT_FALSE(sampler.blocks_of(0, failed->point).empty());
  sampler.give_up(0, Stop::error);
  sampler.forget(*failed);
  for (std::size_t p = 0; p < 4; ++p) EXPECT_EQ(sampler.blocks_of(0, p).empty(), p == failed->point);
  EXPECT_FALSE(sampler.next());
}

TEST(SamplerStop, InterruptedKeepsWhatItHasAndEnds) {
  for (const int steps : {0, 1, 13, 60}) {
    Sampler sampler({}, {curve(powers(8)), stream_curve(powers(8))});
    Simulation simulation(sampler, {latency_and_rate});
    for (int i = 0; i < steps; ++i) ASSERT_TRUE(simulation.step());
    sampler.interrupt();
    EXPECT_FALSE(sampler.next());
    EXPECT_EQ(sampler.take_done().size(), 16U);
    EXPECT_EQ(sampler.left_s(), 0);
    std::size_t blocks = 0;
    for (std::size_t p = 0; p < 8; ++p) {
      EXPECT_EQ(sampler.curves()[0].points[p].stop, Stop::interrupted);
      blocks += sampler.blocks_of(0, p).size();
    }
    EXPECT_EQ(blocks > 0, steps == 60);
  }
}

TEST(SamplerStop, HasLessAndLessTimeLeft) {
  SamplerSetting setting;
  setting.budget_s = 0.5;
  Sampler sampler(setting, {curve(powers(10)), curve(powers(10))});
  EXPECT_DOUBLE_EQ(sampler.left_s(), 1);
  Machine machine{latency_and_rate};
  machine.noise = 0.2;
  Simulation simulation(sampler, machine);
  double last = sampler.left_s();
  while (simulation.step()) {
    ASSERT_LE(sampler.left_s(), last);
    last = sampler.left_s();
  }
  EXPECT_EQ(sampler.left_s(), 0);
}

TEST(SamplerStop, WithoutCurvesIsDoneAtOnce) {
  Sampler sampler({}, {});
  EXPECT_FALSE(sampler.next());
  EXPECT_EQ(sampler.points(), 0U);
  EXPECT_EQ(sampler.left_s(), 0);
}

TEST(StopName, IsThatOfTheRecord) {
  EXPECT_STREQ(stop_name(Stop::precision), "precision");
  EXPECT_STREQ(stop_name(Stop::budget), "budget");
  EXPECT_STREQ(stop_name(Stop::limit), "limit");
  EXPECT_STREQ(stop_name(Stop::interrupted), "interrupted");
}

}  // namespace
}  // namespace netpipe
