// SPDX-License-Identifier: Apache-2.0
// All ranks in pairs that are drawn by lot for each visit of a size, begun at one moment: what a program meets that
// talks to anybody, and how unlike the pairs are.
//
//     time of one operation = from the first start to the end of the slowest pair, per message of a pair
//     throughput = size_bytes x pairs x directions / that time: of all pairs together
//     time of a pair = from the start of its first rank to the end of its last: how they are spread is in the measures
//
// The lots depend on the seed of the run and the number of the visit, so every run with the same seed meets the same
// pairs. traffic as in `pairs`.
#include <array>
#include <numeric>
#include <vector>

#include "patterns/kit/together.h"
#include "patterns/kit/verify.h"

namespace netpipe::patterns {
namespace {

enum Option { traffic };
constexpr std::array<np_option, 1> options{{
    {"traffic", NP_CHOICE, "pingpong", 0, 0, "pingpong|both", "", "in turn, or in both directions at once", 0},
}};

enum Note : std::size_t { partner = together::notes, notes };

constexpr std::array<Measure, 5> measures{{
    {"imbalance", "1", "time of the slowest pair over that of the median pair"},
    {"start_skew", "ns", "from the agreed start to the real start of the last rank", Worse::neither},
    {"clock_error", "ns", "how far the clocks of the ranks may be apart", Worse::neither},
    {"pair_median", "ns", "median over the pairs of their own times of one operation"},
    {"pair_fastest", "ns", "time of one operation of the fastest pair"},
}};

bool both(const Part& part) { return part.options[traffic].number != 0; }
std::uint32_t operations(const Part& part) { return both(part) ? 1 : 2; }

std::string unfit(const Part& part, const Layer& m) {
  if (both(part) && m.isend == nullptr) return "needs isend and irecv, which module " + std::string(m.name) + " lacks";
  return {};
}

// Whom a rank meets: all ranks shuffled (Fisher and Yates), and then the first with the second and so on.
int drawn_for(int rank, int nranks, std::uint64_t seed) {
  std::vector<int> order(static_cast<std::size_t>(nranks));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[message_seed(seed, left, 0, 0) % left]);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] == rank) return order[i ^ 1U];
  }
  return rank;
}

// ------------------------------------------------------------------------------------------------- what is timed

np_status bounce(Stage& s, int peer, std::uint64_t times) {
  const auto send = s.module.send;
  const auto recv = s.module.recv;
  np_endpoint* const endpoint = s.endpoint;
  const bool first = s.rank < peer;
  const std::size_t bytes = s.size_bytes;
  Slots outgoing = s.outgoing, incoming = s.incoming;
  np_status status = NP_OK;
  for (std::uint64_t i = 0; i < times && status == NP_OK; ++i) {
    const char* const out = outgoing.take();
    if (first) status = send(endpoint, peer, out, bytes);
    if (status == NP_OK) status = recv(endpoint, peer, incoming.take(), bytes);
    if (!first && status == NP_OK) status = send(endpoint, peer, out, bytes);
  }
  s.outgoing = outgoing;
  s.incoming = incoming;
  return status;
}

np_status swap(Stage& s, int peer, std::uint64_t times) {
  const Layer& m = s.module;
  Slots outgoing = s.outgoing, incoming = s.incoming;
  np_status status = NP_OK;
  for (std::uint64_t i = 0; i < times && status == NP_OK; ++i) {
    status = m.irecv(s.endpoint, peer, incoming.take(), 0, s.size_bytes, &s.requests[0], 1);
    if (status == NP_OK) status = m.isend(s.endpoint, peer, outgoing.take(), 0, s.size_bytes, &s.requests[1], 1);
    if (status == NP_OK) status = m.wait(s.endpoint, s.requests, 2);
  }
  s.outgoing = outgoing;
  s.incoming = incoming;
  return status;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  const int peer = drawn_for(s.rank, s.nranks, s.seed);
  for (std::uint64_t sample = 0; sample < samples; ++sample) to[sample * notes + partner] = peer;
  const auto meet = both(s) ? swap : bounce;
  return together::run(s, samples, rounds, to, notes, true, [&](std::uint64_t times) { return meet(s, peer, times); });
}

void evaluate(const Part& part, std::uint64_t rounds, Notes of, Reading& reading) {
  const auto ranks = static_cast<std::size_t>(part.nranks);
  const double own = static_cast<double>(rounds) * operations(part);
  together::evaluate(ranks, own, of, reading);
  std::vector<double> times;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto peer = static_cast<std::size_t>(of[rank][partner]);
    if (peer < rank || peer >= ranks) continue;
    const std::int64_t begin = std::min(of[rank][together::began], of[peer][together::began]);
    const std::int64_t end = std::max(of[rank][together::ended], of[peer][together::ended]);
    times.push_back(static_cast<double>(end - begin));
  }
  std::sort(times.begin(), times.end());
  const double median = times[(times.size() - 1) / 2];  // of two the faster one
  reading.measures[0] = median > 0 ? times.back() / median : 1;
  reading.measures[3] = median / own;
  reading.measures[4] = times.front() / own;
}

// ------------------------------------------------------------------------------------------------- verification

void fill_round(const Part& part, std::uint64_t seed, std::uint64_t i, char* out, char* in) {
  fill(out, part.size_bytes, message_seed(seed, i, part.rank, 0));
  spoil(in, part.size_bytes, message_seed(seed, i, drawn_for(part.rank, part.nranks, seed), 0));
}

std::string check_round(const Part& part, std::uint64_t seed, std::uint64_t i, const char* in) {
  const int peer = drawn_for(part.rank, part.nranks, seed);
  const auto wrong = first_difference(in, part.size_bytes, message_seed(seed, i, peer, 0));
  if (!wrong) return {};
  return "from rank " + std::to_string(peer) + " differs from what was sent, first at byte " + std::to_string(*wrong);
}

std::uint32_t one(const Part&) { return 1; }

}  // namespace

extern const Pattern random;
const Pattern random = {
    .name = "random",
    .summary = "pairs of ranks drawn by lot for each visit of a size; the slowest pair counts",
    .formula =
        "time of one operation = first start to the end of the slowest pair, per message of a pair; throughput = "
        "size_bytes x pairs x directions / that time",
    .source = "Rabenseifner and Koniges: The Effective Communication Benchmark b_eff (2001), its random patterns",
    .options = options,
    .operations = operations,
    .messages_per_operation =
        [](const Part& part) { return static_cast<std::uint32_t>(part.nranks / 2) * (both(part) ? 2 : 1); },
    .extra_rounds = one,
    .arrivals = one,
    .departures = one,
    .requests = [](const Part&, std::uint64_t) { return std::uint64_t{2}; },
    .fewest_rounds = [](const Part& part) { return together::fewest_rounds(part, 1); },
    .single_rounds = true,
    .one_buffer = false,
    .notes = [](const Part&, std::uint64_t) { return std::uint64_t{notes}; },
    .every_rank = true,
    .synchronised = true,
    .evaluate = evaluate,
    .measures = measures,
    .cells = [](const Part& part) { return static_cast<std::uint32_t>(part.nranks); },
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = without_messages,
    .unfit = unfit,
    .fill = fill_round,
    .check = check_round,
    .run = run,
};

}  // namespace netpipe::patterns
