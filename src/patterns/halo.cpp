// SPDX-License-Identifier: Apache-2.0
// Every rank exchanges faces with its neighbours in a grid of 2 or 3 dimensions that is closed in each, all at once, as
// a simulation does between two steps; neighbours.h says how, and what is timed. A face has size_bytes, and those of a
// rank lie, and start, in places of their own.
//
// The grid is as near to a square, or a cube, as the number of ranks allows, its longest dimension first, as
// MPI_Dims_create does; neighbours in the last dimension have consecutive ranks.
#include "patterns/kit/neighbours.h"

namespace netpipe::patterns {
namespace {

enum Option { dims };
constexpr std::array<np_option, 1> options{{
    {"dims", NP_CHOICE, "2", 0, 0, "2|3", "dimensions", "dimensions of the grid of all ranks", 0},
}};
std::size_t dimensions(const Part& part) { return part.options[dims].number == 0 ? 2 : 3; }

using Extents = std::array<int, 3>;

// The largest divisor of n whose power does not exceed it.
int root_divisor(int n, std::size_t power) {
  int best = 1;
  for (int d = 1; d <= n; ++d) {
    std::int64_t product = 1;
    for (std::size_t i = 0; i < power; ++i) product *= d;
    if (product > n) break;
    if (n % d == 0) best = d;
  }
  return best;
}

// Longest first; the dimensions that are not asked for, and those that the ranks do not fill, have an extent of 1.
Extents grid(int nranks, std::size_t count) {
  Extents extents{1, 1, 1};
  for (std::size_t d = count; d-- > 0;) {
    extents[d] = root_divisor(nranks, d + 1);
    nranks /= extents[d];
  }
  std::sort(extents.begin(), extents.end(), std::greater<>());
  return extents;
}

neighbours::Neighbours faces(const Part& part) {
  const std::size_t count = dimensions(part);
  const Extents extents = grid(part.nranks, count);
  neighbours::Neighbours all{};
  int stride = 1;  // between neighbours in this dimension
  for (std::size_t d = count; d-- > 0; stride *= extents[d]) {
    const int at = part.rank / stride % extents[d], rest = part.rank - at * stride;
    add_both(all, rest + (at + extents[d] - 1) % extents[d] * stride, rest + (at + 1) % extents[d] * stride);
  }
  return all;
}

std::string unfit(const Part& part, const Layer&) {
  const std::size_t count = dimensions(part);
  if (grid(part.nranks, count)[count - 1] > 1) return {};
  return "needs a number of ranks that makes a grid of " + std::to_string(count) + " dimensions, as " +
         (count == 2 ? "4, 6 or 9" : "8, 12 or 18") + "; there are " + std::to_string(part.nranks);
}

constexpr Pattern with_options() {
  Pattern p = neighbours::pattern<faces>(
      "halo", "every rank exchanges faces with its neighbours in a grid; the slowest rank counts",
      "time of one operation = first start to the end of the slowest rank, per round; throughput = 2 x dims x "
      "size_bytes x ranks / that time",
      "MPI 4.0, chapter 8 (MPI_Dims_create and Cartesian neighbours)", 4, true);
  p.options = options;
  p.unfit = unfit;
  return p;
}

}  // namespace

extern const Pattern halo;
const Pattern halo = with_options();

}  // namespace netpipe::patterns
