// SPDX-License-Identifier: Apache-2.0
// Every rank exchanges messages with both of its neighbours in a ring, all at once; neighbours.h says how, and what is
// timed. Two messages of each rank count.
#include "patterns/kit/neighbours.h"

namespace netpipe::patterns {
namespace {

neighbours::Neighbours both(const Part& part) {
  neighbours::Neighbours all{};
  add_both(all, (part.rank + part.nranks - 1) % part.nranks, (part.rank + 1) % part.nranks);
  return all;
}

}  // namespace

extern const Pattern exchange;
const Pattern exchange = neighbours::pattern<both>(
    "exchange", "every rank exchanges messages with both neighbours in a ring; the slowest rank counts",
    "time of one operation = first start to the end of the slowest rank, per round; throughput = 2 x size_bytes x "
    "ranks / that time",
    "Intel MPI Benchmarks: Exchange (which counts four messages of one rank where all ranks' count here)", 2, false);

}  // namespace netpipe::patterns
