// SPDX-License-Identifier: Apache-2.0
#include "sampling/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace netpipe {
namespace {

constexpr std::size_t fewest_blocks = 5;   // below, Student's t with blocks - 2 degrees says nothing useful
constexpr std::size_t fewest_samples = 8;  // below, no two order statistics enclose the median with 95 %

float nth(std::vector<float>& values, std::size_t n) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n), values.end());
  return values[n];
}

double median_of(std::vector<float>& values) {
  const std::size_t half = values.size() / 2;
  const double upper = nth(values, half);
  if (values.size() % 2 == 1) return upper;
  return (upper + *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half))) / 2;
}

// Share of the values below the threshold; a tie counts half, because a clock of whole nanoseconds makes many.
double share_below(const std::vector<float>& values, double threshold) {
  double below = 0;
  for (const float v : values) below += v < threshold ? 1.0 : v == threshold ? 0.5 : 0.0;
  return below / static_cast<double>(values.size());
}

// One visit is cut into parts when there are too few visits to see how they vary.
std::vector<Block> cut(std::span<const Block> blocks) {
  std::vector<Block> parts;
  for (const Block& block : blocks) {
    const std::size_t count = std::clamp<std::size_t>(block.values.size() / 2, 1, fewest_blocks);
    for (std::size_t i = 0; i < count; ++i) {
      const auto edge = [&](std::size_t k) {
        return block.values.begin() + static_cast<std::ptrdiff_t>(block.values.size() * k / count);
      };
      parts.push_back({block.at_s + static_cast<double>(i) * 1e-9, {edge(i), edge(i + 1)}});
    }
  }
  return parts;
}

struct Line {
  double residual_variance = 0;  // of the blocks around it, weighted by their samples
  double memory = 0;             // correlation of one block with the next, as an AR(1) process
  double slope = 0;
  double span = 0;
};

Line fit_shares(std::span<const Block> blocks, double median) {
  const auto k = static_cast<double>(blocks.size());
  double n = 0;
  for (const Block& b : blocks) n += static_cast<double>(b.values.size());
  const double mean_weight = n / k;
  std::vector<double> share;
  std::vector<double> weight;
  double t_mean = 0;
  double i_mean = 0;
  double first = std::numeric_limits<double>::infinity();
  double last = -first;
  for (const Block& b : blocks) {
    const double w = static_cast<double>(b.values.size()) / mean_weight;
    share.push_back(share_below(b.values, median));
    weight.push_back(w);
    t_mean += w * b.at_s / k;
    i_mean += w * share.back() / k;
    first = std::min(first, b.at_s);
    last = std::max(last, b.at_s);
  }
  double tt = 0;
  double ti = 0;
  for (std::size_t j = 0; j < blocks.size(); ++j) {
    const double t = blocks[j].at_s - t_mean;
    tt += weight[j] * t * t;
    ti += weight[j] * t * (share[j] - i_mean);
  }
  Line line;
  line.slope = tt > 0 ? ti / tt : 0;
  line.span = last - first;
  double squares = 0;
  double products = 0;
  double previous = 0;
  for (std::size_t j = 0; j < blocks.size(); ++j) {
    const double residual = weight[j] * (share[j] - i_mean - line.slope * (blocks[j].at_s - t_mean));
    squares += residual * residual;
    products += residual * previous;
    previous = residual;
  }
  line.residual_variance = squares / (k - 2);
  // The first autocorrelation of so few residuals is too small by about (1 + 3r) / k (Marriott and Pope, 1954): undone
  // here.
  const double r = squares > 0 ? products / squares : 0;
  line.memory = std::clamp((k * r + 1) / (k - 3), 0.0, 0.7);
  return line;
}

}  // namespace

double Estimate::half_width() const {
  if (!bounded || median <= 0) return std::numeric_limits<double>::infinity();
  return (high - low) / 2 / median;
}

Estimate estimate(std::span<const Block> visits, double widened) {
  Estimate e;
  std::vector<float> pool;
  std::vector<Block> parts;
  std::span<const Block> blocks = visits;
  if (visits.size() < fewest_blocks) {
    parts = cut(visits);
    blocks = parts;
  }
  for (const Block& b : blocks) pool.insert(pool.end(), b.values.begin(), b.values.end());
  e.samples = pool.size();
  e.blocks = visits.size();
  if (pool.empty()) return e;
  e.median = median_of(pool);
  const auto n = static_cast<double>(pool.size());
  const auto [least, most] = std::minmax_element(pool.begin(), pool.end());
  e.low = *least;
  e.high = *most;
  if (blocks.size() < fewest_blocks || pool.size() < fewest_samples) return e;

  const auto k = static_cast<double>(blocks.size());
  const Line line = fit_shares(blocks, e.median);
  // Visits lie anywhere within their pass: a uniform position has the variance (span / k)^2 / 12.
  const double jitter = line.slope * line.span / k;
  const double lasting = (1 + line.memory) / (1 - line.memory);
  const double variance = (line.residual_variance + jitter * jitter / 12) / k * lasting;
  e.correlation = variance * 4 * n;
  const double reach = widened * student_t975(blocks.size() - 2) * std::sqrt(variance);
  // Blocks that are all split alike have no variance; the ranks still enclose the median.
  const double low_rank = std::min(std::floor(n * (0.5 - reach)), std::floor((n - 1) / 2));
  const double high_rank = std::max(std::ceil(n * (0.5 + reach)) - 1, std::floor(n / 2));
  if (low_rank < 0 || high_rank > n - 1) return e;
  e.low = nth(pool, static_cast<std::size_t>(low_rank));
  e.high = nth(pool, static_cast<std::size_t>(high_rank));
  e.bounded = true;
  return e;
}

Spread spread_of_visits(std::span<const Block> blocks) {
  std::vector<float> medians;
  for (const Block& block : blocks) {
    std::vector<float> values = block.values;
    medians.push_back(static_cast<float>(median_of(values)));
  }
  std::sort(medians.begin(), medians.end());
  const auto n = static_cast<double>(medians.size());
  // Half of a normal distribution lies within 0.6745 standard deviations of its median, of a few values within less
  // (C. Croux and P. J. Rousseeuw, "Time-efficient algorithms for two highly robust estimators of scale", 1992), and
  // the error of a median is 1.2533 times that of a mean. Up to half of the visits may have been disturbed.
  const double median = quantile(medians, 0.5);
  for (float& one : medians) one = static_cast<float>(std::abs(one - median));
  std::sort(medians.begin(), medians.end());
  const double deviation = quantile(medians, 0.5) / 0.6745 * n / (n - 0.8);
  return {median, 1.2533 * deviation / std::sqrt(n), medians.size()};
}

namespace {

constexpr std::size_t fewest_for_sources = 6;  // visits
constexpr std::size_t fewest_inside = 4;       // samples of a visit
constexpr double median_to_mean = 1.5708;      // the variance of a median over that of a mean, of a normal distribution

// Robust, of values above 0: the quartiles of a normal distribution are 1.349 standard deviations apart.
double relative_variance(std::vector<float>& values) {
  std::sort(values.begin(), values.end());
  const double deviation = (quantile(values, 0.75) - quantile(values, 0.25)) / 1.349 / quantile(values, 0.5);
  return deviation * deviation;
}

}  // namespace

Sources sources_of_spread(std::span<const Block> blocks) {
  std::vector<float> medians;
  std::vector<float> inside;
  double shares = 0;  // of a sample's variance that the median of its visit has, summed
  for (const Block& block : blocks) {
    if (block.values.size() < fewest_inside) continue;
    std::vector<float> values = block.values;
    inside.push_back(static_cast<float>(relative_variance(values)));
    medians.push_back(static_cast<float>(quantile(values, 0.5)));
    shares += median_to_mean / static_cast<double>(values.size());
  }
  if (medians.size() < fewest_for_sources) return {};
  std::sort(inside.begin(), inside.end());
  Sources found;
  found.of_samples = quantile(inside, 0.5);
  const double explained = found.of_samples * shares / static_cast<double>(medians.size());
  found.of_visits = relative_variance(medians) - explained;
  return found;
}

double best_samples(double visits_over_samples, double around_ns, double sample_ns) {
  if (visits_over_samples <= 0) return std::numeric_limits<double>::infinity();
  return std::sqrt(around_ns / sample_ns * median_to_mean / visits_over_samples);
}

double quantile(std::span<const float> sorted, double p) {
  const double place = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = place - static_cast<double>(below);
  return sorted[below] * (1 - part) + sorted[above] * part;
}

std::optional<double> supported_quantile(std::span<const float> sorted, double p) {
  constexpr double needed_beyond = 10 - 1e-6;  // 1 - 0.9 is a little less than a tenth
  if (static_cast<double>(sorted.size()) * (1 - p) < needed_beyond) return std::nullopt;
  return quantile(sorted, p);
}

std::size_t warmup_samples(std::span<const float> values) {
  const std::size_t half = values.size() / 2;
  if (half < 4) return 0;
  std::vector<float> steady(values.begin() + static_cast<std::ptrdiff_t>(half), values.end());
  std::sort(steady.begin(), steady.end());
  const double q1 = quantile(steady, 0.25);
  const double q3 = quantile(steady, 0.75);
  const double fence = q3 + 3 * (q3 - q1);
  std::size_t warm = 0;
  for (std::size_t i = 0; i + 2 < values.size() && i < half; ++i) {
    const float middle =
        std::max(std::min(values[i], values[i + 1]), std::min(std::max(values[i], values[i + 1]), values[i + 2]));
    if (values[i] <= fence && middle <= fence) break;
    warm = i + 1;
  }
  return warm;
}

std::size_t common_warmup(std::span<const Block> blocks) {
  constexpr std::size_t long_enough = 8;  // warmup_samples() sees it in the visit itself
  std::size_t shortest = long_enough;
  for (const Block& b : blocks) shortest = std::min(shortest, b.values.size());
  if (shortest >= long_enough || blocks.size() < 4) return 0;
  std::size_t leading = 0;
  while (leading < shortest / 2) {
    std::vector<float> head;
    std::vector<float> rest;
    for (const Block& b : blocks) {
      head.push_back(b.values[leading]);
      rest.insert(rest.end(), b.values.begin() + static_cast<std::ptrdiff_t>(leading) + 1, b.values.end());
    }
    std::sort(rest.begin(), rest.end());
    if (median_of(head) <= quantile(rest, 0.75)) break;
    ++leading;
  }
  return leading;
}

std::vector<float> kept_values(std::span<const Block> blocks, std::size_t leading) {
  std::vector<float> values;
  for (const Block& b : blocks)
    values.insert(values.end(), b.values.begin() + static_cast<std::ptrdiff_t>(leading), b.values.end());
  return values;
}

PointEstimate estimate_point(std::span<const Block> blocks, double widened) {
  PointEstimate result;
  result.leading = common_warmup(blocks);
  if (result.leading == 0) {
    static_cast<Estimate&>(result) = estimate(blocks, widened);
    return result;
  }
  std::vector<Block> kept;
  for (const Block& b : blocks)
    kept.push_back({b.at_s, {b.values.begin() + static_cast<std::ptrdiff_t>(result.leading), b.values.end()}});
  static_cast<Estimate&>(result) = estimate(kept, widened);
  return result;
}

double student_t975(std::size_t degrees) {
  static constexpr std::array<double, 11> table{0,        12.706205, 4.302653, 3.182446, 2.776445, 2.570582,
                                                2.446912, 2.364624,  2.306004, 2.262157, 2.228139};
  if (degrees < table.size()) return table[std::max<std::size_t>(degrees, 1)];
  // Cornish and Fisher's expansion; below 1e-5 off from 11 degrees on.
  const double z = 1.959963985;
  const auto v = static_cast<double>(degrees);
  const double z2 = z * z;
  return z + z * (z2 + 1) / (4 * v) + z * ((5 * z2 + 16) * z2 + 3) / (96 * v * v) +
         z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * v * v * v);
}

}  // namespace netpipe
