// SPDX-License-Identifier: Apache-2.0
// What patterns have in common in which all ranks do the same thing in a loop that they begin together.
//
//     time of a sample = from the first start of any rank to the end of the slowest
//
// How they begin at one moment: agreed_start.h, by sends and receives. A rank that takes no part in the timed
// operations (the target of atomic operations) agrees like all others and notes nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "patterns/kit/agreed_start.h"
#include "patterns/kit/pattern.h"

namespace netpipe::patterns::together {

// What each rank notes of a sample, in ns from the agreed moment on: when it began and when it ended, how its clock may
// differ, and how long all of it lasted, with the agreement. A pattern may note more behind these.
enum Note : std::size_t { began, ended, clock_error, whole, notes };

inline constexpr std::array<Measure, 4> measures{{
    {"imbalance", "1", "time of the slowest rank over that of the median rank"},
    {"start_skew", "ns", "from the agreed start to the real start of the last rank", Worse::neither},
    {"clock_error", "ns", "how far the clocks of the ranks may be apart", Worse::neither},
    {"rank_mean", "ns", "mean over the ranks of their own times of one operation"},
}};

// work(times): so many rounds of this rank, or nullptr where it only agrees. each: numbers noted per sample. One round
// before the first sample: the first message between two ranks may make their connection.
template <typename Work>
np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to, std::uint64_t each,
              bool takes_part, Work work) {
  Start next;
  if (const np_status status = takes_part ? work(1) : NP_OK; status != NP_OK) return status;
  for (std::uint64_t sample = 0; sample < samples; ++sample, to += each) {
    const std::int64_t here = now_ns();
    np_status status = start_together(s, next, agreed_start::by_messages);
    if (status != NP_OK) return status;
    ++*s.progress;
    if (takes_part) status = work(rounds);
    const std::int64_t end = now_ns();
    if (status != NP_OK) return status;
    ++*s.progress;
    to[began] = next.begun - next.moment;
    to[ended] = end - next.moment;
    to[clock_error] = s.clock_error_ns;
    to[whole] = end - here;
  }
  return NP_OK;
}

// Of the ranks 0 to ranks - 1, which took part. operations: of one round.
inline void evaluate(std::size_t ranks, double operations, Notes of, Reading& reading) {
  std::int64_t first = INT64_MAX, last = INT64_MIN, skew = 0, error = 0;
  double sum = 0;
  std::vector<double> times(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::span<const std::int64_t> own = of[rank];
    first = std::min(first, own[began]);
    last = std::max(last, own[ended]);
    skew = std::max(skew, own[began]);
    error = std::max(error, own[clock_error]);
    times[rank] = static_cast<double>(own[ended] - own[began]);
    sum += times[rank];
    if (rank < reading.cells.size()) reading.cells[rank] = times[rank];
  }
  std::sort(times.begin(), times.end());
  const double median = times[(times.size() - 1) / 2];  // of two the faster one
  reading.ns = static_cast<double>(last - first);
  reading.span_ns = static_cast<double>(of[0][whole]);
  reading.measures[0] = median > 0 ? times.back() / median : 1;
  reading.measures[1] = static_cast<double>(skew);
  reading.measures[2] = static_cast<double>(error);
  reading.measures[3] = sum / (static_cast<double>(ranks) * operations);
}

// A short sample would be all start; a long one is bounded by what its messages take.
inline std::uint64_t fewest_rounds(const Part& part, std::uint64_t messages) {
  constexpr std::uint64_t enough_bytes = 256 << 10;
  return std::clamp<std::uint64_t>(enough_bytes / (std::max<std::uint64_t>(part.size_bytes, 1) * messages), 1, 8);
}

}  // namespace netpipe::patterns::together
