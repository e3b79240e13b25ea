// SPDX-License-Identifier: Apache-2.0
// What the ranks noted in a visit, made into samples. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "catalog/variant.h"
#include "sampling/sampler.h"
#include "sampling/statistics.h"
#include "worker/workers/workers.h"

namespace netpipe {

struct VisitShape {
  int nranks = 1;
  std::uint64_t size_bytes = 0;
  std::uint64_t samples = 0;
  std::uint64_t rounds = 0;  // of one sample
  bool calibrating = false;  // the speed of the point is being found out, so nothing is dropped as warm-up
};

struct Samples {
  std::vector<double> ns;  // of all operations of a sample together, without samples that lost messages spoiled
  double span_ns = 0;      // of the whole visit; 0: the sum of ns
  Beside beside;
  Losses losses;                        // of all ranks; no messages: nothing can be lost
  std::vector<Losses> losses_of_ranks;  // by rank, where several receive in one measurement
};

// gathered.notes: by rank, as many numbers as notes_of says. Where a pattern for two ranks has more of them, each pair
// is evaluated as if it were alone; the slowest pair is the time of a sample, and each is a cell.
Samples take_samples(const ChosenPattern& chosen, const VisitShape& visit, const Gathered& gathered);

}  // namespace netpipe
