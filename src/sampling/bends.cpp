// SPDX-License-Identifier: Apache-2.0
#include "sampling/bends.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace netpipe {
namespace {

constexpr double bend = 0.05;  // off the line between the neighbours, and more than so many standard errors
constexpr double bend_errors = 3.5;
constexpr double slight_bend = 0.03;  // where that is more certain
constexpr double sure_errors = 7;
constexpr double known_bend_errors = 2.5;  // between sizes that were halved: that there is a bend is known by then
constexpr double large_step = 0.25;        // as a logarithm
constexpr double least_beyond = 0.02;      // nothing to cut for, as a logarithm
constexpr double wide = 0.75;              // octaves: in so wide a gap a step may hide
constexpr double usual_visits = 6;         // so much does the usual spread count beside that of a size
constexpr double least_error = 1e-4;       // also where visits are alike to the last digit, as those of a simulator are

// The mean over launches, each with the weight of what it knows.
struct Pooled {
  double sum = 0, weight = 0;

  void add(double value, double error) {
    const double variance = std::max(error * error, least_error * least_error);
    sum += value / variance;
    weight += 1 / variance;
  }
  [[nodiscard]] double value() const { return weight > 0 ? sum / weight : 0; }
  [[nodiscard]] double error() const { return 1 / std::sqrt(weight); }
};

// How far the middle one is off the line between the others, relative to the lesser of both.
Pooled off_line(const Measured& a, const Measured& m, const Measured& b, std::span<const Spreads> launches) {
  const double part = (m.bytes - a.bytes) / (b.bytes - a.bytes);
  Pooled off;
  for (const Spreads& launch : launches) {
    const Spread &low = launch[a.point], &middle = launch[m.point], &high = launch[b.point];
    if (low.median <= 0 || middle.median <= 0 || high.median <= 0) continue;
    const double line = low.median + part * (high.median - low.median);
    const double error = std::hypot(middle.error, std::hypot((1 - part) * low.error, part * high.error));
    const double least = std::min(middle.median, line);
    off.add((middle.median - line) / least, error / least);
  }
  return off;
}

bool bends(const Measured& a, const Measured& m, const Measured& b, std::span<const Spreads> launches) {
  const Pooled off = off_line(a, m, b, launches);
  const double errors = a.asked && m.asked && b.asked ? bend_errors : known_bend_errors;
  const double size = std::abs(off.value());
  return off.weight > 0 &&
         (size > std::max(bend, errors * off.error()) || size > std::max(slight_bend, sure_errors * off.error()));
}

// By how much the time rises from a to b, as a logarithm.
double rise(const Measured& a, const Measured& b, std::span<const Spreads> launches) {
  Pooled rise;
  for (const Spreads& launch : launches) {
    const Spread &low = launch[a.point], &high = launch[b.point];
    if (low.median <= 0 || high.median <= 0) continue;
    rise.add(std::log(high.median / low.median), std::hypot(low.error / low.median, high.error / high.median));
  }
  return rise.value();
}

double octaves(const Measured& a, const Measured& b) { return std::log2(b.bytes / std::max(a.bytes, 1.0)); }

struct Steepest {
  Gap gap;
  double beyond = 0;  // how much more the time changes there, as a logarithm
};

// Of the gaps between these neighbours that can be cut the one in which the time changes most beyond the way that it
// changes over all of them. Gaps that cannot be cut are no part of that: beside a step that has been located, a flat
// gap would look steep. Where none stands out, a step may hide in what the time rises by anyway: then the wide gap in
// which it rises most. Nothing where a located step is all that bends.
std::optional<Steepest> steepest(std::span<const Measured> sizes, std::span<const Spreads> launches) {
  const auto located = [&](std::size_t i) { return sizes[i + 1].point == sizes[i].point + 1; };
  std::vector<double> rises;
  double all = 0, over = 0;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    rises.push_back(rise(sizes[i], sizes[i + 1], launches));
    if (located(i)) continue;
    all += rises.back();
    over += octaves(sizes[i], sizes[i + 1]);
  }
  std::optional<Steepest> found;
  for (std::size_t i = 0; i < rises.size(); ++i) {
    if (located(i)) continue;
    const double beyond = std::abs(rises[i] - all / over * octaves(sizes[i], sizes[i + 1]));
    if (beyond <= (found ? found->beyond : least_beyond)) continue;
    found = {{sizes[i].point, sizes[i + 1].point, beyond > large_step}, beyond};
  }
  if (found || over < octaves(sizes.front(), sizes.back())) return found;
  double most = 0;
  for (std::size_t i = 0; i < rises.size(); ++i) {
    if (located(i) || octaves(sizes[i], sizes[i + 1]) < wide || std::abs(rises[i]) <= most) continue;
    most = std::abs(rises[i]);
    found = {{sizes[i].point, sizes[i + 1].point, false}, 0};
  }
  return found;
}

// With the usual variance of a launch beside that of each size.
void moderate(Spreads& launch) {
  std::vector<double> relative;  // variances of one visit
  for (const Spread& one : launch) {
    if (one.visits > 0) relative.push_back(std::pow(one.error / one.median, 2) * static_cast<double>(one.visits));
  }
  if (relative.empty()) return;
  const auto middle = relative.begin() + static_cast<std::ptrdiff_t>(relative.size() / 2);
  std::nth_element(relative.begin(), middle, relative.end());
  for (Spread& one : launch) {
    if (one.visits == 0) continue;
    const auto visits = static_cast<double>(one.visits);
    const double own = std::pow(one.error / one.median, 2) * visits;
    one.error = one.median * std::sqrt((usual_visits * *middle + visits * own) / (usual_visits + visits) / visits);
  }
}

}  // namespace

std::vector<Gap> gaps_to_cut(std::span<const Measured> sizes, std::vector<Spreads> launches) {
  for (Spreads& launch : launches) moderate(launch);
  std::vector<Steepest> found;
  std::size_t first = 0, last = 0;  // of the neighbours that bend, with those beside them
  const auto cut = [&] {
    if (last <= first) return;
    if (const auto one = steepest(sizes.subspan(first, last - first + 1), launches)) found.push_back(*one);
  };
  for (std::size_t i = 1; i + 1 < sizes.size(); ++i) {
    if (!bends(sizes[i - 1], sizes[i], sizes[i + 1], launches)) continue;
    if (i - 1 >= last) {
      cut();
      first = i - 1;
    }
    last = i + 1;
  }
  cut();
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.beyond > b.beyond; });
  std::vector<Gap> gaps;
  for (const Steepest& one : found) {
    if (!gaps.empty() && gaps.front().in_four && !one.gap.in_four) break;
    gaps.push_back(one.gap);
  }
  return gaps;
}

}  // namespace netpipe
