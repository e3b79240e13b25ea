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

TEST(SamplerStop, MakesUpForAVisitThatWasTakenBackAlsoWhenTheBudgetIsSpent) {
  SamplerSetting setting;
  setting.budget_s = 0.0001;
  Sampler sampler(setting, {curve(powers(5))});
  Simulation simulation(sampler, {latency_and_rate});
  for (std::set<Place> taken_back; simulation.step();) {
    const Done& last = simulation.done().back();
    if (last.visit.pass < 0) continue;
    if (taken_back.emplace(last.visit.curve, last.visit.point).second)
      sampler.suspect_since(simulation.at_s() - last.seconds);
  }
  for (std::size_t p = 0; p < 5; ++p) {
    EXPECT_EQ(sampler.blocks_of(0, p).size(), 1U);
    EXPECT_EQ(sampler.curves()[0].points[p].stop, Stop::budget);
  }
}

TEST(SamplerStop, MakesUpForAllVisitsWhenTheyAreTakenBackAtTheEndOfTheBudget) {
  SamplerSetting setting;
  setting.target = 1e-5;
  setting.budget_s = 0.1;
  Sampler sampler(setting, {curve(powers(5))});
  Machine machine{latency_and_rate};
  machine.noise = 0.3;
  Simulation simulation(sampler, machine);
  while (sampler.curves()[0].used_s < setting.budget_s) ASSERT_TRUE(simulation.step());
  for (const Point& point : sampler.curves()[0].points) ASSERT_GT(point.passes, 3);
  sampler.suspect_since(0);
  simulation.run();
  for (std::size_t p = 0; p < 5; ++p) EXPECT_FALSE(sampler.blocks_of(0, p).empty()) << p;
}

TEST(SamplerStop, EndsAlsoWhenEveryVisitIsTakenBack) {
  SamplerSetting setting;
  setting.budget_s = 0.01;
  Sampler sampler(setting, {curve(powers(5))});
  Simulation simulation(sampler, {latency_and_rate});
  int steps = 0;
  for (; steps < 10'000 && simulation.step(); ++steps) sampler.suspect_since(0);
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

// The machine doubles its speed and halves it again; the two speeds may never become one number.
TEST(SamplerStop, NeverMixesStatesOfTheMachine) {
  SamplerSetting setting;
  setting.budget_s = 2;
  Sampler sampler(setting, {curve(powers(16))});
  double now_s = 0;
  Machine machine{[&](std::size_t, std::uint64_t) { return now_s < 0.2 || now_s > 0.5 ? 20'000.0 : 40'000.0; }};
  machine.state = [](double at_s) { return at_s < 0.2 || at_s > 0.5 ? 0 : 1; };
  Simulation simulation(sampler, machine);
  while (now_s = simulation.at_s(), simulation.step()) {
  }
  int both = 0;
  for (std::size_t p = 0; p < 16; ++p) {
    const Point& point = sampler.curves()[0].points[p];
    EXPECT_EQ(point.stop, Stop::precision);
    both += point.states.size() == 2 ? 1 : 0;
    const double expected = point.state() == 0 ? 10'000 : 20'000;
    std::size_t samples = 0;
    for (const Block& block : sampler.blocks_of(0, p)) {
      samples += block.values.size();
      for (const float v : block.values) ASSERT_NEAR(v, expected, 0.02 * expected);
    }
    for (const auto& [state, blocks] : point.states) {
      std::size_t others = 0;
      for (const Block& block : blocks) others += block.values.size();
      EXPECT_LE(others, samples) << "the state of a point is the one that most samples are of";
    }
    EXPECT_GE(sampler.blocks_of(0, p).size(), static_cast<std::size_t>(fewest_passes)) << "of one state";
  }
  EXPECT_GT(both, 0) << "nothing was tested";
}

TEST(SamplerStop, TakesBackExactlyWhatWasMeasuredSinceTheMachineBecameSuspect) {
  SamplerSetting setting;
  setting.target = 1e-5;
  setting.budget_s = 1;
  Sampler sampler(setting, {curve(powers(8))});
  Machine machine{latency_and_rate};
  machine.noise = 0.3;
  Simulation simulation(sampler, machine);
  while (simulation.at_s() < 0.5) ASSERT_TRUE(simulation.step());
  const std::vector<Curve> before = sampler.curves();
  const std::vector<Block>& some = before[0].points[3].states.at(0);
  const double since_s = some[some.size() / 2].at_s;  // that visit is one of those that are taken back
  sampler.suspect_since(since_s);
  std::size_t taken = 0;
  for (std::size_t p = 0; p < 8; ++p) {
    const std::vector<Block>& was = before[0].points[p].states.at(0);
    const std::span<const Block> is = sampler.blocks_of(0, p);
    std::size_t early = 0;
    std::size_t late_samples = 0;
    for (const Block& block : was) {
      early += block.at_s < since_s ? 1 : 0;
      late_samples += block.at_s < since_s ? 0 : block.values.size();
    }
    ASSERT_EQ(is.size(), early);
    for (std::size_t i = 0; i < early; ++i) EXPECT_EQ(is[i].values, was[i].values);
    EXPECT_EQ(sampler.curves()[0].points[p].suspect, late_samples);
    taken += late_samples;
  }
  EXPECT_GT(taken, 0U);
  simulation.run();
  for (const Point& point : sampler.curves()[0].points) EXPECT_EQ(point.stop, Stop::budget);
}

TEST(SamplerStop, LeavesWhatIsDoneAloneWhenTheMachineBecomesSuspect) {
  Sampler sampler({}, {curve(powers(4))});
  Simulation simulation(sampler, {latency_and_rate});
  simulation.run();
  const std::size_t blocks = sampler.blocks_of(0, 0).size();
  sampler.suspect_since(0);
  EXPECT_EQ(sampler.blocks_of(0, 0).size(), blocks) << "its point is in the file already";
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
