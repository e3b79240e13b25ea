// SPDX-License-Identifier: Apache-2.0
// What rank 0 tells the others, and what they answer. Plain data between processes of one build: the plan's hash and
// the ABI were compared before. The first word of each is what Group::peer_gone looks at: it must not be 0 when it
// means trouble.
#pragma once

#include <cstdint>

namespace netpipe {

enum class Verb : std::int32_t {
  abandon = 1,  // stop the visit that is running; when there is none, a sign of life and nothing to do
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
  std::uint64_t visit = 0;  // counts up: the seed of verified messages
  std::int64_t deadline_ns = 0;
};

struct Report {
  std::int32_t status = 0;  // np_status, or verification_failed
  std::uint32_t cause = 0;  // Cause of the watchdog
  std::uint64_t verified_bytes = 0;
  std::uint32_t unanimous = 1;  // every rank came to this status: nothing of it is on its way to anybody
  std::uint32_t reserved = 0;
  std::uint64_t progress = 0;  // operations that this rank began and ended, where the pattern counts them
  char sentence[384] = {};     // what went wrong
};

inline constexpr std::int32_t verification_failed = 100;

}  // namespace netpipe
