// SPDX-License-Identifier: Apache-2.0
// The sampler on a simulated machine, whose time is a number that is added up.
#include "core/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "core/clock.h"

namespace netpipe {
namespace {

using Place = std::pair<std::size_t, std::size_t>;  // curve and point

// A visit as it was carried out.
struct Done {
  Visit visit;
  double seconds = 0;
  double used_before_s = 0;  // of its curve
  bool had_samples = false;  // its point, before
};

struct Machine {
  std::function<double(std::size_t curve, std::uint64_t size_bytes)> round_ns;
  double noise = 0.001;     // relative, of one sample
  double around_s = 20e-6;  // what a visit costs beyond its samples
  std::function<int(double at_s)> state = [](double) { return 0; };
  std::uint64_t seed = 1;
};

double latency_and_rate(std::size_t, std::uint64_t size_bytes) {
  return 2 * (5000 + 0.1 * static_cast<double>(size_bytes));
}

// One step at a time, so that a test can look in between.
class Simulation {
 public:
  Simulation(Sampler& sampler, Machine machine)
      : sampler_(sampler), machine_(std::move(machine)), random_(machine_.seed) {}

  bool step() {
    const std::optional<Visit> visit = sampler_.next();
    if (!visit) return false;
    const Curve& curve = sampler_.curves()[visit->curve];
    const double round = machine_.round_ns(visit->curve, curve.points[visit->point].size_bytes);
    std::normal_distribution<> noise(1, machine_.noise);
    std::vector<double> ns(visit->samples);
    double seconds = machine_.around_s;
    for (double& one : ns) {
      one = std::max(round * static_cast<double>(visit->rounds) * noise(random_), 1.0);
      seconds += one * 1e-9;
    }
    done_.push_back({*visit, seconds, curve.used_s, !sampler_.blocks_of(visit->curve, visit->point).empty()});
    reported_ += ns.size();
    dropped_ += sampler_.report(*visit, ns, seconds, at_s_, machine_.state(at_s_));
    at_s_ += seconds;
    return true;
  }
  // To the end, which must come.
  void run() {
    for (int i = 0; i < 200'000; ++i) {
      if (!step()) return;
    }
    FAIL() << "the sampler never comes to an end";
  }

  [[nodiscard]] const std::vector<Done>& done() const { return done_; }
  [[nodiscard]] double at_s() const { return at_s_; }
  [[nodiscard]] std::size_t reported() const { return reported_; }
  [[nodiscard]] std::size_t dropped() const { return dropped_; }

 private:
  Sampler& sampler_;
  Machine machine_;
  std::mt19937_64 random_;
  std::vector<Done> done_;
  double at_s_ = 0;
  std::size_t reported_ = 0;
  std::size_t dropped_ = 0;
};

CurveSetting curve(std::vector<std::uint64_t> sizes) {
  CurveSetting setting;
  setting.operations_per_round = 2;
  setting.sizes = std::move(sizes);
  return setting;
}

CurveSetting stream_curve(std::vector<std::uint64_t> sizes) {
  CurveSetting setting = curve(std::move(sizes));
  setting.operations_per_round = 1;
  setting.single_rounds = false;
  return setting;
}

std::vector<std::uint64_t> powers(int count) {
  std::vector<std::uint64_t> sizes;
  for (int i = 0; i < count; ++i) sizes.push_back(1ULL << i);
  return sizes;
}

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

TEST(Sampler, InterleavesItsCurves) {
  Sampler sampler({}, {curve(powers(10)), curve(powers(10))});
  Simulation simulation(sampler, {latency_and_rate});
  simulation.run();
  auto passes = passes_of(simulation.done());
  for (int pass = -1; pass < fewest_passes; ++pass) {
    int changes = 0;
    for (std::size_t i = 1; i < passes[pass].size(); ++i)
      changes += passes[pass][i].first != passes[pass][i - 1].first ? 1 : 0;
    EXPECT_GE(changes, 3) << pass;
  }
}

TEST(Sampler, StopsByPrecisionWhereTheNoiseIsSmall) {
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
  EXPECT_LT(sampler.curves()[0].used_s, 3.5);
}

TEST(Sampler, StopsByBudgetWhereTheNoiseIsLarge) {
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

TEST(Sampler, StopsByLimitWhereNothingElseEndsAPoint) {
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

TEST(Sampler, GivesEveryPointSamplesAndNoMoreOnceTheBudgetIsSpent) {
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

TEST(Sampler, MakesUpForAVisitThatWasTakenBackAlsoWhenTheBudgetIsSpent) {
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

TEST(Sampler, EndsAlsoWhenEveryVisitIsTakenBack) {
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
TEST(Sampler, StaysWithinItsBudgetByNoMoreThanOneVisit) {
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
    EXPECT_LE(sampler.curves()[0].used_s, setting.budget_s + longest);
    EXPECT_GE(simulation.done().back().visit.pass, fewest_passes - 1);
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

TEST(Sampler, AccountsForEverySample) {
  SamplerSetting setting;
  setting.budget_s = 1;
  Sampler sampler(setting, {curve(powers(10))});
  Machine machine{latency_and_rate};
  machine.noise = 0.05;
  machine.state = [](double at_s) { return at_s < 0.3 ? 0 : 1; };
  Simulation simulation(sampler, machine);
  simulation.run();
  std::size_t kept = 0;
  std::size_t dropped = 0;
  std::size_t in_states = 0;
  for (const Point& point : sampler.curves()[0].points) {
    kept += point.samples;
    dropped += point.dropped;
    for (const auto& [state, blocks] : point.states) {
      for (const Block& block : blocks) in_states += block.values.size();
    }
  }
  EXPECT_EQ(kept + dropped, simulation.reported());
  EXPECT_EQ(dropped, simulation.dropped());
  EXPECT_EQ(in_states, kept);
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

// The machine doubles its speed and halves it again; the two speeds may never become one number.
TEST(Sampler, NeverMixesStatesOfTheMachine) {
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

TEST(Sampler, TakesBackExactlyWhatWasMeasuredSinceTheMachineBecameSuspect) {
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

TEST(Sampler, LeavesWhatIsDoneAloneWhenTheMachineBecomesSuspect) {
  Sampler sampler({}, {curve(powers(4))});
  Simulation simulation(sampler, {latency_and_rate});
  simulation.run();
  const std::size_t blocks = sampler.blocks_of(0, 0).size();
  sampler.suspect_since(0);
  EXPECT_EQ(sampler.blocks_of(0, 0).size(), blocks) << "its point is in the file already";
}

TEST(Sampler, SaysOfEveryPointOnceThatItIsDone) {
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

TEST(Sampler, GivesACurveUpAndGoesOnWithTheOther) {
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

TEST(Sampler, KeepsNothingOfASizeThatFailed) {
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

TEST(Sampler, InterruptedKeepsWhatItHasAndEnds) {
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

TEST(Sampler, HasLessAndLessTimeLeft) {
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

TEST(Sampler, CountsVerifiedBytesByPoint) {
  Sampler sampler({}, {curve({8, 16})});
  const std::optional<Visit> visit = sampler.next();
  ASSERT_TRUE(visit);
  sampler.add_verified(*visit, 100);
  sampler.add_verified(*visit, 11);
  EXPECT_EQ(sampler.curves()[0].points[visit->point].verified_bytes, 111U);
  EXPECT_EQ(sampler.curves()[0].points[1 - visit->point].verified_bytes, 0U);
}

TEST(Sampler, WithoutCurvesIsDoneAtOnce) {
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
