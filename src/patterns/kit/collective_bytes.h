// SPDX-License-Identifier: Apache-2.0
// What a collective operation moves: which ranks contribute which bytes or numbers, where they lie, and whether the
// right ones have arrived. For the patterns that carry one out.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "patterns/kit/pattern.h"
#include "patterns/kit/prepared.h"

namespace netpipe::patterns::collectives {

// The options that such a pattern has, in this order; `own` is one of its own.
enum Option { what, own, root, rotate, datatype, reduction, in_place, counts, dims, topology, degree, stride, options };
constexpr const char* names =  // of np_collective, in its order
    "bcast|reduce|allreduce|gather|allgather|scatter|reduce_scatter|reduce_scatter_block|alltoall|scan|exscan|gatherv|"
    "scatterv|allgatherv|alltoallv|alltoallw|neighbor_allgather|neighbor_alltoall|barrier|alltoalls|"
    "neighbor_allgatherv|neighbor_alltoallv|neighbor_alltoallw";
constexpr std::int64_t most_degree = NP_GRAPH - 1;
constexpr const char* default_stride = "2";
constexpr std::array<np_option, options> options_with(const np_option& of_pattern) {
  return {{
      {"what", NP_CHOICE, "allreduce", 0, 0, names, "", "which operation", 0},
      of_pattern,
      {"root", NP_INT, "0", 0, 1 << 20, nullptr, "", "the rank that sends, or receives, for all", 1},
      {"rotate", NP_BOOL, "no", 0, 1, nullptr, "", "each operation has the next rank as its root", 1},
      {"datatype", NP_CHOICE, "double", 0, 0, "double|float|int64|int32", "",
       "of a reduction: what is reduced; of alltoalls: what is moved", 0},
      {"reduction", NP_CHOICE, "sum", 0, 0, "sum|min|max|prod|and|or|xor", "",
       "of a reduction: what becomes of it; and, or and xor are bitwise, of int64 and int32", 0},
      {"in_place", NP_BOOL, "no", 0, 1, nullptr, "",
       "what a rank contributes already lies where its result will (MPI_IN_PLACE); of operations with a root at the "
       "root",
       1},
      {"counts", NP_CHOICE, "even", 0, 0, "even|linear|last", "",
       "of operations with v or w, and of reduce_scatter: every rank has size_bytes, or from nothing for rank 0 up to "
       "twice that for the last, or the last rank has what all have together",
       0},
      {"dims", NP_CHOICE, "1", 0, 0, "1|2|3", "dimensions",
       "of neighbours: in a ring, or in a closed grid of all ranks", 0},
      {"topology", NP_CHOICE, "grid", 0, 0, "grid|graph", "",
       "of neighbours: those of the grid that dims describes, or of a graph: rank r sends to r+1, r-1, r+2, r-2 and so "
       "on, and receives from r-1, r+1, r-2, r+2 and so on",
       0},
      {"degree", NP_INT, "0", 0, most_degree, nullptr, "ranks",
       "of topology=graph: how many ranks each rank sends to, and receives from; 0: 2, of two ranks 1", 0},
      {"stride", NP_INT, default_stride, 1, 4096, nullptr, "elements",
       "of alltoalls: from the beginning of an element to that of the next, in source and target", 1},
  }};
}

np_collective operation(const Part& part);
bool rotates(const Part& part);
// Neighbours that each rank sends to in a graph; NaN: it has none, or they are those of a grid.
double degree_of_graph(const Part& part);
// Of the i-th operation.
int root_of(const Part& part, std::uint64_t i);

// For a pattern's own functions of these names.
std::string unfit(const Part& part, const Layer& module);
const char* missing(const Layer& module, int nranks);
std::uint64_t unit_bytes(const Part& part);
bool sizeless(const Part& part);
std::uint64_t place_bytes(const Part& part);
void fill(const Part& part, std::uint64_t seed, std::uint64_t i, char* out, char* in);
std::string check(const Part& part, std::uint64_t seed, std::uint64_t i, const char* in);

// What preparing came to, with a sentence unless the module has left one.
np_status prepared(const Stage& s, const Prepared& operation, const char* name);

// The operation of a stage, prepared once for each root that has a turn.
class Operations {
 public:
  Operations(const Stage& s, bool with_request);
  [[nodiscard]] np_status status(const Stage& s) const;
  // That of the i-th round.
  [[nodiscard]] const Prepared& at(std::uint64_t i) const { return *all_[i % all_.size()]; }

 private:
  std::vector<std::uint64_t> counts_, extents_;  // by rank, and of a grid by dimension; as long as the operations
  std::vector<std::unique_ptr<const Prepared>> all_;
};

}  // namespace netpipe::patterns::collectives
