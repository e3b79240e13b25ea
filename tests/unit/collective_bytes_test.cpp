// SPDX-License-Identifier: Apache-2.0
// What the patterns of collectives fill in and what they let pass: the operation between is carried out here, by what
// module.h says of it, once rightly and then with one mistake at a time.
#include "patterns/kit/collective_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "catalog/variant.h"

namespace netpipe {
namespace {

constexpr std::uint64_t seed = 11;

Mode mode_of(const std::string& text) {
  Result<Mode> mode = parse_mode(text);
  EXPECT_TRUE(mode) << text;
  return std::move(*mode);
}

// The places of all ranks for one operation.
struct Ranks {
  Mode mode;
  int nranks;
  std::uint64_t size_bytes;
  std::vector<std::vector<char>> out, in;

  Ranks(const std::string& text, int count, std::uint64_t bytes)
      : mode(mode_of(text)), nranks(count), size_bytes(bytes) {
    for (int rank = 0; rank < nranks; ++rank) {
      const Part here = part(rank);
      out.emplace_back(mode.pattern->place_bytes(here));
      in.emplace_back(mode.pattern->place_bytes(here));
      mode.pattern->fill(here, seed, 0, out.back().data(), in.back().data());
    }
  }
  [[nodiscard]] Part part(int rank) const { return mode.part(rank, nranks, size_bytes); }
  char* source(int rank, std::uint64_t at) { return &out[static_cast<std::size_t>(rank)][at]; }
  char* target(int rank, std::uint64_t at) { return &in[static_cast<std::size_t>(rank)][at]; }
  // Of the first rank that is not content.
  [[nodiscard]] std::string fault() const {
    for (int rank = 0; rank < nranks; ++rank) {
      std::string what = mode.pattern->check(part(rank), seed, 0, in[static_cast<std::size_t>(rank)].data());
      if (!what.empty()) return "rank " + std::to_string(rank) + ": " + what;
    }
    return {};
  }
};

// NP_GRAPH: the j-th rank that this one sends to.
int end_of(int rank, int nranks, int j) {
  const int steps = j % 2 == 0 ? j / 2 + 1 : -(j / 2 + 1);
  return (rank + steps + nranks) % nranks;
}

// Block j goes to the j-th rank, whose j-th block it becomes.
void over_graph(Ranks& ranks, int degree, bool to_each) {
  const std::uint64_t bytes = ranks.size_bytes;
  for (int rank = 0; rank < ranks.nranks; ++rank) {
    for (int j = 0; j < degree; ++j) {
      const auto at = static_cast<std::uint64_t>(j) * bytes;
      std::memcpy(ranks.target(end_of(rank, ranks.nranks, j), at), ranks.source(rank, to_each ? at : 0), bytes);
    }
  }
}

TEST(NeighbourGraph, EveryBlockIsToldFromEveryOther) {
  for (const bool to_each : {false, true}) {
    const std::string what = std::string("collective:what=neighbor_") + (to_each ? "alltoall" : "allgather");
    for (int nranks = 2; nranks <= 7; ++nranks) {
      for (int degree = 1; degree < nranks; ++degree) {
        const std::string text = what + ",topology=graph,degree=" + std::to_string(degree);
        Ranks ranks(text, nranks, 24);
        EXPECT_EQ(ranks.part(0).size_bytes * static_cast<std::uint64_t>(degree), ranks.out[0].size()) << text;
        EXPECT_NE(ranks.fault(), "") << text << ": nothing has moved yet";
        over_graph(ranks, degree, to_each);
        EXPECT_EQ(ranks.fault(), "") << text << " on " << nranks;
        if (degree < 2) continue;
        std::swap_ranges(ranks.target(0, 0), ranks.target(0, 24), ranks.target(0, 24));
        EXPECT_NE(ranks.fault(), "") << text << ": two blocks have changed places";
      }
    }
  }
}

TEST(NeighbourGraph, HasTwoNeighboursUnlessADegreeSaysMore) {
  const auto degree = [](const std::string& text, int nranks) {
    const Mode mode = mode_of(text);
    return patterns::collectives::degree_of_graph(mode.part(0, nranks, 8));
  };
  const std::string graph = "collective:what=neighbor_allgather,topology=graph";
  EXPECT_EQ(degree(graph, 2), 1);
  EXPECT_EQ(degree(graph, 3), 2);
  EXPECT_EQ(degree(graph, 9), 2);
  EXPECT_EQ(degree(graph + ",degree=5", 9), 5);
  EXPECT_TRUE(std::isnan(degree("collective:what=neighbor_allgather", 9)));
  EXPECT_TRUE(std::isnan(degree("collective", 9)));
}

TEST(NeighbourGraph, IsRefusedWhereItWouldNotBeInForce) {
  Layer layer;
  layer.name = "some";
  const auto reason = [&](const std::string& text, int nranks) {
    const Mode mode = mode_of(text);
    return mode.pattern->unfit(mode.part(0, nranks, 0), layer);
  };
  const std::string of_neighbours = "collective:what=neighbor_alltoall,";
  EXPECT_EQ(reason(of_neighbours + "topology=graph,degree=3", 4), "");
  EXPECT_EQ(reason(of_neighbours + "topology=graph,degree=4", 4),
            "needs more than 4 ranks, because a rank has 4 different neighbours; there are 4");
  EXPECT_EQ(reason(of_neighbours + "degree=2", 4), "has the neighbours of a grid: degree is for topology=graph");
  EXPECT_EQ(reason(of_neighbours + "topology=graph,dims=2", 4),
            "has the neighbours of a graph: dims is for topology=grid");
  EXPECT_EQ(reason("collective:topology=graph", 4),
            "has no neighbours: dims, topology and degree are for neighbor_allgather and neighbor_alltoall");
}

}  // namespace
}  // namespace netpipe
