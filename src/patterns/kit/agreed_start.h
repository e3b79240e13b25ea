// SPDX-License-Identifier: Apache-2.0
// All ranks begin at one moment: rank 0 names one a little ahead, and each waits for it by its own clock, whose
// distance from rank 0's is known (engine/clock_sync.h). A rank that learned of it too late makes the next one lie
// further ahead. After Hunold and Carpen-Amarie, "Reproducible MPI benchmarking is still not as easy as you think"
// (2016).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/ready.h"
#include "patterns/kit/pattern.h"
#include "patterns/kit/prepared.h"

namespace netpipe::patterns {

struct Start {
  std::int64_t ahead_ns = 20'000;  // then three times what the fastest agreement took, and twice what was too little
  std::int64_t agreement_ns = 0;   // 0: not known yet
  std::int64_t least_ns = 2'000;
  bool late = false;
  // The clock may move in steps, of 10 ns on some machines. Where in a step the moments lay would make all starts early
  // or late, so they wander.
  std::uint32_t turn = 0;
  std::int64_t moment = 0;  // by the own clock
  std::int64_t begun = 0;   // the reading that ended the wait for it: one more would begin everything so much later
};

namespace agreed_start {

// Each of 64 nanoseconds once in 64 turns.
constexpr std::uint32_t wander_ns(std::uint32_t turn) { return turn * 29 % 64; }

inline void name_moment(Start& next, bool anybody_late) {
  constexpr std::int64_t longest_ns = 5'000'000;
  if (anybody_late) next.least_ns = std::min(2 * next.ahead_ns, longest_ns);
  const std::int64_t wanted = next.agreement_ns > 0 ? 3 * next.agreement_ns : next.ahead_ns;
  next.ahead_ns = std::clamp(wanted, next.least_ns, longest_ns);
  next.moment = now_ns() + next.ahead_ns + wander_ns(next.turn++);
}

// Up a binomial tree goes whether a rank was late, down it the moment. No rank sends up before it has heard from all
// below, so no two wait for each other.
inline np_status by_messages(Stage& s, Start& next) {
  const Layer& m = s.module;
  np_status status = NP_OK;
  bool late = next.late;
  int span = 1;
  for (; span < s.nranks && (s.rank & span) == 0 && status == NP_OK; span *= 2) {
    if (s.rank + span >= s.nranks) continue;
    status = m.recv(s.endpoint, s.rank + span, s.token_in, 1);
    late |= s.memory.get<char>(s.token_in) != 0;
  }
  if (status != NP_OK) return status;
  if (s.rank == 0) {
    name_moment(next, late);
  } else {
    s.memory.put(s.token_out, static_cast<char>(late ? 1 : 0));
    status = m.send(s.endpoint, s.rank - span, s.token_out, 1);
    if (status == NP_OK) status = m.recv(s.endpoint, s.rank - span, s.token_in, sizeof next.moment);
    if (status != NP_OK) return status;
    next.moment = s.memory.get<std::int64_t>(s.token_in);
  }
  s.memory.put(s.token_out, next.moment);
  for (span /= 2; span > 0 && status == NP_OK; span /= 2) {
    if (s.rank + span < s.nranks) status = m.send(s.endpoint, s.rank + span, s.token_out, sizeof next.moment);
  }
  return status;
}

// As above, with what the module has for it: what a library was called for before decides how its next operation fares.
struct ByCollectives {
  Prepared sum, tell;

  explicit ByCollectives(const Stage& s)
      : sum(s, {.what = NP_ALLREDUCE, .datatype = NP_DOUBLE, .reduction = NP_SUM, .count = 1}),
        tell(s, {.what = NP_BCAST, .datatype = NP_BYTE, .count = sizeof Start::moment}) {}

  np_status operator()(Stage& s, Start& next) const {
    s.memory.put(s.token_out, next.late ? 1.0 : 0.0);
    np_status status = sum(s.token_out, s.token_in);
    if (status != NP_OK) return status;
    if (s.rank == 0) name_moment(next, s.memory.get<double>(s.token_in) > 0);
    s.memory.put(s.token_out, next.moment);
    status = tell(s.token_out, s.token_in);
    if (s.rank != 0) next.moment = s.memory.get<std::int64_t>(s.token_in);
    return status;
  }
};

}  // namespace agreed_start

// Comes back when the moment is there. agree: one of the two above; a pattern uses what it needs of its module anyway.
// Inline, because all that comes between the last reading and the pattern's next call is in the pattern's time.
template <typename Agree>
[[gnu::always_inline]] inline np_status start_together(Stage& s, Start& next, const Agree& agree) {
  const std::int64_t asked = now_ns();
  if (const np_status status = agree(s, next); status != NP_OK) return status;
  next.moment -= s.clock_offset_ns;
  const std::int64_t agreed = now_ns();
  next.late = agreed > next.moment;
  const std::int64_t took = agreed - asked;
  next.agreement_ns = next.agreement_ns > 0 ? std::min(next.agreement_ns, took) : took;
  next.begun = until(next.moment, s.oversubscribed, s.abort);
  return next.begun < 0 ? NP_ABORTED : NP_OK;
}

}  // namespace netpipe::patterns
