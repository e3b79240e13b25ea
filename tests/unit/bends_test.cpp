// SPDX-License-Identifier: Apache-2.0
#include "sampling/bends.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "sampling/sampler.h"
#include "simulated_machine.h"

namespace netpipe {
namespace {

using Gaps = std::vector<Gap>;
using Bytes = std::vector<double>;
using Launches = std::vector<Spreads>;

// Points 16 apart, as octaves of the adaptive schedule are.
std::vector<Measured> octaves(const Bytes& bytes) {
  std::vector<Measured> sizes;
  for (std::size_t i = 0; i < bytes.size(); ++i) sizes.push_back({16 * i, bytes[i], true});
  return sizes;
}

// A launch of this level, in which each size is known within this relative error.
Spreads launch(const std::vector<Measured>& sizes, const std::vector<double>& ns, double error, double level = 1) {
  Spreads spreads(sizes.back().point + 1);
  for (std::size_t i = 0; i < sizes.size(); ++i) spreads[sizes[i].point] = {level * ns[i], level * ns[i] * error};
  return spreads;
}

const std::vector<Measured> sizes = octaves({1024, 2048, 4096, 8192, 16384});
const std::vector<double> straight = {1100, 1200, 1400, 1800, 2600};
const std::vector<double> stepped = {1100, 1200, 2600, 3000, 3800};

TEST(Bends, FindsNoneInLatencyAndRateWhateverTheLevelsOfTheLaunchesAre) {
  EXPECT_EQ(gaps_to_cut(sizes, Launches{launch(sizes, straight, 0.001), launch(sizes, straight, 0.001, 1.3)}), Gaps{});
}

TEST(Bends, CutsOnlyTheGapInWhichTheTimeSteps) {
  EXPECT_EQ(gaps_to_cut(sizes, Launches{launch(sizes, stepped, 0.01)}), (Gaps{{16, 32, true}}));
  std::vector<double> falling = straight;
  falling[3] = 900, falling[4] = 1500;
  EXPECT_EQ(gaps_to_cut(sizes, Launches{launch(sizes, falling, 0.01)}), (Gaps{{32, 48, true}}));
}

// Seen over Open MPI in shared memory: a step of 16 % at 32 KiB, and every octave takes 1.7 times as long as the last.
TEST(Bends, LooksForAStepThatHidesInWhatTheTimeRisesByAnyway) {
  const std::vector<Measured> octave = octaves({8192, 16384, 32768, 65536});
  const std::vector<double> rising = {2236, 3814, 6658, 11614};
  EXPECT_EQ(gaps_to_cut(octave, Launches{launch(octave, rising, 0.003)}), (Gaps{{16, 32, false}}));
  EXPECT_EQ(gaps_to_cut(octave, Launches{launch(octave, rising, 0.03)}), Gaps{}) << "it is not certain that it bends";
  std::vector<Measured> halved = octave;
  halved.insert(halved.begin() + 2, {24, 23170, false});
  const std::vector<double> stepping = {2236, 3814, 4750, 6658, 11614};
  EXPECT_EQ(gaps_to_cut(halved, Launches{launch(halved, stepping, 0.003)}), (Gaps{{24, 32, false}}));
}

TEST(Bends, FindsInAllLaunchesWhatNoneOfThemShows) {
  const Spreads one = launch(sizes, stepped, 0.14);
  EXPECT_EQ(gaps_to_cut(sizes, Launches{one}), Gaps{});
  const Launches four = {one, launch(sizes, stepped, 0.14, 1.3), launch(sizes, stepped, 0.14, 0.8), one};
  EXPECT_EQ(gaps_to_cut(sizes, four), (Gaps{{16, 32, true}}));
}

// Sizes of different launches are never held against each other: their levels would be a step.
TEST(Bends, ComparesWithinALaunchOnly) {
  Launches launches = {launch(octaves({1024, 2048}), {1100, 1200}, 0.001), Spreads(65), Spreads(65)};
  launches[0].resize(65);
  launches[1][32] = {2800, 3}, launches[1][48] = {3600, 3}, launches[1][64] = {5200, 5};
  EXPECT_EQ(gaps_to_cut(sizes, launches), Gaps{});
}

TEST(Bends, TakesASizeOfWhichNothingIsKnownForNoEvidence) {
  Spreads one = launch(sizes, stepped, 0.01);
  for (Spread& spread : one) {
    if (spread.median > 0) spread = {1, std::numeric_limits<double>::infinity()};
  }
  EXPECT_EQ(gaps_to_cut(sizes, Launches{one}), Gaps{});
}

TEST(Bends, GoesOnWithTheOtherGapsWhereTheSteepestIsLocated) {
  std::vector<Measured> close = octaves({1024, 2048, 4096, 8192, 16384});
  close[2].point = 17;  // next to its neighbour: nothing is between them
  const Gaps gaps = gaps_to_cut(close, Launches{launch(close, stepped, 0.01)});
  ASSERT_EQ(gaps.size(), 1U);
  EXPECT_NE(gaps[0].before, 16U);
}

TEST(Bends, CutsEachOfTwoStepsThatAreFarApart) {
  const std::vector<Measured> wide = octaves({64, 128, 256, 512, 1024, 2048, 4096, 8192});
  const std::vector<double> twice = {100, 200, 203, 206, 212, 222, 500, 540};
  EXPECT_EQ(gaps_to_cut(wide, Launches{launch(wide, twice, 0.001)}), (Gaps{{80, 96, true}, {0, 16, true}}))
      << "the steeper one first";
}

TEST(Bends, WaitsWithAKneeUntilALargeStepIsLocated) {
  std::vector<Measured> wide = octaves({64, 128, 256, 512, 1024, 2048, 4096, 8192});
  const std::vector<double> both = {100, 100, 100, 300, 302, 304, 304, 380};
  EXPECT_EQ(gaps_to_cut(wide, Launches{launch(wide, both, 0.001)}), (Gaps{{32, 48, true}}));
  wide[3].point = 33;  // located: nothing is between its neighbours
  const Gaps gaps = gaps_to_cut(wide, Launches{launch(wide, both, 0.001)});
  ASSERT_EQ(gaps.size(), 1U);
  EXPECT_GE(gaps[0].before, 80U) << "around 4096 bytes";
  EXPECT_FALSE(gaps[0].in_four);
}

TEST(Bends, LeavesFlatNeighboursOfALocatedStepAlone) {
  std::vector<Measured> close = octaves({64, 128, 256, 512, 1024});
  close[2].point = 17;
  EXPECT_EQ(gaps_to_cut(close, Launches{launch(close, {100, 100, 300, 301, 303}, 0.001)}), Gaps{});
}

// Three visits may lie together by chance, which is no certainty; the other sizes tell how far visits lie apart.
TEST(Bends, JudgesAHandfulOfVisitsByTheOtherSizesToo) {
  Spreads one = launch(sizes, stepped, 0.01);
  for (Spread& spread : one) spread.visits = spread.median > 0 ? 3 : 0;
  EXPECT_EQ(gaps_to_cut(sizes, {one}), (Gaps{{16, 32, true}}));
  for (Spread& spread : one) spread.error = 0.4 * spread.median;
  one[16].error = one[32].error = 0;
  EXPECT_EQ(gaps_to_cut(sizes, {one}), Gaps{});
}

TEST(Bends, HalvesWhereTheTimeBendsAndDoesNotStep) {
  const std::vector<double> knee = {1100, 1200, 1400, 2200, 3800};
  const Gaps gaps = gaps_to_cut(sizes, {launch(sizes, knee, 0.001)});
  ASSERT_EQ(gaps.size(), 1U);
  EXPECT_FALSE(gaps[0].in_four);
}

// A library that takes longer by `step` of a time above its eager limit, on a machine whose visits differ by 30 % and
// whose launches lie apart. Returns the sizes that the last of so many launches measured, each of which was told of
// those before it.
std::vector<std::uint64_t> sizes_after(int launches, double step, unsigned seed) {
  CurveSetting setting = adaptive_curve();
  std::vector<std::uint64_t> measured;
  for (int launch = 0; launch < launches; ++launch) {
    SamplerSetting budget;
    budget.target = 1e-5;
    budget.seed = seed;
    budget.budget_s = 0.3;
    Sampler sampler(budget, {setting});
    Machine machine{[&](std::size_t c, std::uint64_t size) {
      return (1 + 0.1 * launch) * latency_and_rate(c, size) * (size > 65'480 ? step : 1.0);
    }};
    machine.noise = 0.05;
    machine.visit_noise = 0.3;
    machine.seed = 10 * seed + static_cast<unsigned>(launch);
    Simulation simulation(sampler, machine);
    simulation.run();
    measured = measured_sizes(sampler);
    setting.earlier.emplace_back();
    for (const Point& point : sampler.curves()[0].points) {
      setting.earlier.back().push_back(point.blocks.size() < 3 ? Spread{} : spread_of_visits(point.blocks));
    }
  }
  return measured;
}

TEST(Sampler, LocatesInAllLaunchesTogetherAStepThatVisitsHide) {
  constexpr unsigned tries = 20;
  unsigned located = 0;
  for (unsigned seed = 1; seed <= tries; ++seed) {
    const std::vector<std::uint64_t> measured = sizes_after(4, 1.6, seed);
    const auto above = std::upper_bound(measured.begin(), measured.end(), 65'480U);
    located += static_cast<double>(*above) / static_cast<double>(*(above - 1)) <= std::exp2(1.01 / 16) ? 1 : 0;
    EXPECT_LE(measured.size(), 21U + 30U) << "not much more than a step needs";
  }
  EXPECT_GE(located, tries * 7 / 10);
}

TEST(Sampler, LeavesACurveWithoutAStepAtItsOctavesInAllLaunches) {
  std::size_t added = 0;
  for (unsigned seed = 1; seed <= 10; ++seed) added += sizes_after(4, 1, seed).size() - 21;
  EXPECT_LE(added, 3 * 10) << "in four launches of ten runs";
}

}  // namespace
}  // namespace netpipe
