// SPDX-License-Identifier: Apache-2.0
// What the sampler visits, in which order, and how long. When it ends is sampler_stop_test.cpp.
#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "sampling/schedule.h"
#include "simulated_machine.h"

namespace netpipe {
namespace {

// The points of each pass in the order of their visits.
std::map<int, std::vector<Place>> passes_of(const std::vector<Done>& done) {
  std::map<int, std::vector<Place>> passes;
  for (const Done& one : done) passes[one.visit.pass].emplace_back(one.visit.curve, one.visit.point);
  return passes;
}

TEST(Sampler, CalibratesEveryPointAndThenVisitsItInEveryPass) {
  Sampler sampler({}, {curve(powers(20))});
  Simulation simulation(sampler, {latency_and_rate});
  simulation.run();
  auto passes = passes_of(simulation.done());
  std::map<Place, int> calibrations;
  for (const Place& place : passes[-1]) ++calibrations[place];
  EXPECT_EQ(calibrations.size(), 20U);
  for (const auto& [place, visits] : calibrations) EXPECT_LE(visits, 2);
  for (int pass = 0; pass < fewest_passes; ++pass) {
    EXPECT_EQ(std::set<Place>(passes[pass].begin(), passes[pass].end()).size(), 20U) << pass;
    EXPECT_EQ(passes[pass].size(), 20U) << "each once";
  }
  const auto first_pass =
      std::find_if(simulation.done().begin(), simulation.done().end(), [](const Done& d) { return d.visit.pass >= 0; });
  EXPECT_TRUE(std::all_of(first_pass, simulation.done().end(), [](const Done& d) { return d.visit.pass >= 0; }));
  EXPECT_TRUE(std::is_sorted(first_pass, simulation.done().end(),
                             [](const Done& a, const Done& b) { return a.visit.pass < b.visit.pass; }));
}

TEST(Sampler, VisitsInAnotherRandomOrderInEachPass) {
  Sampler sampler({}, {curve(powers(20))});
  Simulation simulation(sampler, {latency_and_rate});
  simulation.run();
  auto passes = passes_of(simulation.done());
  for (int pass = 0; pass < fewest_passes; ++pass) {
    EXPECT_FALSE(std::is_sorted(passes[pass].begin(), passes[pass].end())) << pass;
    for (int other = 0; other < pass; ++other) EXPECT_NE(passes[pass], passes[other]);
  }
}

TEST(Sampler, RepeatsItsOrderWithTheSameSeedOnly) {
  const auto order = [](std::uint64_t seed) {
    SamplerSetting setting;
    setting.seed = seed;
    Sampler sampler(setting, {curve(powers(12)), curve(powers(12))});
    Simulation simulation(sampler, {latency_and_rate});
    simulation.run();
    return passes_of(simulation.done());
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

// docs/decisions/0016-blocks.md.
TEST(Sampler, LocatesAStepToASixteenthOfAnOctave) {
  for (const double threshold : {1'000.0, 5'793.0, 12'289.0, 65'537.0, 400'000.0}) {
    SamplerSetting setting;
    setting.target = 1e-5;
    Sampler sampler(setting, {adaptive_curve()});
    Machine machine{[&](std::size_t c, std::uint64_t size) {
      return latency_and_rate(c, size) * (static_cast<double>(size) >= threshold ? 1.3 : 1.0);
    }};
    machine.noise = 0.02;
    Simulation simulation(sampler, machine);
    simulation.run();
    const std::vector<std::uint64_t> sizes = measured_sizes(sampler);
    const auto above = std::lower_bound(sizes.begin(), sizes.end(), static_cast<std::uint64_t>(threshold));
    ASSERT_NE(above, sizes.end());
    ASSERT_NE(above, sizes.begin());
    EXPECT_LE(static_cast<double>(*above) / static_cast<double>(*(above - 1)), std::exp2(1.01 / 16)) << threshold;
    EXPECT_LE(sizes.size(), 21U + 20U) << "and little else: " << threshold;
    for (const Point& point : sampler.curves()[0].points) {
      if (point.wanted) {
        EXPECT_GE(point.blocks.size(), 5U) << "enough for an interval: " << point.size_bytes;
      }
    }
  }
}

TEST(Sampler, LeavesACurveOfLatencyAndRateAtItsOctaves) {
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U}) {
    SamplerSetting setting;
    setting.target = 1e-5;
    setting.budget_s = 1;
    Sampler sampler(setting, {adaptive_curve()});
    Machine machine{latency_and_rate};
    machine.noise = 0.1;
    machine.seed = seed;
    Simulation simulation(sampler, machine);
    simulation.run();
    EXPECT_EQ(measured_sizes(sampler), powers(21)) << seed;
    EXPECT_EQ(sampler.points(), 21U);
    EXPECT_EQ(sampler.points_done(), 21U);
  }
}

CurveSetting curve_looked_at(std::uint64_t from, std::uint64_t to) {
  CurveSetting setting = adaptive_curve();
  setting.earlier.emplace_back();
  for (const std::uint64_t size : setting.sizes) {
    const bool there = size > from && size < to;
    setting.earlier[0].push_back(there ? Spread{1, std::numeric_limits<double>::infinity()} : Spread{});
  }
  return setting;
}

TEST(Sampler, BeginsWhereAnEarlierLaunchLookedCloser) {
  Sampler sampler(SamplerSetting{}, {curve_looked_at(1024, 2048)});
  Simulation simulation(sampler, {latency_and_rate});
  simulation.run();
  const std::vector<std::uint64_t> sizes = measured_sizes(sampler);
  EXPECT_EQ(sizes.size(), 21U + 15U);
  EXPECT_EQ(std::count_if(sizes.begin(), sizes.end(), [](auto size) { return size > 1024 && size < 2048; }), 15);
}

TEST(Sampler, LooksCloserOnlyAsFarAsThereIsTime) {
  SamplerSetting setting;
  setting.budget_s = 0.1;
  Sampler sampler(setting, {curve_looked_at(1, 1U << 20U)});
  Simulation simulation(sampler, {[](std::size_t, std::uint64_t) { return 1e6; }});
  simulation.run();
  const std::vector<std::uint64_t> sizes = measured_sizes(sampler);
  EXPECT_GE(sizes.size(), 21U) << "what was asked for has a number in any case";
  EXPECT_LE(sizes.size(), 60U) << "of 256";
  EXPECT_LE(sampler.curves()[0].used_s, 3 * setting.budget_s);
}

// Kalibera and Jones: where visits differ beyond what their samples explain, there are more of them, and shorter ones.
TEST(Sampler, VisitsMoreOftenWhereVisitsDiffer) {
  const auto visits = [](double noise, double visit_noise) {
    SamplerSetting setting;
    setting.target = 1e-5;
    Sampler sampler(setting, {adaptive_curve()});
    Machine machine{latency_and_rate};
    machine.noise = noise;
    machine.visit_noise = visit_noise;
    Simulation simulation(sampler, machine);
    simulation.run();
    EXPECT_LE(sampler.curves()[0].used_s, 1.2 * setting.budget_s);
    return static_cast<double>(simulation.done().size()) / static_cast<double>(sampler.points());
  };
  const double differ = visits(0.02, 0.1);
  const double alike = visits(0.2, 0);
  EXPECT_GE(differ, 1.5 * alike) << differ << " and " << alike << " visits of a size";
  EXPECT_GE(alike, fewest_passes);
}

// What is compared is measured back to back. The curves do not have all sizes in common.
TEST(Sampler, MeasuresAllCurvesOfASizeBackToBackInRandomOrder) {
  SamplerSetting setting;
  setting.target = 1e-5;
  setting.budget_s = 0.5;
  Sampler sampler(setting, {curve(powers(10)), curve(powers(7)), stream_curve({2, 3, 4})});
  Machine machine{latency_and_rate};
  machine.noise = 0.3;
  Simulation simulation(sampler, machine);
  simulation.run();
  std::map<std::uint64_t, std::vector<const Visit*>> blocks;
  std::uint64_t last = 0;
  for (const Done& one : simulation.done()) {
    if (one.visit.pass < 0) continue;
    EXPECT_GE(one.visit.block, last) << "a block that was left is not entered again";
    last = one.visit.block;
    blocks[last].push_back(&one.visit);
  }
  std::set<std::vector<std::size_t>> orders;
  for (const auto& [number, visits] : blocks) {
    std::vector<std::size_t> order;
    for (const Visit* const visit : visits) {
      EXPECT_EQ(sampler.curves()[visit->curve].points[visit->point].size_bytes,
                sampler.curves()[visits[0]->curve].points[visits[0]->point].size_bytes);
      EXPECT_EQ(visit->pass, visits[0]->pass);
      order.push_back(visit->curve);
    }
    EXPECT_EQ(std::set<std::size_t>(order.begin(), order.end()).size(), order.size()) << "each once";
    if (visits[0]->pass == 0) {
      const std::uint64_t size = sampler.curves()[visits[0]->curve].points[visits[0]->point].size_bytes;
      const std::size_t measured =
          (size <= 512 && size != 3 ? 1 : 0) + (size <= 64 && size != 3 ? 1 : 0) + (size >= 2 && size <= 4 ? 1 : 0);
      EXPECT_EQ(order.size(), measured) << size;
    }
    orders.insert(std::move(order));
  }
  EXPECT_GE(orders.size(), 6U);
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t p = 0; p < sampler.curves()[c].points.size(); ++p) {
      for (const Block& block : sampler.blocks_of(c, p)) EXPECT_TRUE(blocks.contains(block.number));
    }
  }
}

// What was found out at first was not the usual speed: the layer happened to be asleep, or awake.
TEST(Sampler, CorrectsACalibrationThatWasFarOffAndStillGivesEveryPointSamples) {
  for (const double factor : {0.001, 0.03, 30.0, 1000.0}) {
    for (const double budget_s : {0.001, 0.05, 3.5}) {
      SamplerSetting setting;
      setting.budget_s = budget_s;
      Sampler sampler(setting, {curve(powers(6)), stream_curve(powers(6))});
      Simulation simulation(
          sampler, {[&](std::size_t, std::uint64_t) { return sampler.pass() < 0 ? 20'000.0 : 20'000.0 * factor; }});
      simulation.run();
      for (std::size_t c = 0; c < 2; ++c) {
        for (std::size_t p = 0; p < 6; ++p) {
          const std::span<const Block> blocks = sampler.blocks_of(c, p);
          ASSERT_FALSE(blocks.empty()) << "a point that vanishes without a word";
          const Point& point = sampler.curves()[c].points[p];
          ASSERT_GE(static_cast<double>(point.rounds) * point.round_ns, smallest_factor * setting.clock_cost_ns);
          const double expected = 20'000.0 * factor / (c == 0 ? 2 : 1);
          for (const Block& block : blocks) ASSERT_NEAR(block.values[0], expected, 0.02 * expected);
        }
      }
    }
  }
}

// The first message of a size pays for page tables and windows. Taken for a sleep it would make all batches as short as
// those of a layer that sleeps, of which the clock is 5 %.
TEST(Sampler, DoesNotTakeAFirstMessageForASleep) {
  const SamplerSetting setting;
  Sampler sampler(setting, {curve(powers(1))});
  bool first = true;
  Simulation simulation(sampler,
                        {[&](std::size_t, std::uint64_t) { return std::exchange(first, false) ? 6'000 : 170.0; }});
  simulation.run();
  const Point& point = sampler.curves()[0].points[0];
  EXPECT_GE(static_cast<double>(point.rounds) * 170, 0.9 * batch_factor * setting.clock_cost_ns);
}

TEST(Sampler, MakesTheFirstVisitOfAPointAShortOne) {
  Sampler sampler({}, {curve(powers(3))});
  Simulation simulation(sampler, {latency_and_rate});
  simulation.run();
  for (const Done& one : simulation.done()) {
    EXPECT_TRUE(one.visit.pass != 0 || one.visit.samples <= 8);
    EXPECT_TRUE(one.visit.pass != 1 || one.visit.samples > 8);
  }
}

// A layer that slept wakes up: single events of it are suddenly too short for the clock, and batches are another thing.
TEST(Sampler, StartsAPointAgainWhenItsSamplesBecomeTooShortForTheClock) {
  SamplerSetting setting;
  setting.target = 1e-5;
  setting.budget_s = 1;
  Sampler sampler(setting, {curve({8})});
  double now_s = 0;
  Machine machine{[&](std::size_t, std::uint64_t) { return now_s < 0.2 ? 20'000.0 : 100.0; }};
  machine.noise = 0.01;
  Simulation simulation(sampler, machine);
  while (now_s = simulation.at_s(), simulation.step()) {
  }
  const Point& point = sampler.curves()[0].points[0];
  EXPECT_GE(static_cast<double>(point.rounds) * 100, smallest_factor * setting.clock_cost_ns);
  EXPECT_FALSE(sampler.blocks_of(0, 0).empty());
  for (const Block& block : sampler.blocks_of(0, 0)) {
    EXPECT_GE(block.at_s, 0.2);
    for (const float v : block.values) ASSERT_NEAR(v, 50, 5);
  }
  EXPECT_EQ(point.samples + point.dropped, simulation.reported());
  EXPECT_EQ(simulation.done().back().visit.rounds, point.rounds);
}

// From tsc to hpet: a reading takes a hundred times as long, and what was long enough for the old clock is nothing for
// it.
TEST(Sampler, StartsAPointAgainWhenTheClockCostsMore) {
  SamplerSetting setting;
  setting.target = 1e-5;
  setting.budget_s = 1;
  for (const double costs_ns : {setting.clock_cost_ns, 4000.0}) {
    Sampler sampler(setting, {curve({8, 1U << 20})});
    Machine machine{[&](std::size_t, std::uint64_t size) { return size == 8 ? 100.0 : 1e6; }};
    machine.noise = 0.01;
    Simulation simulation(sampler, machine);
    double changed_s = 0;
    while (simulation.step()) {
      if (changed_s > 0 || simulation.at_s() < 0.5) continue;
      changed_s = simulation.at_s();
      sampler.clock_costs(costs_ns);
    }
    ASSERT_GT(changed_s, 0);
    const Point& small = sampler.curves()[0].points[0];
    EXPECT_GE(static_cast<double>(small.rounds) * 100, batch_factor * costs_ns * 0.99);
    const bool dearer = costs_ns > setting.clock_cost_ns;
    EXPECT_EQ(sampler.blocks_of(0, 0).front().at_s >= changed_s, dearer) << "samples of before are gone";
    EXPECT_LT(sampler.blocks_of(0, 1).front().at_s, changed_s) << "1 ms is long enough for both";
    EXPECT_EQ(simulation.done().back().visit.rounds,
              sampler.curves()[0].points[simulation.done().back().visit.point].rounds);
  }
}

TEST(Sampler, BatchesRoundsThatAreShortAgainstTheClock) {
  constexpr double clock_ns = 25;
  for (const double round_ns :
       {0.5, 10.0, 200.0, 0.9 * single_factor * clock_ns, 1.1 * single_factor * clock_ns, 1e5, 1e8}) {
    SamplerSetting setting;
    setting.clock_cost_ns = clock_ns;
    setting.budget_s = 20;
    Sampler sampler(setting, {curve({8})});
    Machine machine{[&](std::size_t, std::uint64_t) { return round_ns; }};
    machine.noise = 0;
    Simulation simulation(sampler, machine);
    simulation.run();
    const std::uint64_t rounds = sampler.curves()[0].points[0].rounds;
    if (round_ns >= single_factor * clock_ns) {
      EXPECT_EQ(rounds, 1U) << round_ns;
    } else {
      EXPECT_GE(static_cast<double>(rounds) * round_ns, batch_factor * clock_ns * 0.999) << round_ns;
      EXPECT_LE(static_cast<double>(rounds - 1) * round_ns, batch_factor * clock_ns * 1.001) << round_ns;
    }
    for (const Done& one : simulation.done()) {
      ASSERT_TRUE(one.visit.pass < 0 || one.visit.rounds == rounds) << "all samples of a point are alike";
      ASSERT_LE(one.visit.samples, most_samples_per_visit);
    }
  }
}

TEST(Sampler, BatchesStreamsLongAgainstTheirBursts) {
  const std::vector<std::pair<double, std::uint64_t>> cases = {{1e3, 300}, {3e3, 100}, {1e5, 16}, {3e5, 16},
                                                               {1e6, 4},   {1e7, 1},   {1e9, 1}};
  for (const auto& [round_ns, rounds] : cases) {
    Sampler sampler({}, {stream_curve({8})});
    Machine machine{[&](std::size_t, std::uint64_t) { return round_ns; }};
    machine.noise = 0;
    Simulation simulation(sampler, machine);
    simulation.run();
    EXPECT_EQ(sampler.curves()[0].points[0].rounds, rounds) << round_ns;
  }
}

// With verification every message of a visit needs a place of its own; a stream has one message more than it times.
TEST(Sampler, NeverVisitsWithMoreRoundsThanItMay) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 300; ++i) {
    const bool stream = i % 2 == 0;
    const std::uint64_t extra = stream ? 1 : 0;
    CurveSetting setting = stream ? stream_curve(powers(4)) : curve(powers(4));
    for (int k = 0; k < 4; ++k) setting.most_rounds.push_back(1 + extra + (random() >> (44 + random() % 20)));
    const std::vector<std::uint64_t> most = setting.most_rounds;
    SamplerSetting budget;
    budget.budget_s = 0.05;
    Sampler sampler(budget, {setting});
    const double round_ns = std::pow(10.0, std::uniform_real_distribution<>(0, 7)(random));
    Simulation simulation(sampler, {[&](std::size_t, std::uint64_t) { return round_ns; }});
    simulation.run();
    for (const Done& one : simulation.done()) {
      ASSERT_GE(one.visit.samples, 1U);
      ASSERT_GE(one.visit.rounds, 1U);
      ASSERT_LE(one.visit.samples * one.visit.rounds + extra, most[one.visit.point]) << round_ns << " ns";
    }
  }
}

TEST(Sampler, KeepsSamplesAsShortAsThePatternNeedsThem) {
  CurveSetting setting = curve(powers(4));
  setting.most_rounds_of_sample = {3, 0, 5, 1};
  Sampler sampler({}, {setting});
  Simulation simulation(sampler, {[](std::size_t, std::uint64_t) { return 10.0; }});
  simulation.run();
  std::uint64_t longest = 0;
  for (const Done& one : simulation.done()) {
    const std::uint64_t most = setting.most_rounds_of_sample[one.visit.point];
    if (most == 0) {
      longest = std::max(longest, one.visit.rounds);
    } else {
      ASSERT_LE(one.visit.rounds, most);
    }
  }
  EXPECT_GT(longest, 5U) << "a round of 10 ns is timed in batches where it may be";
}

// Messages at a given rate: a batch of them lasts as long as the rate says, whatever the latency of one is.
CurveSetting batches(std::vector<std::uint64_t> sizes, std::uint64_t rounds) {
  CurveSetting setting = curve(std::move(sizes));
  setting.operations_per_round = 1;
  setting.fewest_rounds.assign(setting.sizes.size(), rounds);
  setting.most_rounds_of_sample = setting.fewest_rounds;
  return setting;
}

TEST(Sampler, TakesBatchesOfTheLengthThatThePatternNeeds) {
  for (const double latency_ns : {200.0, 5'000.0, 3e6}) {
    Sampler sampler({}, {batches(powers(4), 100)});
    Machine machine{[&](std::size_t, std::uint64_t) { return latency_ns; }};
    machine.whole_round_ns = 1e5;
    Simulation simulation(sampler, machine);
    simulation.run();
    std::map<Place, int> calibrations;
    for (const Done& one : simulation.done()) {
      ASSERT_EQ(one.visit.rounds, 100U) << latency_ns;
      if (one.visit.pass < 0) ++calibrations[{one.visit.curve, one.visit.point}];
    }
    for (const auto& [place, visits] : calibrations) EXPECT_EQ(visits, 1) << "a batch is long enough for the clock";
  }
}

// The latencies of a batch together are shorter than it, or, where messages queue, much longer.
TEST(Sampler, LaysItsBudgetOutByHowLongABatchReallyLasts) {
  for (const double latency_ns : {200.0, 5'000.0, 3e6}) {
    for (const double whole_round_ns : {1e3, 1e5, 1e7}) {  // batches of 64 us, 6.4 ms, 0.64 s
      SamplerSetting setting;
      setting.target = 1e-5;
      setting.budget_s = 4;
      Sampler sampler(setting, {batches(powers(3), 64)});
      Machine machine{[&](std::size_t, std::uint64_t) { return latency_ns; }};
      machine.noise = 0.3;
      machine.whole_round_ns = whole_round_ns;
      Simulation simulation(sampler, machine);
      simulation.run();
      const double batch_s = 64e-9 * whole_round_ns;
      double longest = 0;
      std::uint64_t most_samples = 0;
      for (const Done& one : simulation.done()) {
        longest = std::max(longest, one.seconds);
        most_samples = std::max(most_samples, one.visit.samples);
        if (one.visit.expected_ns > 0) {
          ASSERT_NEAR(one.visit.expected_ns * 1e-9, one.seconds, 0.01 * one.seconds + 1e-4);
        }
      }
      const Curve& made = sampler.curves()[0];
      // A batch to find the speed out and one to have a number are taken whatever the budget says.
      EXPECT_LE(made.used_s, 1.001 * std::max(setting.budget_s, 6 * batch_s) + longest);
      EXPECT_GE(made.used_s, setting.budget_s);
      EXPECT_LE(longest, std::max(0.4, 1.01 * batch_s)) << "no visit is much longer than others are";
      if (batch_s < 0.01) {
        EXPECT_GE(sampler.pass(), fewest_passes - 1) << latency_ns << " ns in batches of " << batch_s;
        EXPECT_GT(most_samples, 3U);
      }
      for (std::size_t p = 0; p < 3; ++p) EXPECT_FALSE(sampler.blocks_of(0, p).empty());
    }
  }
}

TEST(Sampler, TakesShorterBatchesWhereThereIsNoRoomForWholeOnes) {
  CurveSetting setting = batches(powers(4), 64);
  setting.most_rounds = {1, 10, 65, 200};
  Sampler sampler({}, {setting});
  Machine machine{latency_and_rate};
  machine.whole_round_ns = 1e5;
  Simulation simulation(sampler, machine);
  simulation.run();
  const std::vector<std::uint64_t> expected = {1, 9, 64, 64};
  for (const Done& one : simulation.done()) {
    ASSERT_EQ(one.visit.rounds, expected[one.visit.point]);
    ASSERT_LE(one.visit.samples * one.visit.rounds,
              std::max<std::uint64_t>(setting.most_rounds[one.visit.point] - 1, 1));
  }
}

// A pattern whose samples have to be long against the slices of the scheduler; at first a round may meet such a slice.
TEST(Sampler, TakesSamplesAsLongAsThePatternNeedsThem) {
  for (const double first_ns : {400.0, 4e6}) {
    for (const double round_ns : {400.0, 60'000.0, 1e8}) {
      CurveSetting setting = curve(powers(2));
      setting.sample_ns = 2e7;
      SamplerSetting budget;
      budget.budget_s = 20;
      Sampler sampler(budget, {setting});
      std::map<std::uint64_t, int> visits;
      Simulation simulation(sampler, {[&](std::size_t, std::uint64_t size_bytes) {
                              return visits[size_bytes]++ == 0 ? first_ns : round_ns;
                            }});
      simulation.run();
      for (const Point& point : sampler.curves()[0].points) {
        EXPECT_NEAR(static_cast<double>(point.rounds) * round_ns, std::max(2e7, round_ns),
                    0.01 * 2e7 + 0.02 * round_ns);
      }
    }
  }
}

// It met slices of the scheduler more than once before it ran freely.
TEST(Sampler, StartsAPointAgainWhenItsSamplesBecomeTooShortForThePattern) {
  CurveSetting setting = curve({8});
  setting.sample_ns = 2e7;
  SamplerSetting budget;
  budget.budget_s = 20;
  Sampler sampler(budget, {setting});
  int visits = 0;
  Simulation simulation(sampler, {[&](std::size_t, std::uint64_t) { return ++visits <= 6 ? 3e7 : 400.0; }});
  simulation.run();
  EXPECT_GE(static_cast<double>(sampler.curves()[0].points[0].rounds) * 400, 1.9e7);
  for (const Block& block : sampler.blocks_of(0, 0)) ASSERT_NEAR(block.values[0], 200, 2);
}

TEST(Sampler, ShortensLongSamplesWhereTheBudgetHasNoRoomForThem) {
  CurveSetting setting = curve(powers(10));
  setting.sample_ns = 2e7;
  SamplerSetting budget;
  budget.budget_s = 0.1;
  Sampler sampler(budget, {setting});
  Simulation simulation(sampler, {[](std::size_t, std::uint64_t) { return 1'000.0; }});
  simulation.run();
  for (const Point& point : sampler.curves()[0].points) {
    EXPECT_NEAR(static_cast<double>(point.rounds) * 1'000, 5e6, 0.02 * 5e6);
  }
}

// A yardstick is evidence and no filter: whoever reads the run decides whether a state explains times.
TEST(Sampler, KeepsEverySampleInWhateverStateTheMachineWas) {
  SamplerSetting setting;
  setting.budget_s = 1;
  setting.target = 1e-5;
  Sampler sampler(setting, {curve(powers(10))});
  Machine machine{latency_and_rate};
  machine.noise = 0.05;
  machine.state = [](double at_s) { return at_s < 0.3 ? 0 : 1; };
  Simulation simulation(sampler, machine);
  simulation.run();
  std::size_t kept = 0;
  std::size_t dropped = 0;
  std::size_t in_blocks = 0;
  for (const Point& point : sampler.curves()[0].points) {
    kept += point.samples;
    dropped += point.dropped;
    std::set<int> states;
    for (const Block& block : point.blocks) {
      in_blocks += block.values.size();
      EXPECT_EQ(block.state, machine.state(block.at_s));
      states.insert(block.state);
    }
    EXPECT_EQ(states.size(), 2U);
  }
  EXPECT_EQ(kept + dropped, simulation.reported());
  EXPECT_EQ(dropped, simulation.dropped());
  EXPECT_EQ(in_blocks, kept);
}

TEST(Sampler, DropsTheWarmUpOfAVisit) {
  SamplerSetting setting;
  setting.budget_s = 1000;
  Sampler sampler(setting, {curve({8})});
  while (const std::optional<Visit> visit = sampler.next()) {
    if (visit->pass == 1) {  // the first pass has short visits
      ASSERT_GE(visit->samples, 20U);
      std::vector<double> ns(visit->samples, 10'000);
      for (std::size_t i = 0; i < ns.size(); ++i) ns[i] += static_cast<double>(i % 7);
      ns[0] = 90'000, ns[1] = 50'000;
      EXPECT_EQ(sampler.report(*visit, ns, 1e-3, 0, 0), 2U);
      EXPECT_EQ(sampler.blocks_of(0, 0)[1].values.size(), ns.size() - 2);
      EXPECT_LT(sampler.blocks_of(0, 0)[1].values[0], 6'000);
      return;
    }
    sampler.report(*visit, std::vector<double>(visit->samples, 10'000), 1e-3, 0, 0);
  }
  FAIL() << "it ended before its second pass";
}

TEST(Sampler, CountsVerifiedBytesByPoint) {
  Sampler sampler({}, {curve({8, 16})});
  const std::optional<Visit> visit = sampler.next();
  ASSERT_TRUE(visit);
  sampler.at(*visit).verified_bytes += 100;
  sampler.at(*visit).verified_bytes += 11;
  EXPECT_EQ(sampler.curves()[0].points[visit->point].verified_bytes, 111U);
  EXPECT_EQ(sampler.curves()[0].points[1 - visit->point].verified_bytes, 0U);
}

}  // namespace
}  // namespace netpipe
