// SPDX-License-Identifier: Apache-2.0
// A machine for the tests of the sampler: its time is a number that is added up.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "sampling/sampler.h"
#include "sampling/schedule.h"

namespace netpipe {

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
  double noise = 0.001;       // relative, of one sample
  double visit_noise = 0;     // the same, of all samples of a visit together
  double around_s = 20e-6;    // what a visit costs beyond its samples
  double whole_round_ns = 0;  // how long a round lasts, where that is not what its operations took
  std::function<int(double at_s)> state = [](double) { return 0; };
  std::uint64_t seed = 1;
};

inline double latency_and_rate(std::size_t, std::uint64_t size_bytes) {
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
    double of_visit = 1;
    if (machine_.visit_noise > 0)
      of_visit = std::max(0.1, std::normal_distribution<>(1, machine_.visit_noise)(random_));
    std::vector<double> ns(visit->samples);
    double seconds = machine_.around_s;
    for (double& one : ns) {
      one = std::max(round * static_cast<double>(visit->rounds) * of_visit * noise(random_), 1.0);
      if (machine_.whole_round_ns == 0) seconds += one * 1e-9;
    }
    const double span_ns = machine_.whole_round_ns * static_cast<double>(visit->rounds);
    seconds += 1e-9 * span_ns * static_cast<double>(ns.size());
    done_.push_back({*visit, seconds, curve.used_s, !sampler_.blocks_of(visit->curve, visit->point).empty()});
    reported_ += ns.size();
    dropped_ += sampler_.report(*visit, ns, seconds, at_s_, machine_.state(at_s_), {}, span_ns);
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

inline CurveSetting curve(std::vector<std::uint64_t> sizes) {
  CurveSetting setting;
  setting.operations_per_round = 2;
  setting.sizes = std::move(sizes);
  return setting;
}

inline CurveSetting stream_curve(std::vector<std::uint64_t> sizes) {
  CurveSetting setting = curve(std::move(sizes));
  setting.operations_per_round = 1;
  setting.single_rounds = false;
  return setting;
}

inline std::vector<std::uint64_t> powers(int count) {
  std::vector<std::uint64_t> sizes;
  for (int i = 0; i < count; ++i) sizes.push_back(1ULL << i);
  return sizes;
}

// An adaptive schedule up to 1 MiB: sixteen sizes to an octave, of which the powers of two are visited in any case.
inline CurveSetting adaptive_curve() {
  const Schedule schedule{.kind = Schedule::Kind::adaptive, .end_bytes = 1U << 20U};
  CurveSetting setting = curve(*sizes_of(schedule));
  for (const std::uint64_t size : setting.sizes) setting.coarse.push_back(is_coarse(schedule, size));
  return setting;
}

inline std::vector<std::uint64_t> measured_sizes(const Sampler& sampler) {
  std::vector<std::uint64_t> sizes;
  for (const Point& point : sampler.curves()[0].points) {
    if (!point.blocks.empty()) sizes.push_back(point.size_bytes);
  }
  return sizes;
}

}  // namespace netpipe
