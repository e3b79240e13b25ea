// SPDX-License-Identifier: Apache-2.0
// Who is whose neighbour in a grid of all ranks, for halo and for collective operations of neighbours, and in a graph,
// for these; and what ring, exchange and halo have in common: every rank sends to some ranks and receives from as many,
// all at once.
//
//     time of one operation = from the first start of any rank until the slowest has sent and received, per round
//     throughput = size_bytes x messages of a rank x ranks / that time: of all ranks together
//
// The receives are posted before the sends, and all are waited for together, so that no circle of ranks waits for
// itself. The j-th receive of a rank is the j-th send of the rank that it comes from. So where two neighbours are the
// same rank, as in a ring of two, messages find the receive that was posted for them: between two ranks they arrive in
// order.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "patterns/kit/together.h"

// A grid of all ranks, closed in each dimension, as near to a square, or a cube, as their number allows, its longest
// dimension first, as MPI_Dims_create does; neighbours in the last dimension have consecutive ranks.
namespace netpipe::patterns::grid {

using Extents = std::array<int, 3>;

// The largest divisor of n whose power does not exceed it.
inline int root_divisor(int n, std::size_t power) {
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
inline Extents extents(int nranks, std::size_t dimensions) {
  Extents all{1, 1, 1};
  for (std::size_t d = dimensions; d-- > 0;) {
    all[d] = root_divisor(nranks, d + 1);
    nranks /= all[d];
  }
  std::sort(all.begin(), all.end(), std::greater<>());
  return all;
}

// In each dimension, the first one first: the rank below, and the rank above. So MPI numbers Cartesian neighbours.
inline std::vector<int> neighbours(int rank, int nranks, std::size_t dimensions) {
  const Extents all = extents(nranks, dimensions);
  std::vector<int> found(2 * dimensions);
  int stride = 1;  // between neighbours in this dimension
  for (std::size_t d = dimensions; d-- > 0; stride *= all[d]) {
    const int at = rank / stride % all[d];
    const int rest = rank - at * stride;
    found[2 * d] = rest + (at + all[d] - 1) % all[d] * stride;
    found[2 * d + 1] = rest + (at + 1) % all[d] * stride;
  }
  return found;
}

// Why there is no such grid, as the end of a sentence; "": there is.
inline std::string lack(int nranks, std::size_t dimensions) {
  if (dimensions == 1 || extents(nranks, dimensions)[dimensions - 1] > 1) return {};
  return "needs a number of ranks that makes a grid of " + std::to_string(dimensions) + " dimensions, as " +
         (dimensions == 2 ? "4, 6 or 9" : "8, 12 or 18") + "; there are " + std::to_string(nranks);
}

}  // namespace netpipe::patterns::grid

// The graph that NP_GRAPH (module.h) describes: rank r sends to r + 1, r - 1, r + 2, r - 2 and so on, and receives from
// r - 1, r + 1, r - 2, r + 2 and so on. Every number of ranks above the degree has it. With an even degree the ranks
// that a rank sends to are those that it receives from; with degree 1 it is a ring in one direction.
namespace netpipe::patterns::graph {

// The j-th rank that this one sends to; the one that it receives from lies as far on the other side.
inline int end_of(int rank, int nranks, std::size_t j, bool receives) {
  const auto far = static_cast<int>(j / 2) + 1;
  const bool above = (j % 2 == 0) != receives;
  return ((above ? rank + far : rank - far) % nranks + nranks) % nranks;
}

inline std::vector<int> neighbours(int rank, int nranks, std::size_t degree, bool receives) {
  std::vector<int> found;
  for (std::size_t j = 0; j < degree; ++j) found.push_back(end_of(rank, nranks, j, receives));
  return found;
}

// Why there is no such graph, as grid::lack says it.
inline std::string lack(int nranks, std::size_t degree) {
  if (degree < static_cast<std::size_t>(nranks)) return {};
  return "needs more than " + std::to_string(degree) + " ranks, because a rank has " + std::to_string(degree) +
         " different neighbours; there are " + std::to_string(nranks);
}

}  // namespace netpipe::patterns::graph

namespace netpipe::patterns::neighbours {

inline constexpr std::size_t most = 6;  // of a rank in three dimensions

// Of one rank: how many, and the ranks that the j-th message comes from and goes to.
struct Neighbours {
  std::size_t count;
  std::array<int, most> from, to;
};
using Find = Neighbours (*)(const Part& part);

// Adds those of one dimension: the rank below and the rank above.
inline void add_both(Neighbours& all, int below, int above) {
  for (const auto& [from, to] : {std::pair(below, above), std::pair(above, below)}) {
    all.from[all.count] = from;
    all.to[all.count++] = to;
  }
}

inline np_status swap_once(const Layer& m, np_endpoint* endpoint, const Neighbours& with, Slots& outgoing,
                           Slots& incoming, std::size_t bytes, np_request* requests) {
  np_status status = NP_OK;
  for (std::size_t j = 0; j < with.count && status == NP_OK; ++j) {
    status = m.irecv(endpoint, with.from[j], incoming.take(), 0, bytes, &requests[j], 1);
  }
  for (std::size_t j = 0; j < with.count && status == NP_OK; ++j) {
    status = m.isend(endpoint, with.to[j], outgoing.take(), 0, bytes, &requests[with.count + j], 1);
  }
  return status == NP_OK ? m.wait(endpoint, requests, 2 * with.count) : status;
}

// All rounds; `once` is what a rank does in one of them, with the next places of what it sends and receives.
template <typename Once>
np_status run_each(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to, Once once) {
  return together::run(s, samples, rounds, to, together::notes, true, [&](std::uint64_t times) {
    Slots outgoing = s.outgoing, incoming = s.incoming;  // in registers
    np_status status = NP_OK;
    for (std::uint64_t i = 0; i < times && status == NP_OK; ++i) status = once(outgoing, incoming);
    s.outgoing = outgoing;
    s.incoming = incoming;
    return status;
  });
}

template <Find find>
np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  const Neighbours with = find(s);
  return run_each(s, samples, rounds, to, [&](Slots& outgoing, Slots& incoming) {
    return swap_once(s.module, s.endpoint, with, outgoing, incoming, s.size_bytes, s.requests);
  });
}

inline void evaluate(const Part& part, std::uint64_t rounds, Notes of, Reading& reading) {
  together::evaluate(static_cast<std::size_t>(part.nranks), static_cast<double>(rounds), of, reading);
}

// A pattern of which only the neighbours differ. starts: from how many places the messages of a rank start.
template <Find find>
constexpr Pattern pattern(const char* name, const char* summary, const char* formula, const char* source,
                          std::int32_t min_ranks, bool starts_apart) {
  Pattern p{};
  p.name = name;
  p.summary = summary;
  p.formula = formula;
  p.source = source;
  p.operations = [](const Part&) { return 1U; };
  p.messages_per_operation = [](const Part& part) {
    return static_cast<std::uint32_t>(find(part).count) * static_cast<std::uint32_t>(part.nranks);
  };
  p.extra_rounds = [](const Part&) { return 1U; };
  p.arrivals = p.departures =
      p.in_flight = [](const Part& part) { return static_cast<std::uint32_t>(find(part).count); };
  p.origin = [](const Part& part, std::uint64_t i) {
    const Neighbours with = find(part);
    return Origin{with.from[i % with.count], i};
  };
  if (starts_apart) p.starts = p.in_flight;
  p.requests = [](const Part& part, std::uint64_t) { return std::uint64_t{2 * find(part).count}; };
  p.fewest_rounds = [](const Part& part) { return together::fewest_rounds(part, find(part).count); };
  p.single_rounds = true;
  p.notes = [](const Part&, std::uint64_t) { return std::uint64_t{together::notes}; };
  p.every_rank = true;
  p.synchronised = true;
  p.evaluate = evaluate;
  p.measures = together::measures;
  p.cells = [](const Part& part) { return static_cast<std::uint32_t>(part.nranks); };
  p.min_ranks = min_ranks;
  p.max_ranks = INT32_MAX;
  p.missing = without_requests;
  p.run = run<find>;
  return p;
}

}  // namespace netpipe::patterns::neighbours
