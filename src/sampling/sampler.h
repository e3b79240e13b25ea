// SPDX-License-Identifier: Apache-2.0
// Decides what is measured next and when a point is done. Pure: it is told what was measured and never looks at a
// clock, so its whole behaviour is tested without time.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "sampling/bends.h"
#include "sampling/histogram.h"
#include "sampling/statistics.h"

namespace netpipe {

// A point needs this many visits before its interval is believed; with them a 1 % target and the default budget fit
// each other.
inline constexpr int fewest_passes = 8;
inline constexpr std::size_t most_samples_per_visit = 256;
inline constexpr std::uint64_t most_rounds_per_sample = 1'000'000'000;
inline constexpr std::size_t most_samples_per_point = 1U << 16;

struct SamplerSetting {
  double target = 0.01;
  double budget_s = 3;  // of one curve
  double clock_cost_ns = 25;
  std::uint64_t seed = 1;
};

// How a pattern wants to be sampled.
struct CurveSetting {
  std::uint32_t variant = 0;
  std::uint32_t pattern = 0;
  std::uint32_t operations_per_round = 1;
  std::uint32_t messages_per_operation = 1;
  bool single_rounds = true;
  double sample_ns = 0;  // how long the rounds of a sample last at least
  std::vector<std::uint64_t> sizes;
  // Per size, 0 is no limit, and so is an empty list.
  std::vector<std::uint64_t> most_rounds;            // of one visit
  std::vector<std::uint64_t> most_rounds_of_sample;  // of one sample
  std::vector<std::uint64_t> fewest_rounds;          // of one sample; an empty list: 1
  // Per size: visited in any case? The others are visited where the curve bends or steps. An empty list: all are.
  std::vector<bool> coarse;
  // Of each earlier launch, per size, what its visits said; a median of 0: it was not measured there. This launch
  // begins with the same sizes beside the coarse ones, and those visits are evidence of bends as its own are.
  std::vector<Spreads> earlier;
};

// Visits come in blocks: all curves at one size, back to back in random order, so that what the machine does to one of
// them it does to all that are compared. The blocks of a pass come in random order too.
struct Visit {
  std::size_t curve = 0;
  std::size_t point = 0;
  std::uint64_t samples = 1;
  std::uint64_t rounds = 1;  // of one sample
  int pass = 0;              // -1 while the point's speed is being found out
  double expected_ns = 0;    // of the whole visit, 0 when nothing is known yet
  std::uint64_t block = 0;   // rises from block to block
};

enum class Stop { none, precision, budget, limit, interrupted, error };
const char* stop_name(Stop stop);

// Of a layer that may lose messages: how many of those of one visit did not arrive.
struct Losses {
  std::uint64_t lost = 0, messages = 0;
};

// What one visit adds to something that is a ratio of two sums over visits.
struct Ratio {
  double sum = 0, count = 0;
};

// What is known of one size of one curve.
struct Point {
  std::uint64_t size_bytes = 0;
  bool wanted = true;                     // false: between sizes whose line predicts it
  bool asked = true;                      // false: where a curve is looked at closer, as far as there is time
  double round_ns = 0;                    // the latest idea of one round's time
  double whole_ns = 0;                    // by the clock on the wall: operations may overlap, or wait for their turn
  double fastest_ns = 0, slowest_ns = 0;  // of one round: the medians of the fastest and the slowest visit
  double slowest_whole_ns = 0;
  bool too_slow = false;      // by the smaller sizes one operation takes more than there is time for: not measured
  int corrections = 0;        // how often a first visit proved the calibration wrong
  std::uint64_t rounds = 0;   // of one sample; fixed after calibration, so that all samples are alike
  std::vector<Block> blocks;  // kept samples by visit, ns per operation
  std::size_t samples = 0;    // kept
  std::size_t dropped = 0;    // warm-up
  std::uint64_t verified_bytes = 0;
  std::vector<std::int64_t> counters;  // what the layer counted in all visits (worker/results/counts.h); empty: nothing
  std::vector<Losses> losses;          // of each visit, of a lossy layer
  std::vector<std::vector<Ratio>> of_layer;          // by measure of the layer, of each visit that says something of it
  std::vector<std::vector<Losses>> losses_of_ranks;  // by rank, of each visit; empty: of one receiver, or of pairs
  int passes = 0;
  int late_tries = 0;  // visits when the budget of the curve was spent
  // Its target was reached: from this pass on it is visited once more, if others are still open. 0: it is open itself.
  int rests_until = 0;
  Stop stop = Stop::none;

  [[nodiscard]] bool to_do() const { return wanted && stop == Stop::none; }
  [[nodiscard]] bool open() const { return to_do() && rests_until == 0; }

  // One round took ns in a visit, and its part of a whole sample lasted so long; 0: as long.
  void note_speed(double ns, double lasts_ns);
  // One round without what a pattern lets pass between operations, and without what an operation waits for its turn.
  [[nodiscard]] double lasts_ns() const { return round_ns < whole_ns ? round_ns : whole_ns; }
  // What so many rounds take altogether.
  [[nodiscard]] double cost_ns(double many) const { return many * whole_ns; }
};

struct Curve {
  CurveSetting setting;
  std::vector<Point> points;
  double used_s = 0;
  double slow_s = 0;    // of used_s: at sizes of which a single sample takes a good part of the budget
  double around_s = 0;  // of used_s: everything but the samples (commands, warm buffers, verification)
  int visits = 0;
  std::size_t added = 0;  // points that became wanted, here or in an earlier launch
  bool over = false;      // failed or skipped: no further visit
};

class Sampler {
 public:
  Sampler(SamplerSetting setting, std::vector<CurveSetting> curves);

  // What to do next: first every point's speed is found out, then passes over all points that are not done, block by
  // block. nullopt: everything is done. A pass boundary is where pass() of the visit rises.
  // A point that has reached its target rests, and is visited in fewer and fewer passes as long as others are open.
  // Ended at once, it would stand for the first part of a launch only, and its interval for less than the launch.
  std::optional<Visit> next();

  // The raw duration of each sample's operations, in ns, and how long the visit took altogether. No sample: each lost a
  // message, so the visit took its time and says no more. state: of the machine. beside: of all samples. span_ns: how
  // long taking one sample lasts, where that is not what its operations took. Returns how many leading samples were
  // dropped as warm-up.
  std::size_t report(const Visit& visit, const std::vector<double>& sample_ns, double seconds, double at_s, int state,
                     Beside beside = {}, double span_ns = 0);
  // The clock costs so much from now on, because the kernel reads the time from another source. What was sampled before
  // stays where it is long enough for that; the other points that are not done begin again, with longer samples.
  void clock_costs(double ns);

  // The point of a visit, for what the sampler does not decide by: verified bytes, counters, losses.
  Point& at(const Visit& visit) { return curves_[visit.curve].points[visit.point]; }

  // This size failed: nothing that was measured of it may be reported.
  void forget(const Visit& visit) { at(visit).blocks.clear(); }

  // This size alone will not be measured, the others of its curve will.
  void give_up_size(const Visit& visit, Stop why);

  // What is left of this curve, from this size on, will not be measured.
  void give_up(std::size_t curve, Stop why, std::uint64_t from_size_bytes = 0);
  void interrupt();

  // Points that have been done since the last call, as (curve, point).
  std::vector<std::pair<std::size_t, std::size_t>> take_done();

  [[nodiscard]] const std::vector<Curve>& curves() const { return curves_; }
  [[nodiscard]] std::size_t points() const;
  [[nodiscard]] std::size_t points_done() const;  // those that rest, too
  [[nodiscard]] int pass() const { return pass_; }
  // Seconds that are left at most: what the budgets still allow the points that are not done.
  [[nodiscard]] double left_s() const;
  [[nodiscard]] std::span<const Block> blocks_of(std::size_t curve, std::size_t point) const;

 private:
  std::optional<Visit> calibrate();
  void end_pass();
  void begin_pass();
  void leave_out(std::size_t curve, std::uint64_t from_size_bytes);
  void choose_visit_lengths(double passes);
  [[nodiscard]] double best_visit_ns(const Curve& curve) const;
  void refine(Curve& curve);
  std::size_t want(Curve& curve, std::size_t before, std::size_t after);
  [[nodiscard]] bool open(const Curve& curve) const;
  [[nodiscard]] bool spent(const Curve& curve, const Point& point) const;
  [[nodiscard]] bool slow(const Point& point) const;
  [[nodiscard]] double bearable_ns() const;
  [[nodiscard]] double expected_ns(const Curve& curve, const Point& point) const;
  void finish(std::size_t curve, std::size_t point, Stop why);
  [[nodiscard]] double long_sample_ns(const Curve& curve) const;
  [[nodiscard]] std::uint64_t rounds_for(const Curve& curve, const Point& point) const;

  SamplerSetting setting_;
  std::vector<Curve> curves_;
  std::vector<double> visit_ns_;       // per curve: how long a visit of a short operation lasts
  std::vector<double> best_ns_;        // of each curve: the length of a visit that suits it; 0: not known
  std::vector<std::uint64_t> fewest_;  // per curve: samples of a visit of a long one
  double passes_;                      // that the budget is laid out for
  std::mt19937_64 random_;
  struct Turn {
    std::size_t curve, point;
    std::uint64_t block;
  };
  std::vector<Turn> order_;  // of this pass
  std::size_t next_in_order_ = 0;
  std::uint64_t blocks_ = 0;
  bool calibrated_ = false;
  int pass_ = -1;
  std::size_t done_ = 0;
  std::vector<std::pair<std::size_t, std::size_t>> newly_done_;
};

}  // namespace netpipe
