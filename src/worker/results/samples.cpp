// SPDX-License-Identifier: Apache-2.0
#include "worker/results/samples.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

namespace netpipe {
namespace {

std::span<const std::int64_t> of_rank(const RankNumbers& numbers, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return r < numbers.size() ? std::span(numbers[r]) : std::span<const std::int64_t>();
}

// By rank, of all that a visit sent there in its samples. A rank that receives no messages may have lost answers.
std::vector<Losses> losses_of_ranks(const ChosenPattern& chosen, const VisitShape& visit, const RankNumbers& lost) {
  std::vector<Losses> losses(static_cast<std::size_t>(visit.nranks));
  for (int rank = 0; rank < visit.nranks; ++rank) {
    const std::span<const std::int64_t> here = of_rank(lost, rank);
    const std::uint32_t arrivals = chosen.pattern->arrivals(chosen.part(rank, visit.nranks, visit.size_bytes));
    if (here.empty() || arrivals == 0) continue;
    Losses& own = losses[static_cast<std::size_t>(rank)];
    own.messages = visit.samples * visit.rounds * arrivals;
    own.lost = static_cast<std::uint64_t>(std::accumulate(here.begin(), here.end(), std::int64_t{0}));
  }
  return losses;
}

Losses sum_of(const std::vector<Losses>& ranks) {
  Losses sum;
  for (const Losses& rank : ranks) {
    sum.messages += rank.messages;
    sum.lost += rank.lost;
  }
  return sum;
}

bool any_lost(const RankNumbers& lost) {
  return std::any_of(lost.begin(), lost.end(), [](const std::vector<std::int64_t>& of_rank) {
    return std::any_of(of_rank.begin(), of_rank.end(), [](std::int64_t count) { return count > 0; });
  });
}

constexpr double spoiled = std::numeric_limits<double>::quiet_NaN();  // the time of a sample that lost a message

// What the time of a sample is multiplied by, because messages of its ranks were lost; 0: it says nothing.
double correction(const ChosenPattern& chosen, const VisitShape& visit, const RankNumbers& lost, std::size_t sample) {
  double sent = 0, gone = 0;
  for (int rank = 0; rank < visit.nranks; ++rank) {
    const std::span<const std::int64_t> lost_here = of_rank(lost, rank);
    if (lost_here.empty()) continue;
    sent +=
        static_cast<double>(visit.rounds * chosen.pattern->arrivals(chosen.part(rank, visit.nranks, visit.size_bytes)));
    gone += static_cast<double>(lost_here[sample]);
  }
  if (gone == 0) return 1;
  return chosen.pattern->loss == Loss::thins && gone < sent ? sent / (sent - gone) : 0;
}

// The time of a sample that took so long.
double time_of(const ChosenPattern& chosen, const VisitShape& visit, const RankNumbers& lost, std::size_t sample,
               double ns) {
  const double times = correction(chosen, visit, lost, sample);
  // How long it takes has to be found out with losses as well.
  return times > 0 ? ns * times : visit.calibrating ? ns : spoiled;
}

// By cell or by measure, of each sample.
using Values = std::vector<std::vector<float>>;

// What the ranks of one measurement noted, sample by sample.
struct Taken {
  std::vector<double> ns;
  double span_ns = 0;  // of all samples; 0: the sum of ns
  Values measures, cells;
  std::vector<std::vector<double>> events;
};

// A pattern without notes of its own wrote clock readings: before the first sample and after each, or, where it pauses,
// before and after each.
Taken from_clock(const ChosenPattern& chosen, const VisitShape& visit, const Gathered& gathered) {
  const Pattern& pattern = *chosen.pattern;
  const int clock_rank = pattern.clock_rank(visit.nranks);
  const std::vector<std::int64_t>& clock = gathered.notes[static_cast<std::size_t>(clock_rank)];
  const bool pauses = pattern.pauses(chosen.part(clock_rank, visit.nranks, visit.size_bytes));
  Taken taken;
  taken.ns.reserve(visit.samples);
  for (std::size_t i = 0; i < visit.samples; ++i) {
    const std::size_t begin = pauses ? 2 * i : i;
    const auto ns = static_cast<double>(clock[begin + 1] - clock[begin]);
    taken.ns.push_back(time_of(chosen, visit, gathered.lost, i, ns));
  }
  return taken;
}

// The notes of one sample, by rank.
std::vector<std::span<const std::int64_t>> notes_of_sample(const RankNumbers& notes, std::size_t i,
                                                           std::size_t samples) {
  std::vector<std::span<const std::int64_t>> parts;
  parts.reserve(notes.size());
  for (const std::vector<std::int64_t>& of_rank : notes) {
    const std::size_t each = of_rank.size() / samples;
    parts.push_back(std::span(of_rank).subspan(i * each, each));
  }
  return parts;
}

Part part_of(const ChosenPattern& chosen, const VisitShape& visit) {
  const int rank = chosen.pattern->every_rank ? 0 : chosen.pattern->clock_rank(visit.nranks);
  return chosen.part(rank, visit.nranks, visit.size_bytes);
}

double operations_of(const ChosenPattern& chosen, const VisitShape& visit) {
  return static_cast<double>(visit.rounds) * chosen.pattern->operations(part_of(chosen, visit));
}

Taken from_notes(const ChosenPattern& chosen, const VisitShape& visit, const Gathered& gathered) {
  const Pattern& pattern = *chosen.pattern;
  const Part part = part_of(chosen, visit);
  const double operations = operations_of(chosen, visit);
  std::vector<double> measures(pattern.measures.size());
  std::vector<double> cells(pattern.cells(part));
  Taken taken;
  taken.measures.resize(measures.size());
  taken.cells.resize(cells.size());
  taken.events.resize(visit.samples);
  for (std::size_t i = 0; i < visit.samples; ++i) {
    const std::vector<std::span<const std::int64_t>> of_sample = notes_of_sample(gathered.notes, i, visit.samples);
    Reading reading;
    reading.measures = measures;
    reading.cells = cells;
    reading.events = &taken.events[i];
    pattern.evaluate(part, visit.rounds, of_sample, reading);
    taken.ns.push_back(time_of(chosen, visit, gathered.lost, i, reading.ns));
    taken.span_ns += reading.span_ns > 0 ? reading.span_ns : reading.ns;
    for (std::size_t m = 0; m < measures.size(); ++m) taken.measures[m].push_back(static_cast<float>(measures[m]));
    for (std::size_t c = 0; c < cells.size(); ++c) {
      taken.cells[c].push_back(static_cast<float>(cells[c] / operations));
    }
  }
  return taken;
}

Taken take(const ChosenPattern& chosen, const VisitShape& visit, const Gathered& gathered) {
  return chosen.pattern->evaluate == nullptr ? from_clock(chosen, visit, gathered)
                                             : from_notes(chosen, visit, gathered);
}

// Of several pairs each is a measurement of two ranks.
Taken take_pair(const ChosenPattern& chosen, VisitShape visit, const Gathered& gathered, int first) {
  const auto both = [&](const RankNumbers& numbers) {
    RankNumbers two;
    for (const int rank : {first, mirrored(first, visit.nranks)}) {
      const std::span<const std::int64_t> own = of_rank(numbers, rank);
      two.emplace_back(own.begin(), own.end());
    }
    return two;
  };
  const Gathered of_pair{both(gathered.notes), {}, both(gathered.lost)};
  visit.nranks = 2;
  return take(chosen, visit, of_pair);
}

// The slowest pair is the time of a sample, with what it measured beside it; where one has no time, none has. Single
// operations are those of all pairs.
Taken join(const std::vector<Taken>& pairs, double operations) {
  const std::size_t samples = pairs.front().ns.size();
  Taken all;
  all.measures.resize(pairs.front().measures.size() + 1);
  all.cells.resize(pairs.size());
  all.events.resize(pairs.front().events.size());
  std::vector<double> times(pairs.size());
  for (std::size_t i = 0; i < samples; ++i) {
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      times[p] = pairs[p].ns[i];
      all.cells[p].push_back(static_cast<float>(times[p] / operations));
      if (all.events.empty()) continue;
      all.events[i].insert(all.events[i].end(), pairs[p].events[i].begin(), pairs[p].events[i].end());
    }
    if (std::any_of(times.begin(), times.end(), [](double ns) { return std::isnan(ns); })) {
      all.ns.push_back(spoiled);
      for (std::vector<float>& of_measure : all.measures) of_measure.push_back(0);
      continue;
    }
    const auto slowest = static_cast<std::size_t>(std::max_element(times.begin(), times.end()) - times.begin());
    for (std::size_t m = 0; m + 1 < all.measures.size(); ++m) {
      all.measures[m].push_back(pairs[slowest].measures[m][i]);
    }
    std::sort(times.begin(), times.end());
    const double median = times[(times.size() - 1) / 2];  // of two the faster one
    all.ns.push_back(times.back());
    all.measures.back().push_back(median > 0 ? static_cast<float>(times.back() / median) : 1);
  }
  for (const Taken& pair : pairs) all.span_ns = std::max(all.span_ns, pair.span_ns);
  return all;
}

// How often each cell was the slowest, from the sample `first` on.
std::vector<std::uint32_t> count_slowest(const Values& cells, std::size_t first, std::size_t samples) {
  std::vector<std::uint32_t> slowest(cells.size(), 0);
  if (cells.empty()) return slowest;
  for (std::size_t i = first; i < samples; ++i) {
    const auto faster = [i](const std::vector<float>& a, const std::vector<float>& b) { return a[i] < b[i]; };
    ++slowest[static_cast<std::size_t>(std::max_element(cells.begin(), cells.end(), faster) - cells.begin())];
  }
  return slowest;
}

// Without the samples that have no time: they are counted as losses.
void drop_spoiled(Taken& taken) {
  for (std::size_t i = taken.ns.size(); i-- > 0;) {
    if (!std::isnan(taken.ns[i])) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    taken.ns.erase(taken.ns.begin() + at);
    for (Values* values : {&taken.measures, &taken.cells}) {
      for (std::vector<float>& one : *values) one.erase(one.begin() + at);
    }
    if (!taken.events.empty()) taken.events.erase(taken.events.begin() + at);
  }
}

}  // namespace

Samples take_samples(const ChosenPattern& chosen, const VisitShape& visit, const Gathered& gathered) {
  const double operations = operations_of(chosen, visit);
  Taken taken;
  if (const int pairs = pairs_of(*chosen.pattern, visit.nranks); pairs > 1) {
    std::vector<Taken> each;
    for (int first = 0; first < pairs; ++first) each.push_back(take_pair(chosen, visit, gathered, first));
    taken = join(each, operations);
  } else {
    taken = take(chosen, visit, gathered);
  }
  Samples samples;
  std::vector<Losses> losses = losses_of_ranks(chosen, visit, gathered.lost);
  samples.losses = sum_of(losses);
  const auto receivers =
      std::count_if(losses.begin(), losses.end(), [](const Losses& rank) { return rank.messages > 0; });
  if (receivers > 1 && !chosen.pattern->in_pairs) samples.losses_of_ranks = std::move(losses);
  if (any_lost(gathered.lost)) drop_spoiled(taken);
  // What is dropped as warm-up is dropped with everything that it says.
  std::vector<float> values;
  for (const double ns : taken.ns) values.push_back(static_cast<float>(ns / operations));
  const bool alone = taken.cells.empty() && taken.events.empty();
  const std::size_t warm = visit.calibrating || alone ? 0 : warmup_samples(values);
  samples.ns = std::move(taken.ns);
  samples.span_ns = taken.span_ns;
  samples.beside.measures = std::move(taken.measures);
  samples.beside.slowest = count_slowest(taken.cells, warm, samples.ns.size());
  for (std::size_t i = warm; i < taken.events.size(); ++i) {
    for (const double ns : taken.events[i]) samples.beside.events.add(ns);
  }
  for (std::vector<float>& of_cell : taken.cells) {
    of_cell.erase(of_cell.begin(), of_cell.begin() + static_cast<std::ptrdiff_t>(warm));
    std::sort(of_cell.begin(), of_cell.end());
    samples.beside.cells.push_back(of_cell.empty() ? 0 : static_cast<float>(quantile(of_cell, 0.5)));
  }
  return samples;
}

}  // namespace netpipe
