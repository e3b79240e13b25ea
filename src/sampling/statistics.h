// SPDX-License-Identifier: Apache-2.0
// The one place where samples become a number. docs/method.md is its description.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sampling/histogram.h"

namespace netpipe {

inline constexpr double confidence = 0.95;

// What the samples of a visit say beside their times.
struct Beside {
  std::vector<std::vector<float>> measures;  // of each measure of the pattern, a value for each sample
  std::vector<float> cells;                  // of each cell the median over the samples, in ns per operation
  std::vector<std::uint32_t> slowest;        // of each cell, in how many samples it was the slowest
  Histogram events;                          // operations that were timed one by one
};

// What a block (sampler.h) says of one point: the kept samples of its visit, in ns per operation, and when the visit
// was made, in seconds.
struct Block {
  double at_s = 0;
  std::vector<float> values;
  Beside beside = {};  // NOLINT(readability-redundant-member-init)
  std::uint64_t number = 0;
  int state = -1;  // of the machine, by the yardstick before it
};

struct Estimate {
  std::size_t samples = 0;
  std::size_t blocks = 0;
  double median = 0;
  double low = 0, high = 0;  // interval of the median
  double correlation = 1;    // how many samples count as one independent sample
  bool bounded = false;  // false: too few blocks or samples for an interval; low and high are then minimum and maximum

  // Half the interval over the median; infinite while there is no interval.
  [[nodiscard]] double half_width() const;
};

// The median and its 95 % confidence interval, without an assumption on the distribution: order statistics, with the
// ranks taken from blocks because samples of one visit are correlated.
//
// Let I be the share of a block's samples that lie below the overall median (ties count half). Were the samples
// independent, the mean of I would have the variance 1/(4n) and the interval would run between the classical ranks n/2
// -+ 1.96 sqrt(n)/2 (Conover, Practical Nonparametric Statistics, 3rd ed., ch. 3.2). They are not, so the variance is
// that of the blocks' shares around a straight line over time (a drift is sampled evenly by the passes, and is no
// noise), with Student's t for blocks - 2 degrees of freedom; compare batch means in Law, Simulation Modeling and
// Analysis, ch. 9, and, for quantiles, Heidelberger and Lewis, Quantile Estimation in Dependent Sequences, 1984. What
// the drift adds because the visits fall at random within their passes is added back, and where one visit still
// resembles the next the variance grows as that of an AR(1) process. A correlation that outlasts several visits is a
// state of the machine and not noise: the yardsticks are there for that. Tests show the coverage on independent,
// correlated, drifting and bimodal streams, with the stopping rule.
// widened: the reach of the interval in ranks is so many times as far.
Estimate estimate(std::span<const Block> blocks, double widened = 1);

// The p-quantile of sorted values by linear interpolation (definition 7 of Hyndman and Fan, 1996).
double quantile(std::span<const float> sorted, double p);

// A percentile is supported by at least ten samples beyond it.
std::optional<double> supported_quantile(std::span<const float> sorted, double p);

// The median of the visits' medians, and its standard error from how far they lie apart; of two visits at least.
struct Spread {
  double median = 0, error = 0;
  std::size_t visits = 0;
};
Spread spread_of_visits(std::span<const Block> blocks);

// Where the spread of a point comes from: relative variances, of one sample inside its visit and of the visits beyond
// what their samples explain, which is below 0 by chance where they differ by nothing else. Robust: one visit that was
// disturbed does not count. Of six visits of four samples at least; 0 of less.
struct Sources {
  double of_samples = 0, of_visits = 0;
};
Sources sources_of_spread(std::span<const Block> blocks);

// How many samples a visit has best: those with which, in the time there is, the median over all visits is known best,
// where a visit takes around_ns beside its samples of sample_ns each (Kalibera and Jones, "Rigorous benchmarking in
// reasonable time", ISMM 2013). Infinite where visits do not differ beyond their samples.
double best_samples(double visits_over_samples, double around_ns, double sample_ns);

// How many leading samples of a visit are warm-up: the leading run in which each of three neighbours lies above what
// the second half of the visit reaches (upper quartile + 3 interquartile ranges, Tukey's far-out fence). At most half
// of the visit.
std::size_t warmup_samples(std::span<const float> values);

// The same for visits too short to see it in (fewer than eight samples): how many samples at the head of every visit
// are warm-up, because their median over the visits lies above the upper quartile of what follows them. At most half of
// a visit.
std::size_t common_warmup(std::span<const Block> blocks);

// estimate() of the blocks without their common warm-up; warmup says how much that was.
struct PointEstimate : Estimate {
  std::size_t leading = 0;  // samples dropped at the head of each block
};
PointEstimate estimate_point(std::span<const Block> blocks, double widened = 1);
std::vector<float> kept_values(std::span<const Block> blocks, std::size_t leading);

// The 0.975 quantile of Student's t.
double student_t975(std::size_t degrees);

}  // namespace netpipe
