// SPDX-License-Identifier: Apache-2.0
// A ping-pong while the processors compute: what an application that works gets of its communication, and what its
// communication leaves of its work.
//
//     time of one operation = round trip / 2, with companions that compute
//     communication_slowdown = that time / the same with companions that sleep
//     computation_slowdown = rate of work without communication / rate of work beside it
//
// A companion is a thread of its own beside each rank (side: of one end of each pair only), on the same processor where
// ranks are pinned. It computes `load` percent of each millisecond, in registers or through more memory than the caches
// hold. A sample has three parts of one length: round trips while the companions sleep, the same number while they
// compute, and computation alone. A layer that waits in the kernel is woken in the middle of the work and is quick; one
// that polls shares its processor by the scheduler's slices of milliseconds, at both ends. So a sample is long against
// them, and its time is the mean of it: a median of single round trips would be that of those that met nobody.
//
// After Turner and Chen, "Protocol-dependent message-passing performance on Linux clusters" (2002), section 2: a
// ping-pong between idle nodes is an upper bound, and says nothing of libraries that move messages beside the
// application. The clock is that of rank 0, the work that of both ranks.
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <memory>

#include "patterns/kit/companion.h"
#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

enum Option { load, work, side };
enum Side { both, first, last };
constexpr std::array<np_option, 3> options{{
    {"load", NP_INT, "100", 0, 100, nullptr, "%", "how much of the time the processors compute", 1},
    {"work", NP_CHOICE, "register", 0, 0, "register|memory", "", "whether the computation goes through memory", 1},
    {"side", NP_CHOICE, "both", 0, 0, "both|first|last", "", "which rank of a pair computes", 1},
}};

constexpr std::array<Measure, 3> measures{{
    {"unloaded", "ns", "the same time with idle processors"},
    {"communication_slowdown", "1", "time with load / time without"},
    {"computation_slowdown", "1", "rate of work without communication / rate beside it, of all ranks that compute"},
}};

// What each rank notes of a sample: how long each part took, and what was computed in it.
enum Note { unloaded_ns, loaded_ns, loaded_units, alone_ns, alone_units, whole, notes };

constexpr double sample_ns = 20'000'000;
constexpr std::int64_t shortest_alone_ns = 1'000'000;

bool computes(const Part& part) {
  const std::int64_t which = part.options[side].number;
  return part.options[load].number > 0 && (which == both || (which == first) == is_first(part));
}

np_status bounce(Stage& s, std::uint64_t times) {
  const auto send = s.module.send;
  const auto recv = s.module.recv;
  np_endpoint* const endpoint = s.endpoint;
  const int peer = mirrored(s.rank, s.nranks);
  const std::size_t bytes = s.size_bytes;
  const bool serves = is_first(s);
  np_status status = NP_OK;
  for (std::uint64_t i = 0; i < times && status == NP_OK; ++i) {
    if (serves) status = send(endpoint, peer, s.outgoing.take(), bytes);
    if (status == NP_OK) status = recv(endpoint, peer, s.incoming.take(), bytes);
    if (!serves && status == NP_OK) status = send(endpoint, peer, s.outgoing.take(), bytes);
  }
  return status;
}

// Both ranks of a pair are here.
np_status meet(Stage& s) {
  const Layer& m = s.module;
  const int peer = mirrored(s.rank, s.nranks);
  np_status status = is_first(s) ? m.send(s.endpoint, peer, s.token_out, 1) : NP_OK;
  if (status == NP_OK) status = m.recv(s.endpoint, peer, s.token_in, 1);
  return status == NP_OK && !is_first(s) ? m.send(s.endpoint, peer, s.token_out, 1) : status;
}

np_status sleep_until(const Stage& s, std::int64_t end) {
  const timespec until{end / 1'000'000'000, end % 1'000'000'000};
  // The watchdog's signal ends the sleep early.
  while (now_ns() < end) {
    if (*s.abort != 0) return NP_ABORTED;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }
  return NP_OK;
}

np_status timed(Stage& s, std::uint64_t rounds, std::int64_t& ns) {
  if (const np_status status = meet(s); status != NP_OK) return status;
  const std::int64_t begin = now_ns();
  const np_status status = bounce(s, rounds);
  ns = now_ns() - begin;
  return status;
}

np_status sample(Stage& s, Companion* companion, std::uint64_t rounds, std::int64_t* to) {
  const auto units = [&] { return companion == nullptr ? 0 : static_cast<std::int64_t>(companion->units()); };
  const std::int64_t here = now_ns();
  np_status status = timed(s, rounds, to[unloaded_ns]);
  if (status != NP_OK) return status;
  if (companion != nullptr) companion->compute();
  const std::int64_t none = units();
  status = timed(s, rounds, to[loaded_ns]);
  const std::int64_t beside = units();
  to[loaded_units] = beside - none;
  if (status == NP_OK && companion != nullptr) {
    const std::int64_t begin = now_ns();
    status = sleep_until(s, begin + std::max(to[loaded_ns], shortest_alone_ns));
    to[alone_units] = units() - beside;
    to[alone_ns] = now_ns() - begin;
    companion->rest();
  }
  to[whole] = now_ns() - here;
  return status;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  std::unique_ptr<Companion> companion;
  if (computes(s)) {
    Result<std::unique_ptr<Companion>> made = Companion::start(static_cast<int>(s.options[load].number),
                                                               s.options[work].number != 0 ? Work::beyond_caches() : 0);
    if (!made) {
      std::snprintf(s.message.data(), s.message.size(), "%s", made.failure().sentence.c_str());
      return NP_FAILED;
    }
    companion = std::move(*made);
  }
  // Of two parts, as every round is.
  np_status status = bounce(s, 2);
  for (std::uint64_t i = 0; i < samples && status == NP_OK; ++i) {
    status = sample(s, companion.get(), rounds, to + i * notes);
  }
  return status;
}

void evaluate(const Part& part, std::uint64_t rounds, Notes of, Reading& reading) {
  double alone = 0;
  double beside = 0;
  for (const std::span<const std::int64_t> own : of) {
    if (own[alone_ns] == 0) continue;  // it has no companion
    alone += static_cast<double>(own[alone_units]) / static_cast<double>(own[alone_ns]);
    beside += static_cast<double>(own[loaded_units]) / static_cast<double>(own[loaded_ns]);
  }
  const std::span<const std::int64_t> clock = of[static_cast<std::size_t>(part.rank)];
  reading.ns = static_cast<double>(clock[loaded_ns]);
  reading.span_ns = static_cast<double>(clock[whole]);
  reading.measures[0] = static_cast<double>(clock[unloaded_ns]) / (2 * static_cast<double>(rounds));
  reading.measures[1] = static_cast<double>(clock[loaded_ns]) / static_cast<double>(clock[unloaded_ns]);
  reading.measures[2] = alone > 0 ? alone / beside : 1;
}

std::uint32_t two(const Part&) { return 2; }

}  // namespace

extern const Pattern loaded;
const Pattern loaded = {
    .name = "loaded",
    .summary = "a ping-pong while the processors compute, and what each takes from the other",
    .formula =
        "time of one operation = round trip / 2 while companions compute; throughput = size_bytes / that time; "
        "slowdowns = time with / without load, rate of work without / with communication",
    .source = "Turner, Chen: Protocol-Dependent Message-Passing Performance on Linux Clusters (2002), sections 2 and 7",
    .options = options,
    .operations = two,
    .extra_rounds = [](const Part&) { return 1U; },
    .arrivals = two,
    .departures = two,
    .single_rounds = true,
    .sample_ns = sample_ns,
    .one_buffer = true,
    .notes = [](const Part&, std::uint64_t) { return std::uint64_t{notes}; },
    .in_pairs = true,
    .every_rank = true,
    .computes = true,
    .evaluate = evaluate,
    .measures = measures,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = without_messages,
    .run = run,
};

}  // namespace netpipe::patterns
