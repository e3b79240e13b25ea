// SPDX-License-Identifier: Apache-2.0
// What member 0 of a group tells the others, and what they answer. Plain data between processes of one build: the hash
// of the plan and the ABI were compared before. Group::gone looks at the first word of each, which must not be 0 where
// it means trouble.
#pragma once

#include <cstdint>

namespace netpipe {

enum class Verb : std::int32_t {
  abandon = 1,  // stop the visit that is running; where none is, a sign of life
  open = 2,
  visit = 3,
  yardstick = 4,
  close = 5,
  finish = 6,
};

struct Command {
  Verb verb = Verb::finish;
  std::uint32_t variant = 0;
  std::uint32_t pattern = 0;
  std::uint32_t reserved = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t samples = 0;
  std::uint64_t rounds = 0;
  std::uint64_t visit = 0;  // number of the visit in the run
  std::int64_t deadline_ns = 0;
};

struct Report {
  std::int32_t status = 0;  // np_status, or one of those below
  std::uint32_t cause = 0;  // Cause of the watchdog
  std::uint64_t verified_bytes = 0;
  std::uint32_t unanimous = 1;  // of joined reports: every rank came to this status, so no message is in flight
  std::uint32_t counters = 0;   // how many numbers of VisitMemory::counters follow the notes of a good visit, and
  std::uint32_t losses = 0;     // of VisitMemory::lost
  std::uint32_t paused_ms = 0;  // while it lasted this process did not run: it was stopped, or its machine suspended
  std::uint64_t progress = 0;   // how often this rank began or ended an operation, where the pattern counts that
  char sentence[384] = {};      // what went wrong
};

inline constexpr std::int32_t verification_failed = 100;
inline constexpr std::int32_t processors_changed = 101;  // the visit was not where the rank was placed

}  // namespace netpipe
