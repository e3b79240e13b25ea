// SPDX-License-Identifier: Apache-2.0
// How much computation fits behind a non-blocking collective operation without making it longer.
//
// A sample has three parts, one right after another, so that all see the same machine. All ranks begin each at one
// agreed moment (kit/agreed_start.h), and the time of each is that of the rank that ends last:
//
//     operation      A: start it, wait for it
//     computation    C: a set amount of work, `work` percent of what A took at first
//     together       B: start the operation, the same work, wait for it
//
//     time of one operation = A        overlap = A + C - B        fraction = overlap / A
//
// Why no search is needed: overlap.cpp. Nothing is clamped: where there is no overlap, single samples lie on either
// side of 0. A library that makes progress only while it is called hides little, unless a thread of its own does the
// rest, and that takes the processor from the work: B tells it, because C is the work alone.
//
// The operation of A and that of B have places of their own, one behind the other, so both are verified.
#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "patterns/kit/agreed_start.h"
#include "patterns/kit/collective_bytes.h"
#include "patterns/kit/pattern.h"
#include "patterns/kit/work.h"

namespace netpipe::patterns {
namespace {

constexpr auto options = collectives::options_with(
    {"work", NP_INT, "200", 10, 10000, nullptr, "percent", "computation, as a percentage of the operation's time", 0});
double work_share(const Part& part) { return static_cast<double>(part.options[collectives::own].number) / 100; }

constexpr std::array<Measure, 7> measures{{
    {"overlap", "ns", "the longest computation that does not lengthen the operation", Worse::less},
    {"fraction", "1", "the same, as a fraction of the operation's time", Worse::less},
    {"computation", "ns", "time of the computation alone, on the slowest rank", Worse::neither},
    {"together", "ns", "operation and work together"},
    {"exposed", "ns", "time that the operation adds to the computation"},
    {"start_skew", "ns", "from the agreed start of the operation alone to the real start of the last rank",
     Worse::neither},
    {"degree", "1", "of a graph of neighbours: how many ranks each rank sends to", Worse::neither},
}};

// What each rank notes of a sample, in ns from the agreed moment of each part on; whole: of all of it.
enum Note { operation, computation, together, began, whole, notes };

// Operations before the first sample: until all know how far ahead they can begin, and then those whose time the work
// is chosen by.
constexpr std::uint64_t warm_up_rounds = 8, trials = 5;
constexpr std::uint64_t extra = warm_up_rounds + trials;

// The second half of a place is that of the second operation of its round.
std::uint64_t half_bytes(const Part& part) { return (collectives::place_bytes(part) + 63) / 64 * 64; }
std::uint64_t place_bytes(const Part& part) {
  constexpr std::uint64_t most = 1ULL << 61;
  return 2 * std::min(half_bytes(part), most);
}

void fill(const Part& part, std::uint64_t seed, std::uint64_t i, char* out, char* in) {
  std::fill_n(in, place_bytes(part), '\0');
  std::fill_n(out, place_bytes(part), '\0');
  for (const std::uint64_t half : {0, 1}) {
    collectives::fill(part, seed + half, i, out + half * half_bytes(part), in + half * half_bytes(part));
  }
}

std::string check(const Part& part, std::uint64_t seed, std::uint64_t i, const char* in) {
  std::string wrong = collectives::check(part, seed, i, in);
  if (wrong.empty()) wrong = collectives::check(part, seed + 1, i, in + half_bytes(part));
  return wrong;
}

std::string unfit(const Part& part, const Layer& module) {
  if (collectives::sizeless(part))
    return "needs an operation that moves something: what=barrier is for pattern collective";
  return collectives::unfit(part, module);
}

// All that one rank has in its hands for the parts of a sample.
struct Parts {
  Stage& s;
  collectives::Operations operations;
  agreed_start::ByCollectives agree;
  Start next{};
  Work work;
  std::uint64_t units = 0;  // the same on all ranks

  explicit Parts(Stage& stage) : s(stage), operations(stage, true), agree(stage) {}

  // One part: with or without the operation of the i-th round, and so much work. ns: from the agreed moment.
  np_status part(bool moves, std::uint64_t i, std::uint64_t amount, const char* source, char* target,
                 std::int64_t& ns) {
    ++*s.progress;
    if (const np_status status = start_together(s, next, agree); status != NP_OK) return status;
    np_status status = moves ? operations.at(i)(source, target, s.requests) : NP_OK;
    if (status == NP_OK && amount > 0 && !work.run(amount, s.abort)) return NP_ABORTED;
    if (moves && status == NP_OK) status = s.module.wait(s.endpoint, s.requests, 1);
    ns = now_ns() - next.moment;
    ++*s.progress;
    return status;
  }

  // Rank 0 says how much work it is: from operations of which neither the fastest counts nor the slowest.
  np_status choose(std::vector<std::int64_t>& times) {
    std::sort(times.begin(), times.end());
    const double unit_ns = work.calibrate();
    s.memory.put(s.token_out, Work::units(work_share(s) * static_cast<double>(times[times.size() / 2]), unit_ns));
    const np_status status = agree.tell(s.token_out, s.token_in);
    units = s.memory.get<std::uint64_t>(s.rank == 0 ? s.token_out : s.token_in);
    return status;
  }
};

np_status run(Stage& s, std::uint64_t samples, std::uint64_t, std::int64_t* to) {
  Parts parts(s);
  constexpr const char* agreement = "allreduce and bcast, by which all agree to begin";
  np_status status = parts.operations.status(s);
  if (status == NP_OK) status = collectives::prepared(s, parts.agree.sum, agreement);
  if (status == NP_OK) status = collectives::prepared(s, parts.agree.tell, agreement);
  if (status != NP_OK) return status;
  std::vector<std::int64_t> times;
  const std::uint64_t half = half_bytes(s);
  for (std::uint64_t i = 0; i < samples + extra; ++i) {
    const std::int64_t here = now_ns();
    const char* const source = s.outgoing.take();
    char* const target = s.incoming.take();
    const bool counts = i >= extra;
    std::int64_t a = 0;
    std::int64_t b = 0;
    std::int64_t c = 0;
    status = parts.part(true, i, 0, source, target, a);
    const std::int64_t begun = parts.next.begun - parts.next.moment;
    if (status == NP_OK && counts) status = parts.part(false, i, parts.units, nullptr, nullptr, c);
    if (status == NP_OK) status = parts.part(true, i, counts ? parts.units : 0, source + half, target + half, b);
    if (status != NP_OK) return status;
    if (!counts) {
      if (i >= warm_up_rounds) times.push_back(a);
      if (i + 1 == extra) status = parts.choose(times);
      if (status != NP_OK) return status;
      continue;
    }
    to[operation] = a;
    to[computation] = c;
    to[together] = b;
    to[began] = begun;
    to[whole] = now_ns() - here;
    to += notes;
  }
  return NP_OK;
}

void evaluate(const Part& part, std::uint64_t, Notes of, Reading& reading) {
  std::array<double, notes> last{};
  for (int rank = 0; rank < part.nranks; ++rank) {
    const std::span<const std::int64_t> own = of[static_cast<std::size_t>(rank)];
    for (std::size_t note = 0; note < notes; ++note) last[note] = std::max(last[note], static_cast<double>(own[note]));
    reading.cells[static_cast<std::size_t>(rank)] = static_cast<double>(own[operation]);
  }
  const double a = last[operation];
  const double c = last[computation];
  const double b = last[together];
  reading.ns = a;
  reading.span_ns = static_cast<double>(of[0][whole]);
  reading.measures[0] = a + c - b;
  reading.measures[1] = (a + c - b) / std::max(a, 1.0);
  reading.measures[2] = c;
  reading.measures[3] = b;
  reading.measures[4] = b - c;
  reading.measures[5] = last[began];
  reading.measures[6] = collectives::degree_of_graph(part);
}

std::uint32_t one(const Part&) { return 1; }

const char* missing(const Layer& m, int nranks) {
  if (const char* const lack = collectives::missing(m, nranks); lack != nullptr) return lack;
  return m.wait == nullptr ? "wait for what was started" : nullptr;
}

}  // namespace

extern const Pattern collective_overlap;
const Pattern collective_overlap = {
    .name = "collective_overlap",
    .summary = "how much computation fits behind a non-blocking collective without making it longer",
    .formula =
        "time of one operation A = agreed start to the latest end of start and wait; overlap = A + C - B, C: a "
        "computation, B: operation and computation together, each of the slowest rank; fraction = overlap / A",
    .source =
        "Hoefler, Lumsdaine and Rehm: Implementation and Performance Analysis of Non-Blocking Collective Operations "
        "for MPI (2007); OSU Micro-Benchmarks: osu_iallreduce and the others (whose percentage is this fraction)",
    .options = options,
    .operations = one,
    .extra_rounds = [](const Part&) { return static_cast<std::uint32_t>(extra); },
    .arrivals = one,
    .departures = one,
    .place_bytes = place_bytes,
    .unit_bytes = collectives::unit_bytes,
    .requests = [](const Part&, std::uint64_t) { return std::uint64_t{1}; },
    .most_rounds = [](const Part&) { return std::uint64_t{1}; },
    .single_rounds = true,
    .one_buffer = false,
    .notes = [](const Part&, std::uint64_t) { return std::uint64_t{notes}; },
    .every_rank = true,
    .synchronised = true,
    .computes = true,
    .uses = NP_USES_COLLECTIVES,
    .evaluate = evaluate,
    .measures = measures,
    .cells = [](const Part& part) { return static_cast<std::uint32_t>(part.nranks); },
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .missing = missing,
    .unfit = unfit,
    .fill = fill,
    .check = check,
    .run = run,
};

}  // namespace netpipe::patterns
