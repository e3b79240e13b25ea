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

neighbours::Neighbours faces(const Part& part) {
  neighbours::Neighbours all{};
  const std::vector<int> found = grid::neighbours(part.rank, part.nranks, dimensions(part));
  for (std::size_t d = dimensions(part); d-- > 0;) add_both(all, found[2 * d], found[2 * d + 1]);
  return all;
}

std::string unfit(const Part& part, const Layer&) { return grid::lack(part.nranks, dimensions(part)); }

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
