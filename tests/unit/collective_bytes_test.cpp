// SPDX-License-Identifier: Apache-2.0
// What the patterns of collectives fill in and what they let pass: the operation between is carried out here, by what
// module.h says of it, once rightly and then with one mistake at a time.
#include "patterns/kit/collective_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "catalog/variant.h"

namespace netpipe {
namespace {

constexpr std::uint64_t seed = 11;

ChosenPattern chosen_of(const std::string& text) {
  Result<ChosenPattern> chosen = parse_pattern(text);
  EXPECT_TRUE(chosen) << text;
  return std::move(*chosen);
}

// The places of all ranks for one operation.
struct Ranks {
  ChosenPattern chosen;
  int nranks;
  std::uint64_t size_bytes;
  std::vector<std::vector<char>> out, in;

  Ranks(const std::string& text, int count, std::uint64_t bytes)
      : chosen(chosen_of(text)), nranks(count), size_bytes(bytes) {
    for (int rank = 0; rank < nranks; ++rank) {
      const Part here = part(rank);
      out.emplace_back(chosen.pattern->place_bytes(here));
      in.emplace_back(chosen.pattern->place_bytes(here));
      chosen.pattern->fill(here, seed, 0, out.back().data(), in.back().data());
    }
  }
  [[nodiscard]] Part part(int rank) const { return chosen.part(rank, nranks, size_bytes); }
  char* source(int rank, std::uint64_t at) { return &out[static_cast<std::size_t>(rank)][at]; }
  char* target(int rank, std::uint64_t at) { return &in[static_cast<std::size_t>(rank)][at]; }
  // Of the first rank that is not content.
  [[nodiscard]] std::string fault() const {
    for (int rank = 0; rank < nranks; ++rank) {
      std::string what = chosen.pattern->check(part(rank), seed, 0, in[static_cast<std::size_t>(rank)].data());
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

// A rank has as many bytes for each of those that it sends to, and blocks lie one behind another on both sides.
using Counts = std::vector<std::uint64_t>;
void over_graph(Ranks& ranks, int degree, bool to_each, const Counts& counts) {
  for (int rank = 0; rank < ranks.nranks; ++rank) {
    std::uint64_t at = 0;
    for (int j = 0; j < degree; ++j) {
      const int from = (2 * rank - end_of(rank, ranks.nranks, j) + ranks.nranks) % ranks.nranks;
      const std::uint64_t bytes = counts[static_cast<std::size_t>(from)];
      const std::uint64_t start = to_each ? static_cast<std::uint64_t>(j) * bytes : 0;
      std::memcpy(ranks.target(rank, at), ranks.source(from, start), bytes);
      at += bytes;
    }
  }
}
// The same in a ring: from the rank below, whose second block it is, and then from the one above.
void over_ring(Ranks& ranks, bool to_each, const Counts& counts) {
  for (int rank = 0; rank < ranks.nranks; ++rank) {
    std::uint64_t at = 0;
    for (const int side : {-1, 1}) {
      const int from = (rank + side + ranks.nranks) % ranks.nranks;
      const std::uint64_t bytes = counts[static_cast<std::size_t>(from)];
      std::memcpy(ranks.target(rank, at), ranks.source(from, to_each && side < 0 ? bytes : 0), bytes);
      at += bytes;
    }
  }
}

TEST(NeighboursWithCounts, EachGetsAsManyBytesAsItsNeighbourHas) {
  const std::vector<std::pair<std::string, Counts>> distributions = {
      {"even", {24, 24, 24, 24}}, {"linear", {0, 16, 32, 48}}, {"last", {0, 0, 0, 96}}};
  for (const char* operation : {"allgatherv", "alltoallv", "alltoallw"}) {
    const bool to_each = std::string(operation) != "allgatherv";
    for (const auto& [name, counts] : distributions) {
      const std::string what = std::string("collective:what=neighbor_") + operation + ",counts=" + name;
      for (int degree = 1; degree < 4; ++degree) {
        const std::string text = what + ",topology=graph,degree=" + std::to_string(degree);
        Ranks ranks(text, 4, 24);
        EXPECT_NE(ranks.fault(), "") << text << ": nothing has moved yet";
        over_graph(ranks, degree, to_each, counts);
        EXPECT_EQ(ranks.fault(), "") << text;
      }
      Ranks ranks(what, 4, 24);
      over_ring(ranks, to_each, counts);
      EXPECT_EQ(ranks.fault(), "") << what;
      *ranks.target(0, 5) = static_cast<char>(~*ranks.target(0, 5));  // of what the last rank contributed
      EXPECT_NE(ranks.fault().find("rank 0: has a wrong byte 5 in what rank 3"), std::string::npos) << ranks.fault();
    }
  }
}

TEST(NeighbourGraph, HasTwoNeighboursUnlessADegreeSaysMore) {
  const auto degree = [](const std::string& text, int nranks) {
    const ChosenPattern chosen = chosen_of(text);
    return patterns::collectives::degree_of_graph(chosen.part(0, nranks, 8));
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
    const ChosenPattern chosen = chosen_of(text);
    return chosen.pattern->unfit(chosen.part(0, nranks, 0), layer);
  };
  const std::string of_neighbours = "collective:what=neighbor_alltoall,";
  EXPECT_EQ(reason(of_neighbours + "topology=graph,degree=3", 4), "");
  EXPECT_EQ(reason(of_neighbours + "topology=graph,degree=4", 4),
            "needs more than 4 ranks, because a rank has 4 different neighbours; there are 4");
  EXPECT_EQ(reason(of_neighbours + "degree=2", 4), "has the neighbours of a grid: degree is for topology=graph");
  EXPECT_EQ(reason(of_neighbours + "topology=graph,dims=2", 4),
            "has the neighbours of a graph: dims is for topology=grid");
  EXPECT_EQ(reason("collective:topology=graph", 4),
            "has no neighbours: dims, topology and degree are for the operations whose names begin with neighbor_");
}

// Element k of the block for rank r, or from it, is number (r * count + k) * stride.
void all_to_all_apart(Ranks& ranks, std::uint64_t element, std::uint64_t stride) {
  const std::uint64_t count = ranks.size_bytes / element;
  for (int from = 0; from < ranks.nranks; ++from) {
    for (int to = 0; to < ranks.nranks; ++to) {
      for (std::uint64_t k = 0; k < count; ++k) {
        const auto place = [&](int rank) { return (static_cast<std::uint64_t>(rank) * count + k) * stride * element; };
        std::memcpy(ranks.target(to, place(from)), ranks.source(from, place(to)), element);
      }
    }
  }
}

TEST(AllToAllStrided, ElementsLieApartAndNothingIsWrittenBetweenThem) {
  const std::vector<std::pair<std::string, std::uint64_t>> types = {{"", 8}, {",datatype=int32", 4}};
  for (const auto& [type, element] : types) {
    for (const std::uint64_t stride : {1, 2, 5}) {
      const std::string text = "collective:what=alltoalls,stride=" + std::to_string(stride) + type;
      Ranks ranks(text, 3, 24);
      EXPECT_EQ(ranks.chosen.pattern->unit_bytes(ranks.part(0)), element) << text;
      EXPECT_EQ(ranks.out[0].size(), 3 * 24 * stride) << text;
      all_to_all_apart(ranks, element, stride);
      EXPECT_EQ(ranks.fault(), "") << text;
      std::swap_ranges(ranks.target(1, 0), ranks.target(1, element), ranks.target(1, stride * element));
      EXPECT_NE(ranks.fault().find("wrong byte"), std::string::npos) << text << ": " << ranks.fault();
      std::swap_ranges(ranks.target(1, 0), ranks.target(1, element), ranks.target(1, stride * element));
      if (stride == 1) continue;
      *ranks.target(2, element) = static_cast<char>(~*ranks.target(2, element));
      EXPECT_EQ(ranks.fault(), "rank 2: has bytes between its elements that should not have been written") << text;
    }
  }
}

TEST(AllToAllStrided, IsRefusedWhereItWouldNotBeInForce) {
  Layer layer;
  layer.name = "some";
  const auto reason = [&](const std::string& text) {
    const ChosenPattern chosen = chosen_of(text);
    return chosen.pattern->unfit(chosen.part(0, 3, 0), layer);
  };
  EXPECT_EQ(reason("collective:what=alltoalls,datatype=int32,stride=3"), "");
  EXPECT_EQ(reason("collective:what=alltoall,stride=3"), "moves contiguous bytes: stride is for alltoalls");
  EXPECT_NE(reason("collective:what=alltoalls,reduction=max").find("reduces nothing"), std::string::npos);
  EXPECT_NE(reason("collective:what=alltoalls,in_place=yes").find("has nothing to be in place"), std::string::npos);
}

using Bits = std::function<std::int64_t(std::int64_t, std::int64_t)>;

// The result of all ranks but `without`, in the target of every rank.
void reduce_all(Ranks& ranks, const Bits& bits, int without) {
  for (std::uint64_t at = 0; at < ranks.size_bytes; at += sizeof(std::int64_t)) {
    bool begun = false;
    std::int64_t result = 0;
    for (int rank = 0; rank < ranks.nranks; ++rank) {
      if (rank == without) continue;
      std::int64_t own = 0;
      std::memcpy(&own, ranks.source(rank, at), sizeof own);
      result = begun ? bits(result, own) : own;
      begun = true;
    }
    for (int rank = 0; rank < ranks.nranks; ++rank) std::memcpy(ranks.target(rank, at), &result, sizeof result);
  }
}

TEST(BitwiseReductions, MissNoRank) {
  const std::vector<std::pair<std::string, Bits>> operations = {
      {"and", [](std::int64_t a, std::int64_t b) { return a & b; }},
      {"or", [](std::int64_t a, std::int64_t b) { return a | b; }},
      {"xor", [](std::int64_t a, std::int64_t b) { return a ^ b; }},
  };
  for (const auto& [name, bits] : operations) {
    Ranks ranks("collective:datatype=int64,reduction=" + name, 5, 256);
    reduce_all(ranks, bits, -1);
    EXPECT_EQ(ranks.fault(), "") << name;
    for (int without = 0; without < ranks.nranks; ++without) {
      reduce_all(ranks, bits, without);
      EXPECT_NE(ranks.fault().find("has a wrong " + name), std::string::npos) << name << " without " << without;
    }
  }
}

TEST(BitwiseReductions, AreOfWholeNumbers) {
  Layer layer;
  layer.name = "some";
  for (const char* text : {"collective:reduction=xor", "collective:datatype=float,reduction=and"}) {
    const ChosenPattern chosen = chosen_of(text);
    EXPECT_EQ(chosen.pattern->unfit(chosen.part(0, 3, 0), layer),
              "has a bitwise reduction: choose datatype=int64 or datatype=int32");
  }
}

}  // namespace
}  // namespace netpipe
