// SPDX-License-Identifier: Apache-2.0
// The stated 95 % interval covers the long-run median as often as it claims, under the stopping rule of
// the sampler, on streams that are independent, skewed, correlated, drifting and bimodal. Everything is drawn from a
// fixed seed.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <random>

#include "sampling/sampler.h"
#include "sampling/statistics.h"

namespace netpipe {
namespace {

using Random = std::mt19937_64;

// Draws one visit: `count` values at time t within a run that lasts from 0 to 1.
using Stream = std::function<std::vector<float>(Random&, double t, int count)>;

struct Case {
  const char* name;
  double median;  // of the stream in the long run
  std::function<Stream(Random&)> start;
  double drift_per_run = 0;  // the median moves linearly by this over a whole run of all passes
};

std::vector<float> filled(int count, const std::function<double()>& draw) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(draw()));
  return values;
}

// AR(1) that goes on from visit to visit, so that it lasts 1 / (1 - phi) samples: at 0.95 half a visit.
std::function<Stream(Random&)> autoregressive(double phi) {
  return [phi](Random&) -> Stream {
    return [phi, state = std::make_shared<double>(0)](Random& r, double, int n) {
      std::normal_distribution<> noise(0, std::sqrt(1 - phi * phi));
      return filled(n, [&] { return 100 + 4 * (*state = phi * *state + noise(r)); });
    };
  };
}

const Case cases[] = {
    {"independent", 100.0,
     [](Random&) -> Stream {
       return [](Random& r, double, int n) {
         std::normal_distribution<> noise(100, 5);
         return filled(n, [&] { return noise(r); });
       };
     }},
    {"skewed with a heavy tail", 100.0,
     [](Random&) -> Stream {
       return [](Random& r, double, int n) {
         std::lognormal_distribution<> noise(std::log(100.0), 0.15);
         std::bernoulli_distribution spike(0.001);
         return filled(n, [&] { return spike(r) ? 50 * noise(r) : noise(r); });
       };
     }},
    {"correlated within a visit", 100.0, autoregressive(0.90)},
    {"correlated across visits", 100.0, autoregressive(0.95)},
    {"drifting", 100.0,
     [](Random&) -> Stream {
       return [](Random& r, double t, int n) {
         std::normal_distribution<> noise(100, 3);
         return filled(n, [&] { return noise(r) + 6 * t; });
       };
     },
     6.0},
    {"bimodal with modes that last", 100.0,
     [](Random&) -> Stream {
       // Two modes, 100 -+ noise and 130 -+ noise; each visit has its own share of the slow one, on average a quarter.
       // The long-run median is then found by bisection below.
       return [](Random& r, double, int n) {
         std::uniform_real_distribution<> share(0.0, 0.5);
         std::bernoulli_distribution slow(share(r));
         std::normal_distribution<> noise(0, 4);
         return filled(n, [&] { return (slow(r) ? 130.0 : 100.0) + noise(r); });
       };
     }},
};

double phi(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

double bisect(const std::function<double(double)>& distribution) {
  double low = 50;
  double high = 200;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (distribution(middle) < 0.5 ? low : high) = middle;
  }
  return low;
}

class Coverage : public ::testing::TestWithParam<int> {};

TEST_P(Coverage, OfTheStatedIntervalIsBetween92And98Percent) {
  const Case& c = cases[GetParam()];
  Random random(20261120 + static_cast<std::uint64_t>(GetParam()));
  constexpr int points = 1500;
  constexpr int most_passes = 24;
  constexpr int per_visit = 40;
  int covered = 0;
  int bounded = 0;
  double passes = 0;
  for (int p = 0; p < points; ++p) {
    const Stream stream = c.start(random);
    std::uniform_real_distribution<> within(0, 1);
    std::vector<Block> blocks;
    Estimate e;
    for (int pass = 0; pass < most_passes; ++pass) {
      const double t = (pass + within(random)) / most_passes;
      blocks.push_back({t, stream(random, t, per_visit)});
      if (blocks.size() < static_cast<std::size_t>(fewest_passes)) continue;
      e = estimate(blocks);
      if (e.half_width() <= 0.01) break;
    }
    passes += static_cast<double>(blocks.size());
    double truth = c.median;
    if (c.drift_per_run != 0) {
      const double end = static_cast<double>(blocks.size()) / most_passes;
      truth = bisect([&](double x) {
        double sum = 0;
        for (int i = 0; i < 200; ++i) sum += phi((x - 100 - c.drift_per_run * end * (i + 0.5) / 200) / 3);
        return sum / 200;
      });
    } else if (std::string(c.name).starts_with("bimodal")) {
      truth = bisect([](double x) { return 0.75 * phi((x - 100) / 4) + 0.25 * phi((x - 130) / 4); });
    }
    if (!e.bounded) continue;
    ++bounded;
    if (e.low <= truth && truth <= e.high) ++covered;
  }
  const double rate = static_cast<double>(covered) / bounded;
  std::printf("%-40s covers %.1f %% of %d points, %.1f passes\n", c.name, 100 * rate, bounded, passes / points);
  EXPECT_GE(bounded, points * 99 / 100);
  EXPECT_GE(rate, 0.92) << c.name;
  EXPECT_LE(rate, 0.98) << c.name;
}

INSTANTIATE_TEST_SUITE_P(Streams, Coverage, ::testing::Range(0, static_cast<int>(std::size(cases))));

}  // namespace
}  // namespace netpipe
