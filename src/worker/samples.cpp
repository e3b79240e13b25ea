// SPDX-License-Identifier: Apache-2.0
#include "worker/samples.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace netpipe {
namespace {

std::span<const std::int64_t> of_rank(const RankNumbers& numbers, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return r < numbers.size() ? std::span(numbers[r]) : std::span<const std::int64_t>();
}

// Of all that a visit sent in its samples. No pattern with notes of its own takes losses.
Losses losses_of(const Mode& mode, const VisitShape& visit, const RankNumbers& lost) {
  Losses losses;
  for (int rank = 0; rank < visit.nranks; ++rank) {
    const std::span<const std::int64_t> here = of_rank(lost, rank);
    if (here.empty()) continue;
    const Part part = mode.part(rank, visit.nranks, visit.size_bytes);
    losses.messages += visit.samples * visit.rounds * mode.pattern->arrivals(part);
    losses.lost += static_cast<std::uint64_t>(std::accumulate(here.begin(), here.end(), std::int64_t{0}));
  }
  return losses;
}

// What the time of a sample is multiplied by, because messages between the clock's rank and its peer were lost; 0: it
// says nothing.
double correction(const Mode& mode, const VisitShape& visit, const RankNumbers& lost, std::size_t sample) {
  const int here = mode.pattern->clock_rank(visit.nranks), there = mirrored(here, visit.nranks);
  double sent = 0, gone = 0;
  for (const int rank : {here, there}) {
    const std::span<const std::int64_t> there_lost = of_rank(lost, rank);
    if (there_lost.empty()) continue;
    sent += static_cast<double>(visit.rounds * mode.pattern->arrivals(mode.part(rank, visit.nranks, visit.size_bytes)));
    gone += static_cast<double>(there_lost[sample]);
  }
  if (gone == 0) return 1;
  return mode.pattern->loss == Loss::thins && gone < sent ? sent / (sent - gone) : 0;
}

// A pattern without notes of its own wrote clock readings: before the first sample and after each, or, where it pauses,
// before and after each.
Samples from_clock(const Mode& mode, const VisitShape& visit, const Gathered& gathered) {
  const Pattern& pattern = *mode.pattern;
  const int clock_rank = pattern.clock_rank(visit.nranks);
  const std::vector<std::int64_t>& clock = gathered.notes[static_cast<std::size_t>(clock_rank)];
  const bool pauses = pattern.pauses(mode.part(clock_rank, visit.nranks, visit.size_bytes));
  Samples taken;
  taken.losses = losses_of(mode, visit, gathered.lost);
  taken.ns.reserve(visit.samples);
  for (std::size_t i = 0; i < visit.samples; ++i) {
    const std::size_t begin = pauses ? 2 * i : i;
    const auto ns = static_cast<double>(clock[begin + 1] - clock[begin]);
    const double times = taken.losses.lost > 0 ? correction(mode, visit, gathered.lost, i) : 1;
    if (times > 0) {
      taken.ns.push_back(ns * times);
    } else if (visit.calibrating) {
      taken.ns.push_back(ns);  // how long it takes has to be found out with losses as well
    }
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

// By cell, of each sample.
using CellValues = std::vector<std::vector<float>>;

// How often each cell was the slowest, from the sample `first` on.
std::vector<std::uint32_t> count_slowest(const CellValues& cells, std::size_t first, std::size_t samples) {
  std::vector<std::uint32_t> slowest(cells.size(), 0);
  if (cells.empty()) return slowest;
  for (std::size_t i = first; i < samples; ++i) {
    const auto faster = [i](const std::vector<float>& a, const std::vector<float>& b) { return a[i] < b[i]; };
    ++slowest[static_cast<std::size_t>(std::max_element(cells.begin(), cells.end(), faster) - cells.begin())];
  }
  return slowest;
}

}  // namespace

Samples take_samples(const Mode& mode, const VisitShape& visit, const Gathered& gathered) {
  const Pattern& pattern = *mode.pattern;
  if (pattern.evaluate == nullptr) return from_clock(mode, visit, gathered);
  const RankNumbers& notes = gathered.notes;
  const int clock_rank = pattern.clock_rank(visit.nranks);
  const Part part = mode.part(pattern.every_rank ? 0 : clock_rank, visit.nranks, visit.size_bytes);
  const double operations = static_cast<double>(visit.rounds) * pattern.operations(part);
  Samples taken;
  std::vector<double> measures(pattern.measures.size());
  std::vector<double> cells(pattern.cells(part));
  CellValues by_cell(cells.size());
  std::vector<std::vector<double>> events(visit.samples);
  std::vector<float> values;
  taken.beside.measures.resize(measures.size());
  for (std::size_t i = 0; i < visit.samples; ++i) {
    const std::vector<std::span<const std::int64_t>> of_sample = notes_of_sample(notes, i, visit.samples);
    Reading reading;
    reading.measures = measures;
    reading.cells = cells;
    reading.events = &events[i];
    pattern.evaluate(part, visit.rounds, of_sample, reading);
    taken.ns.push_back(reading.ns);
    taken.span_ns += reading.span_ns > 0 ? reading.span_ns : reading.ns;
    values.push_back(static_cast<float>(reading.ns / operations));
    for (std::size_t m = 0; m < measures.size(); ++m) {
      taken.beside.measures[m].push_back(static_cast<float>(measures[m]));
    }
    for (std::size_t c = 0; c < cells.size(); ++c) by_cell[c].push_back(static_cast<float>(cells[c] / operations));
  }
  // What is dropped as warm-up is dropped with everything that it says.
  const std::size_t warm = visit.calibrating ? 0 : warmup_samples(values);
  taken.beside.slowest = count_slowest(by_cell, warm, visit.samples);
  for (std::size_t i = warm; i < visit.samples; ++i) {
    for (const double ns : events[i]) taken.beside.events.add(ns);
  }
  for (std::vector<float>& of_cell : by_cell) {
    of_cell.erase(of_cell.begin(), of_cell.begin() + static_cast<std::ptrdiff_t>(warm));
    std::sort(of_cell.begin(), of_cell.end());
    taken.beside.cells.push_back(static_cast<float>(quantile(of_cell, 0.5)));
  }
  return taken;
}

}  // namespace netpipe
