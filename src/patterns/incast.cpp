// SPDX-License-Identifier: Apache-2.0
// Many to one: rank 0 asks all others at once, and each answers with a message; the round ends when the last one has
// come. Where all answers together are more than the way to rank 0, or a buffer on it, holds, they wait for each other.
//
//     time of one operation = from the first request until the last message has come, by rank 0's clock
//     throughput = (ranks - 1) x size_bytes / that time: what comes in at rank 0
//
// Before it asks, by one byte each, rank 0 has posted its receives, which have places of their own. arrivals=yes: it
// looks in turn which messages are there, where it would wait for one after another, and notes when it saw each.
//
// Over a layer that loses messages a rank whose request was lost answers all the same, when it has found that out.
// Somebody has waited in vain then, or for a message that was lost, so the sample has no time. Lost requests are in no
// share of lost messages.
#include <sched.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

enum Option { arrivals };
constexpr std::array<np_option, 1> options{{
    {"arrivals", NP_BOOL, "no", 0, 1, nullptr, "", "whether rank 0 notes when it saw each message, by testing", 0},
}};

bool watches(const Part& part) { return part.options[arrivals].number != 0; }
std::uint32_t senders(const Part& part) { return static_cast<std::uint32_t>(part.nranks - 1); }

// Adds to came[i] how long after `begin` the message of rank 1 + i was seen to be there, or to be lost. order: room for
// all; landing: where they do.
np_status watch(Stage& s, std::int64_t begin, std::vector<std::uint32_t>& order, const Slots& landing,
                std::uint64_t sample, std::int64_t* came) {
  std::iota(order.begin(), order.end(), 0U);
  for (std::size_t left = order.size(); left > 0;) {
    for (std::size_t k = 0; k < left;) {
      const std::uint32_t i = order[k];
      const np_status status = s.module.test(s.endpoint, &s.requests[i]);
      if (status == NP_OK || (status == NP_LOST && only_lost(s, status, sample, place_of(landing, i)))) {
        came[i] += now_ns() - begin;
        order[k] = order[--left];
        continue;
      }
      if (status != NP_PENDING) return status;
      ++k;
    }
    if (*s.abort != 0) return NP_ABORTED;
    if (s.oversubscribed) sched_yield();
  }
  return NP_OK;
}

np_status gather(Stage& s, std::vector<std::uint32_t>& order, std::uint64_t sample, std::int64_t* came) {
  const Layer& m = s.module;
  const Slots landing = s.incoming;
  const auto count = static_cast<int>(senders(s));
  np_status status = NP_OK;
  for (int i = 0; i < count && status == NP_OK; ++i) {
    status = m.irecv(s.endpoint, i + 1, s.incoming.take(), 0, s.size_bytes, &s.requests[i], 1);
  }
  const std::int64_t begin = came != nullptr ? now_ns() : 0;
  for (int i = 0; i < count && status == NP_OK; ++i) status = m.send(s.endpoint, i + 1, s.token_out, 1);
  if (status != NP_OK) return status;
  if (came != nullptr) return watch(s, begin, order, landing, sample, came);
  if (s.lost != nullptr) return await_each(s, landing, senders(s), sample);
  return m.wait(s.endpoint, s.requests, static_cast<std::size_t>(count));
}

np_status answer(Stage& s, std::uint64_t sample) {
  const np_status status = s.module.recv(s.endpoint, 0, s.token_in, 1);
  if (status != NP_OK && !only_lost_word(s, status, sample)) return status;
  return s.module.send(s.endpoint, 0, s.outgoing.take(), s.size_bytes);
}

// What rank 0 notes of a sample: how long it lasted, and of each other rank when its messages came, added up.
std::uint64_t notes(const Part& part, std::uint64_t) { return 1 + (watches(part) ? senders(part) : 0); }

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* to) {
  if (s.rank != 0) {
    np_status status = NP_OK;
    for (std::uint64_t i = 0; i < samples * rounds + 1 && status == NP_OK; ++i) {
      status = answer(s, i == 0 ? no_sample : (i - 1) / rounds);
    }
    return status;
  }
  std::vector<std::uint32_t> order(senders(s));
  // The others may still be on their way out of the barrier.
  if (const np_status status = gather(s, order, no_sample, nullptr); status != NP_OK) return status;
  std::int64_t before = now_ns();
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    std::int64_t* const came = watches(s) ? to + 1 : nullptr;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      if (const np_status status = gather(s, order, sample, came); status != NP_OK) return status;
    }
    const std::int64_t now = now_ns();
    to[0] = now - before;
    before = now;
    to += notes(s, rounds);
  }
  return NP_OK;
}

void evaluate(const Part& part, std::uint64_t, Notes of, Reading& reading) {
  reading.ns = static_cast<double>(of[0][0]);
  for (std::uint32_t i = 0; watches(part) && i < senders(part); ++i)
    reading.cells[i] = static_cast<double>(of[0][1 + i]);
}

}  // namespace

extern const Pattern incast;
const Pattern incast = {
    .name = "incast",
    .summary = "many to one: all other ranks send to rank 0 at once",
    .formula =
        "time of one operation = first request to last arrival; throughput = (ranks - 1) x size_bytes / that time",
    .source =
        "Phanishayee et al.: Measurement and Analysis of TCP Throughput Collapse in Cluster-based Storage Systems "
        "(2008)",
    .options = options,
    .operations = [](const Part&) { return 1U; },
    .messages_per_operation = senders,
    .extra_rounds = [](const Part&) { return 1U; },
    .arrivals = [](const Part& part) { return part.rank == 0 ? senders(part) : 0; },
    .departures = [](const Part& part) { return part.rank == 0 ? 0U : 1U; },
    .origin = [](const Part& part,
                 std::uint64_t i) { return Origin{static_cast<int>(1 + i % senders(part)), i / senders(part)}; },
    .in_flight = senders,
    .requests = [](const Part& part, std::uint64_t) { return std::uint64_t{senders(part)}; },
    .single_rounds = true,
    .one_buffer = false,
    .notes = notes,
    .evaluate = evaluate,
    .cells = [](const Part& part) { return watches(part) ? senders(part) : 0; },
    .cell = [](const Part&, std::uint32_t i) { return Cell{static_cast<int>(i) + 1}; },
    .loss = Loss::spoils,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .missing = without_requests,
    .run = run,
};

}  // namespace netpipe::patterns
