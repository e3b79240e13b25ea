// SPDX-License-Identifier: Apache-2.0
#include "sampling/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/clock.h"

namespace netpipe {
namespace {

// A stream's sample must be long against the bursts that it arrives in.
constexpr double stream_sample_ns = 300'000;
constexpr std::uint64_t stream_rounds = 16;
// Passes that the budget is laid out for: the fewest, and some for the points that need more.
constexpr double spare_passes = 2;
constexpr double planned_passes = fewest_passes + spare_passes;
// To a sixteenth of an octave a gap is halved four times, each time after a few visits.
constexpr double adaptive_passes = 24;
// Where visits differ beyond their samples they are shorter, and there are more of them. So many passes have shown it.
constexpr double most_passes = 64;
constexpr std::array passes_to_look = {6, 12, 24};
constexpr std::uint64_t long_visit_samples = 3;
constexpr double shortest_visit_ns = 50'000;
constexpr int most_corrections = 2;
// A point is visited until its interval is narrow, so it ends where the interval happens to be too narrow: where a
// layer has two speeds, before the slower one was seen often enough. Of an interval of about 99 % that is rarer.
constexpr double to_stop = 1.4;
// A point that has reached its target rests for this part of the passes so far.
constexpr int rest_part = 4;
constexpr std::uint64_t first_visit_samples = 8;
constexpr double longest_visit_ns = 100'000'000;
// When a curve is looked at for bends: after so many visits, and while so much of its budget is left.
constexpr std::size_t visits_to_bend = 3;
constexpr double budget_to_bend = 0.8;
// From then on nothing is found out of sizes that only earlier launches looked at.
constexpr double budget_to_learn = 0.25;
constexpr std::size_t most_added = 48;
// A size of which one sample takes this part of a curve's budget is slow; all slow ones together have half of it, as
// long as there are others. A size of which one round takes more than this is not measured at all, the smallest
// excepted.
constexpr double slow_part = 0.01;
constexpr double slowest_part = 0.5;
constexpr double always_slow_s = 0.005;
constexpr double always_bearable_s = 0.25;
constexpr double hopeless_s = 2;

std::uint64_t limit_of(const std::vector<std::uint64_t>& limits, const Curve& curve, const Point& point) {
  return limits.empty() ? 0 : limits[static_cast<std::size_t>(&point - curve.points.data())];
}

// As many rounds as one sample may have. What there is room for in a whole visit, one left out that is not timed, comes
// before what the pattern would rather have.
std::uint64_t within_sample(const Curve& curve, const Point& point, std::uint64_t rounds) {
  const CurveSetting& setting = curve.setting;
  rounds = std::max(rounds, limit_of(setting.fewest_rounds, curve, point));
  if (const std::uint64_t most = limit_of(setting.most_rounds_of_sample, curve, point)) rounds = std::min(rounds, most);
  if (const std::uint64_t most = limit_of(setting.most_rounds, curve, point)) {
    rounds = std::min(rounds, std::max<std::uint64_t>(most - 1, 1));
  }
  return std::max<std::uint64_t>(rounds, 1);
}

}  // namespace

const char* stop_name(Stop stop) {
  switch (stop) {
    case Stop::none: return "none";
    case Stop::precision: return "precision";
    case Stop::budget: return "budget";
    case Stop::limit: return "limit";
    case Stop::interrupted: return "interrupted";
    case Stop::error: return "error";
  }
  return "none";
}

void Point::note_speed(double ns, double lasts_ns) {
  round_ns = ns;
  whole_ns = lasts_ns > 0 ? lasts_ns : ns;
  fastest_ns = fastest_ns == 0 ? ns : std::min(fastest_ns, ns);
  slowest_ns = std::max(slowest_ns, ns);
  slowest_whole_ns = std::max(slowest_whole_ns, whole_ns);
}

Sampler::Sampler(SamplerSetting setting, std::vector<CurveSetting> curves)
    : setting_(setting),
      visit_ns_(curves.size(), shortest_visit_ns),
      best_ns_(curves.size(), 0),
      fewest_(curves.size(), long_visit_samples),
      passes_(planned_passes),
      random_(setting.seed) {
  for (CurveSetting& one : curves) {
    Curve curve;
    for (const std::uint64_t size : one.sizes) {
      Point point;
      point.size_bytes = size;
      point.asked = one.coarse.empty() || one.coarse[curve.points.size()];
      const auto measured = [&](const Spreads& launch) { return launch[curve.points.size()].median > 0; };
      const bool again = !point.asked && std::any_of(one.earlier.begin(), one.earlier.end(), measured);
      point.wanted = point.asked || again;
      curve.added += again ? 1 : 0;
      curve.points.push_back(std::move(point));
    }
    if (!one.coarse.empty()) passes_ = adaptive_passes;
    curve.setting = std::move(one);
    curves_.push_back(std::move(curve));
  }
  begin_pass();
  // The speeds are found out from the smallest size on: a size at which a layer hangs is met when all below it are
  // known to work.
  std::stable_sort(order_.begin(), order_.end(), [&](const auto& a, const auto& b) {
    return curves_[a.curve].points[a.point].size_bytes < curves_[b.curve].points[b.point].size_bytes;
  });
}

std::size_t Sampler::points() const {
  std::size_t count = 0;
  for (const Curve& curve : curves_) {
    count += static_cast<std::size_t>(
        std::count_if(curve.points.begin(), curve.points.end(), [](const Point& p) { return p.wanted; }));
  }
  return count;
}

std::size_t Sampler::points_done() const {
  std::size_t resting = 0;
  for (const Curve& curve : curves_) {
    resting += static_cast<std::size_t>(
        std::count_if(curve.points.begin(), curve.points.end(), [](const Point& p) { return p.to_do() && !p.open(); }));
  }
  return done_ + resting;
}

bool Sampler::open(const Curve& curve) const {
  return !curve.over && std::any_of(curve.points.begin(), curve.points.end(), [](const Point& p) { return p.open(); });
}

double Sampler::left_s() const {
  double seconds = 0;
  for (const Curve& curve : curves_) {
    if (open(curve)) seconds += std::max(0.0, setting_.budget_s - curve.used_s);
  }
  return seconds;
}

// A budget that has no room for a few samples of each size makes them shorter than the pattern wants them.
double Sampler::long_sample_ns(const Curve& curve) const {
  constexpr double few = 2;
  const double share_ns = setting_.budget_s * 1e9 / (few * static_cast<double>(curve.points.size()));
  return std::min(curve.setting.sample_ns, share_ns);
}

std::uint64_t Sampler::rounds_for(const Curve& curve, const Point& point) const {
  double rounds = 1;
  if (curve.setting.sample_ns > 0) {
    rounds = std::ceil(long_sample_ns(curve) / point.round_ns);
  } else if (!curve.setting.single_rounds) {
    rounds = std::max(std::ceil(stream_sample_ns / point.round_ns), static_cast<double>(stream_rounds));
    // A message that takes longer than a whole sample should needs no burst behind it.
    if (point.round_ns > stream_sample_ns)
      rounds = std::max(1.0, std::floor(static_cast<double>(stream_rounds) * stream_sample_ns / point.round_ns));
  } else if (point.fastest_ns < single_factor * setting_.clock_cost_ns) {
    // A layer that sleeps is a hundred times slower then than while it happens to be awake. Its batches are as short as
    // a sample may be against the clock, or one batch of sleeps would last forever.
    const bool sleeps = point.slowest_ns > smallest_factor * point.fastest_ns;
    rounds =
        std::ceil((sleeps ? smallest_factor : batch_factor) * setting_.clock_cost_ns / std::max(point.fastest_ns, 0.1));
  }
  const auto most = static_cast<double>(most_rounds_per_sample);
  return within_sample(curve, point, static_cast<std::uint64_t>(std::clamp(rounds, 1.0, most)));
}

// Speeds are found by a first visit of one round and, where that was short, a second one of many: the first message of
// a size pays for page tables and windows. Both count as warm-up.
std::optional<Visit> Sampler::calibrate() {
  while (next_in_order_ < order_.size()) {
    const auto [c, p, block] = order_[next_in_order_];
    Curve& curve = curves_[c];
    Point& point = curve.points[p];
    const bool known = point.rounds != 0;
    if (curve.over || point.stop != Stop::none || known) {
      ++next_in_order_;
      continue;
    }
    if (!point.asked && curve.used_s > budget_to_learn * setting_.budget_s) {
      point.wanted = false;
      ++next_in_order_;
      continue;
    }
    if (point.round_ns == 0) {
      // Where it is certain that it lasts far too long not even that is tried.
      if (expected_ns(curve, point) > std::max(4 * bearable_ns(), 1e9 * hopeless_s)) {
        leave_out(c, point.size_bytes);
        continue;
      }
      return Visit{c, p, 1, within_sample(curve, point, 1), -1, 0, block};
    }
    const double enough = std::max(4 * batch_factor * setting_.clock_cost_ns, long_sample_ns(curve));
    const std::uint64_t most = limit_of(curve.setting.most_rounds, curve, point);
    const double bound = most == 0 ? 4096.0 : static_cast<double>(std::max<std::uint64_t>(most / 4, 1));
    const auto rounds = within_sample(
        curve, point, static_cast<std::uint64_t>(std::clamp(std::ceil(enough / point.round_ns), 1.0, bound)));
    const bool many =
        (most == 0 || most / 4 >= rounds) && point.cost_ns(static_cast<double>(rounds)) < bearable_ns() / 4;
    const std::uint64_t samples = many ? 3 : 1;
    return Visit{c, p, samples, rounds, -1, point.cost_ns(static_cast<double>(samples * rounds)), block};
  }
  return std::nullopt;
}

double Sampler::bearable_ns() const { return 1e9 * std::max(slowest_part * setting_.budget_s, always_bearable_s); }

// This size of a curve, and all above, take longer than there is time for.
void Sampler::leave_out(std::size_t c, std::uint64_t from_size_bytes) {
  for (Point& point : curves_[c].points) point.too_slow = point.size_bytes >= from_size_bytes;
  give_up(c, Stop::budget, from_size_bytes);
}

// What the first rounds of a size will take: by the line through the last size and one of at most half of it, and no
// more than in proportion to the last one. 0: not known, as from sizes that are far below.
double Sampler::expected_ns(const Curve& curve, const Point& point) const {
  const auto largest_below = [&](std::uint64_t bytes) {
    const Point* largest = nullptr;
    for (const Point& one : curve.points) {
      const bool known = one.size_bytes < bytes && one.round_ns > 0;
      if (known && (largest == nullptr || one.size_bytes > largest->size_bytes)) largest = &one;
    }
    return largest;
  };
  const Point* const last = largest_below(point.size_bytes);
  const Point* const before = last != nullptr ? largest_below(last->size_bytes / 2 + 1) : nullptr;
  if (before == nullptr || point.size_bytes > 16 * last->size_bytes) return 0;
  const auto bytes = [](const Point& of) { return static_cast<double>(of.size_bytes); };
  const double slope = (last->lasts_ns() - before->lasts_ns()) / (bytes(*last) - bytes(*before));
  const double by_line = last->lasts_ns() + std::max(0.0, slope) * (bytes(point) - bytes(*last));
  const double expected = std::min(by_line, last->lasts_ns() * bytes(point) / std::max(bytes(*last), 1.0));
  return expected * static_cast<double>(within_sample(curve, point, 1));
}

bool Sampler::slow(const Point& point) const {
  const double sample_s = 1e-9 * point.cost_ns(static_cast<double>(std::max<std::uint64_t>(point.rounds, 1)));
  return sample_s > std::max(slow_part * setting_.budget_s, always_slow_s);
}

void Sampler::begin_pass() {
  order_.clear();
  next_in_order_ = 0;
  if (std::none_of(curves_.begin(), curves_.end(), [&](const Curve& curve) { return open(curve); })) {
    for (std::size_t c = 0; c < curves_.size(); ++c) give_up(c, Stop::precision);  // only those that rest are left
    return;
  }
  std::map<std::uint64_t, std::vector<Turn>> by_size;
  for (std::size_t c = 0; c < curves_.size(); ++c) {
    for (std::size_t p = 0; p < curves_[c].points.size(); ++p) {
      const Point& point = curves_[c].points[p];
      const bool due = point.open() || point.rests_until <= pass_;
      if (!curves_[c].over && point.to_do() && due) by_size[point.size_bytes].push_back({c, p, 0});
    }
  }
  std::vector<std::vector<Turn>*> blocks;
  for (auto& [size, turns] : by_size) blocks.push_back(&turns);
  std::shuffle(blocks.begin(), blocks.end(), random_);
  for (std::vector<Turn>* const turns : blocks) {
    std::shuffle(turns->begin(), turns->end(), random_);
    for (Turn& turn : *turns) turn.block = blocks_;
    order_.insert(order_.end(), turns->begin(), turns->end());
    ++blocks_;
  }
}

// Lays what is left of a curve's budget out over this many passes: a visit of a short operation lasts visit_ns, one of
// a long operation has a few samples.
void Sampler::choose_visit_lengths(double passes) {
  for (std::size_t c = 0; c < curves_.size(); ++c) {
    const Curve& curve = curves_[c];
    const double around_ns = curve.visits > 0 ? curve.around_s * 1e9 / curve.visits : 0;
    double slow_s = curve.slow_s;
    for (const Point& p : curve.points) {
      if (p.open() && slow(p)) {
        slow_s += passes * 1e-9 * p.cost_ns(static_cast<double>(p.rounds));
      }
    }
    slow_s = std::min(slow_s, slowest_part * setting_.budget_s);
    const double others_s = curve.used_s - curve.slow_s;
    const double allowed = std::max(0.0, setting_.budget_s - slow_s - others_s) * 1e9 / passes;
    const auto pass_ns = [&](double visit_ns, std::uint64_t fewest) {
      double sum = 0;
      for (const Point& p : curve.points) {
        if (!p.open() || slow(p)) continue;
        sum += around_ns +
               std::max(visit_ns, p.cost_ns(static_cast<double>(fewest * std::max<std::uint64_t>(p.rounds, 1))));
      }
      return sum;
    };
    fewest_[c] = long_visit_samples;
    while (fewest_[c] > 1 && pass_ns(shortest_visit_ns, fewest_[c]) > allowed) --fewest_[c];
    // So long that so many passes fit.
    const auto length_for = [&](double many) {
      double low = shortest_visit_ns;
      double high = longest_visit_ns;
      for (int i = 0; i < 40; ++i) {
        const double middle = (low + high) / 2;
        (pass_ns(middle, fewest_[c]) * many > allowed * passes ? high : low) = middle;
      }
      return low;
    };
    visit_ns_[c] = length_for(passes);
    if (std::find(passes_to_look.begin(), passes_to_look.end(), pass_) != passes_to_look.end()) {
      best_ns_[c] = best_visit_ns(curve);
    }
    if (best_ns_[c] > 0 && best_ns_[c] < visit_ns_[c]) {
      visit_ns_[c] = std::max(best_ns_[c], length_for(std::max(most_passes - pass_, 1.0)));
    }
  }
}

// The length of a visit that suits most sizes of a curve, by what has been seen of them; 0: not enough yet.
double Sampler::best_visit_ns(const Curve& curve) const {
  const double around_ns = curve.visits > 0 ? curve.around_s * 1e9 / curve.visits : 0;
  std::vector<double> ratios;
  std::vector<double> samples_ns;
  for (const Point& point : curve.points) {
    if (!point.open() || slow(point)) continue;
    const Sources sources = sources_of_spread(point.blocks);
    if (sources.of_samples <= 0) continue;
    ratios.push_back(sources.of_visits / sources.of_samples);
    samples_ns.push_back(point.cost_ns(static_cast<double>(point.rounds)));
  }
  if (ratios.empty()) return 0;
  const auto middle = [](std::vector<double>& values) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), at, values.end());
    return *at;
  };
  const double sample_ns = middle(samples_ns);
  return sample_ns * best_samples(middle(ratios), around_ns, sample_ns);
}

std::optional<Visit> Sampler::next() {
  if (!calibrated_) {
    if (auto visit = calibrate()) return visit;
    calibrated_ = true;
    pass_ = 0;
    for (Curve& curve : curves_) refine(curve);  // by what earlier launches said
    choose_visit_lengths(passes_);
    begin_pass();
  }
  for (;;) {
    while (next_in_order_ < order_.size()) {
      const auto [c, p, block] = order_[next_in_order_++];
      Curve& curve = curves_[c];
      Point& point = curve.points[p];
      if (curve.over || point.stop != Stop::none) continue;
      if (spent(curve, point)) continue;
      const double sample_ns = point.cost_ns(static_cast<double>(point.rounds));
      std::uint64_t samples =
          std::clamp<std::uint64_t>(static_cast<std::uint64_t>(visit_ns_[c] / std::max(sample_ns, 1.0)),
                                    slow(point) ? 1 : fewest_[c], most_samples_per_visit);
      // The first visit is a short one, and no visit would last very long even if the layer were as slow as it ever
      // was.
      if (point.passes == 0) samples = std::min(samples, first_visit_samples);
      const double slowest_ns = static_cast<double>(point.rounds) * point.slowest_whole_ns;
      const double bearable = std::max(static_cast<double>(fewest_[c]), 4 * visit_ns_[c] / std::max(slowest_ns, 1.0));
      samples = std::min(samples, static_cast<std::uint64_t>(bearable));
      const std::uint64_t most = limit_of(curve.setting.most_rounds, curve, point);
      if (most != 0) samples = std::clamp<std::uint64_t>((most > 1 ? most - 1 : 1) / point.rounds, 1, samples);
      return Visit{c, p, samples, point.rounds, pass_, static_cast<double>(samples) * sample_ns, block};
    }
    if (order_.empty()) return std::nullopt;
    end_pass();
    ++pass_;
    begin_pass();
    if (order_.empty()) return std::nullopt;
    choose_visit_lengths(std::max(passes_ - pass_, 1.0));
  }
}

std::size_t Sampler::report(const Visit& visit, const std::vector<double>& sample_ns, double seconds, double at_s,
                            int state, Beside beside, double span_ns) {
  Curve& curve = curves_[visit.curve];
  Point& point = at(visit);
  if (visit.pass >= 0 && curve.used_s >= setting_.budget_s) ++point.late_tries;
  curve.used_s += seconds;
  if (slow(point) || (point.round_ns == 0 && seconds > always_slow_s && seconds > slow_part * setting_.budget_s)) {
    curve.slow_s += seconds;
  }
  if (sample_ns.empty()) return 0;
  const double samples_ns = span_ns > 0 ? span_ns * static_cast<double>(sample_ns.size())
                                        : std::accumulate(sample_ns.begin(), sample_ns.end(), 0.0);
  curve.around_s += seconds - 1e-9 * samples_ns;
  ++curve.visits;
  const double operations = static_cast<double>(visit.rounds) * curve.setting.operations_per_round;
  std::vector<float> values;
  values.reserve(sample_ns.size());
  for (const double ns : sample_ns) values.push_back(static_cast<float>(ns / operations));
  std::vector<float> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const bool first = point.round_ns == 0;
  point.note_speed(std::max(quantile(sorted, 0.5) * curve.setting.operations_per_round, 0.1),
                   span_ns / static_cast<double>(visit.rounds));
  if (visit.pass < 0) {
    if (!first) point.slowest_ns = point.round_ns;  // the one before was a first message, and did not sleep
    point.dropped += values.size();
    const bool long_enough = point.cost_ns(static_cast<double>(visit.rounds)) >
                             std::max(4 * batch_factor * setting_.clock_cost_ns, long_sample_ns(curve));
    const bool too_long = point.lasts_ns() * static_cast<double>(within_sample(curve, point, 1)) > bearable_ns();
    const bool smallest = &point == &curve.points.front();  // a curve is not left without any number
    if (!first && too_long && !smallest) {
      leave_out(visit.curve, point.size_bytes);
    } else if (!first || (long_enough && !too_long)) {  // what lasted too long once may have met an interruption
      point.rounds = rounds_for(curve, point);
    }
    return values.size();
  }
  if (point.corrections < (curve.setting.sample_ns > 0 ? 2 : 1) * most_corrections) {
    // What was found out was not its usual speed; or, later, its samples have become too short for the clock, or for
    // the pattern.
    const std::uint64_t better = rounds_for(curve, point);
    const bool far_off = point.passes == 0 && (better > 4 * point.rounds || 4 * better < point.rounds);
    const double shortest_ns = std::max(smallest_factor * setting_.clock_cost_ns, long_sample_ns(curve) / 4);
    const bool too_short = curve.setting.single_rounds && better > point.rounds &&
                           static_cast<double>(point.rounds) * point.round_ns < shortest_ns;
    if (far_off || too_short) {
      ++point.corrections;
      point.rounds = better;
      point.dropped += values.size() + point.samples;  // samples of another length are no longer part of this point
      point.samples = 0;
      point.passes = 0;
      point.blocks.clear();
      return values.size();
    }
  }
  ++point.passes;
  const std::size_t warm = warmup_samples(values);
  point.dropped += warm;
  point.samples += values.size() - warm;
  const auto drop = static_cast<std::ptrdiff_t>(warm);
  for (std::vector<float>& measure : beside.measures) measure.erase(measure.begin(), measure.begin() + drop);
  point.blocks.push_back({at_s, {values.begin() + drop, values.end()}, std::move(beside), visit.block, state});
  return warm;
}

void Sampler::clock_costs(double ns) {
  setting_.clock_cost_ns = ns;
  for (Curve& curve : curves_) {
    for (Point& point : curve.points) point.corrections = 0;  // those of before were about another clock
  }
}

// Every point that was asked for gets samples whatever the budget says: a number that is marked as uncertain tells more
// than a gap. Visits that lost their messages or only corrected the calibration are made up for, but not without end.
bool Sampler::spent(const Curve& curve, const Point& point) const {
  constexpr int most_late_tries = 2 * most_corrections + 3;  // more than can be corrections
  const double for_slow_s = slowest_part * setting_.budget_s;
  bool over = curve.used_s - curve.slow_s >= setting_.budget_s - std::min(curve.slow_s, for_slow_s);
  if (slow(point)) {
    const auto open_and_fast = [&](const Point& p) { return p.open() && !slow(p); };
    const bool alone = std::none_of(curve.points.begin(), curve.points.end(), open_and_fast);
    over = curve.used_s >= setting_.budget_s || (curve.slow_s >= for_slow_s && !alone);
  }
  return over && (!point.asked || !point.blocks.empty() || point.late_tries >= most_late_tries);
}

void Sampler::finish(std::size_t curve, std::size_t point, Stop why) {
  curves_[curve].points[point].stop = why;
  ++done_;
  newly_done_.emplace_back(curve, point);
}

// A size between two others, of which nothing more is to be learnt where their line predicts it. Returns it, or one of
// both where nothing is between them.
std::size_t Sampler::want(Curve& curve, std::size_t before, std::size_t after) {
  const Point& low = curve.points[before];
  const Point& high = curve.points[after];
  const double middle = std::sqrt(static_cast<double>(low.size_bytes) * static_cast<double>(high.size_bytes));
  std::size_t nearest = before;
  const auto off = [&](std::size_t p) {
    return std::abs(std::log(static_cast<double>(curve.points[p].size_bytes) / middle));
  };
  for (std::size_t p = before + 1; p < after; ++p) {
    if (nearest == before || off(p) < off(nearest)) nearest = p;
  }
  if (nearest == before || curve.added >= most_added) return before;
  Point& point = curve.points[nearest];
  ++curve.added;
  point.wanted = true;
  point.note_speed(std::max(low.round_ns, high.round_ns), std::max(low.whole_ns, high.whole_ns));
  point.rounds = rounds_for(curve, point);
  return nearest;
}

// Bends are looked for in all launches together. A launch has a level of its own, so sizes are compared within each.
void Sampler::refine(Curve& curve) {
  if (curve.over || curve.setting.coarse.empty() || curve.used_s > budget_to_bend * setting_.budget_s) return;
  std::vector<Measured> known;
  Spreads now(curve.points.size());
  const std::vector<Spreads>& earlier = curve.setting.earlier;
  for (std::size_t p = 0; p < curve.points.size(); ++p) {
    const Point& point = curve.points[p];
    if (!point.wanted || (point.stop != Stop::none && point.blocks.empty())) continue;
    const bool enough = point.blocks.size() >= visits_to_bend;
    const auto says = [&](const Spreads& launch) { return launch[p].median > 0 && launch[p].visits >= visits_to_bend; };
    if (!enough && std::none_of(earlier.begin(), earlier.end(), says)) continue;  // still new
    known.push_back({p, static_cast<double>(point.size_bytes), point.asked});
    if (enough) now[p] = spread_of_visits(point.blocks);
  }
  std::vector<Spreads> launches = earlier;
  launches.push_back(std::move(now));
  for (const Gap& gap : gaps_to_cut(known, std::move(launches))) {
    const auto wanted = [&](const Point& point) { return point.wanted; };
    const auto from = curve.points.begin() + static_cast<std::ptrdiff_t>(gap.before) + 1;
    if (std::any_of(from, curve.points.begin() + static_cast<std::ptrdiff_t>(gap.after), wanted)) continue;  // new ones
    const std::size_t middle = want(curve, gap.before, gap.after);
    if (!gap.in_four) continue;
    want(curve, gap.before, middle);
    want(curve, middle, gap.after);
  }
}

void Sampler::end_pass() {
  for (std::size_t c = 0; c < curves_.size(); ++c) {
    Curve& curve = curves_[c];
    refine(curve);
    for (std::size_t p = 0; p < curve.points.size(); ++p) {
      Point& point = curve.points[p];
      if (curve.over || !point.to_do() || point.rests_until > pass_) continue;
      const bool believed = point.blocks.size() >= static_cast<std::size_t>(fewest_passes);
      point.rests_until = 0;
      if (believed && estimate_point(point.blocks, to_stop).half_width() <= setting_.target) {
        point.rests_until = pass_ + 2 + pass_ / rest_part;
      } else if (point.samples >= most_samples_per_point) {
        finish(c, p, Stop::limit);
      } else if (spent(curve, point)) {
        finish(c, p, Stop::budget);
      }
    }
  }
}

void Sampler::give_up_size(const Visit& visit, Stop why) {
  finish(visit.curve, visit.point, why);
  Curve& curve = curves_[visit.curve];
  curve.over = std::none_of(curve.points.begin(), curve.points.end(), [](const Point& p) { return p.to_do(); });
}

void Sampler::give_up(std::size_t c, Stop why, std::uint64_t from_size_bytes) {
  Curve& curve = curves_[c];
  curve.over = true;
  for (std::size_t p = 0; p < curve.points.size(); ++p) {
    const Point& point = curve.points[p];
    if (!point.to_do()) continue;
    if (point.size_bytes >= from_size_bytes) {
      finish(c, p, point.open() || point.blocks.empty() ? why : Stop::precision);
    } else {
      curve.over = false;
    }
  }
}

void Sampler::interrupt() {
  for (std::size_t c = 0; c < curves_.size(); ++c) give_up(c, Stop::interrupted);
}

std::vector<std::pair<std::size_t, std::size_t>> Sampler::take_done() { return std::exchange(newly_done_, {}); }

std::span<const Block> Sampler::blocks_of(std::size_t c, std::size_t p) const { return curves_[c].points[p].blocks; }

}  // namespace netpipe
