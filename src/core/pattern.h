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

// What one rank has in its hands during a visit of one size. Everything is there, touched and connected before the
// clock starts.
struct Stage {
  const np_module& module;
  np_endpoint* endpoint;
  int rank, nranks;
  std::uint64_t size_bytes;
  Slots outgoing, incoming;  // where messages start and land
  const np_region* landing;  // one-sided, in one process: the region of the incoming slots; else nullptr
};

struct Pattern {
  const char* name;
  const char* summary;  // one line
  const char* formula;  // how bytes and time become its metric
  const char* source;   // paper or standard
  // What one round of the pattern counts: its time is divided by this to give the time of one operation.
  std::uint32_t operations_per_round;
  std::uint32_t (*extra_rounds)(int nranks);  // rounds that run before the first clock reading of a visit
  // How many messages of one round arrive at rank r, for verification.
  std::uint32_t (*arrivals)(int rank, int nranks);
  // And how many of them rank r sends.
  std::uint32_t (*departures)(int rank, int nranks);
  // true: every round may be timed by itself. false: only a long batch says something (streams arrive in bursts).
  bool single_rounds;
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
  // Runs samples x rounds. stamps has room for samples + 1 readings: before the first and after each sample; only the
  // clock rank's are used. Nothing but operations and clock readings may happen here.
  np_status (*run)(Stage& stage, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps);
};

// Pairs of ranks, the first with the last: the other one of rank r. A rank alone is its own.
constexpr int mirrored(int rank, int nranks) { return nranks - 1 - rank; }

std::span<const Pattern* const> all_patterns();

}  // namespace netpipe
