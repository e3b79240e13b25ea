// SPDX-License-Identifier: Apache-2.0
// Every rank sends to the rank on its right and receives from the one on its left, at once; neighbours.h says how, and
// what is timed. One message of each rank counts.
#include "patterns/kit/neighbours.h"

namespace netpipe::patterns {
namespace {

neighbours::Neighbours left_and_right(const Part& part) {
  return {1, {(part.rank + part.nranks - 1) % part.nranks}, {(part.rank + 1) % part.nranks}};
}

}  // namespace

extern const Pattern ring;
const Pattern ring = neighbours::pattern<left_and_right>(
    "ring", "every rank sends to the right and receives from the left; the slowest rank counts",
    "time of one operation = first start to the end of the slowest rank, per round; throughput = size_bytes x ranks / "
    "that time",
    "Intel MPI Benchmarks: Sendrecv (which counts two messages of one rank where all ranks' count here)", 2, false);

}  // namespace netpipe::patterns
