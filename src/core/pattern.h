// SPDX-License-Identifier: Apache-2.0
// What a pattern is. Each is one file in src/patterns, named as the pattern, that defines `const Pattern
// patterns::NAME`.
#pragma once

#include <cstdint>
#include <span>

#include "core/buffers.h"
#include "core/clock.h"
#include "netpipe/module.h"

namespace netpipe {

// Who one rank is in a pattern, and what was chosen of the pattern's options (in the order of its table).
struct Part {
  int rank, nranks;
  std::uint64_t size_bytes;
  const np_value* options;
};

// What one rank has in its hands during a visit of one size. Everything is there, touched and connected before the
// clock starts.
struct Stage : Part {
  const np_module& module;
  np_endpoint* endpoint;
  Slots outgoing, incoming;    // where messages start and land
  const np_region* landing;    // one-sided, in one process: the region of the incoming slots; else nullptr
  np_request* requests;        // as many as the pattern asked for
  char *token_out, *token_in;  // a byte each beside the messages, to tell the peer something
};

struct Pattern {
  const char* name;
  const char* summary;                      // one line
  const char* formula;                      // how bytes and time become its metric
  const char* source;                       // paper or standard
  std::span<const np_option> options = {};  // NOLINT(readability-redundant-member-init): most patterns leave it out
  // What one round of the pattern counts: its time is divided by this to give the time of one operation.
  std::uint32_t (*operations)(const Part& part);
  // Messages of size_bytes that move in the time of one operation: 2 where both directions are counted.
  std::uint32_t (*messages_per_operation)(const Part& part) = [](const Part&) { return 1U; };
  // Rounds that are not timed: so many before the first clock reading of a visit, or of each sample where it pauses.
  std::uint32_t (*extra_rounds)(const Part& part);
  // How many messages of one round arrive at this rank, for verification.
  std::uint32_t (*arrivals)(const Part& part);
  // And how many of them it sends.
  std::uint32_t (*departures)(const Part& part);
  // How many messages may be under way to this rank at once: each lands in a place of its own.
  std::uint32_t (*in_flight)(const Part& part) = [](const Part&) { return 1U; };
  // Requests that it needs on its stage, for samples of so many rounds.
  std::uint64_t (*requests)(const Part& part, std::uint64_t rounds) = [](const Part&, std::uint64_t) {
    return std::uint64_t{0};
  };
  // Rounds of one sample at most, 0: any number.
  std::uint64_t (*most_rounds)(const Part& part) = [](const Part&) { return std::uint64_t{0}; };
  // true: every round may be timed by itself. false: only a long batch says something (streams arrive in bursts).
  bool single_rounds;
  // true: between samples is something that does not count, so each sample has two clock readings of its own.
  bool pauses = false;
  // true: no rank sends and receives at the same time, so warm messages leave from where they landed, as in NetPIPE.
  // The data then really changes hands with every message, and does not stay in the cache of the side that has copied
  // it before.
  bool one_buffer;
  int (*clock_rank)(int nranks);        // whose clock counts
  int (*sender)(int rank, int nranks);  // whose messages arrive at rank r, for verification
  bool resets;                          // connections anew before each visit
  std::int32_t min_ranks, max_ranks;
  std::int32_t multiple_of;  // ranks come in groups of so many; alone a rank may be where min_ranks is 1
  // The operation that this module lacks for this pattern, or nullptr when it has all.
  const char* (*missing)(const np_module& module, int nranks);
  // Runs samples x rounds. stamps has room for samples + 1 readings: before the first and after each sample; where the
  // pattern pauses for 2 x samples: before and after each. Only the clock rank's are used. Nothing but operations and
  // clock readings may happen here.
  np_status (*run)(Stage& stage, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps);
};

// Clock readings of a visit.
constexpr std::uint64_t readings(const Pattern& pattern, std::uint64_t samples) {
  return pattern.pauses ? 2 * samples : samples + 1;
}

// All the rounds of a visit, those that are not timed included.
inline std::uint64_t all_rounds(const Pattern& pattern, const Part& part, std::uint64_t samples, std::uint64_t rounds) {
  return samples * rounds + (pattern.pauses ? samples : 1) * pattern.extra_rounds(part);
}

// Pairs of ranks, the first with the last: the other one of rank r. A rank alone is its own.
constexpr int mirrored(int rank, int nranks) { return nranks - 1 - rank; }

std::span<const Pattern* const> all_patterns();

}  // namespace netpipe
