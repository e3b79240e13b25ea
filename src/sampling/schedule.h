// SPDX-License-Identifier: Apache-2.0
// Which message sizes are visited.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace netpipe {

struct Schedule {
  enum class Kind { classic, powers, list, adaptive } kind = Kind::classic;
  std::uint64_t start_bytes = 1;
  std::uint64_t end_bytes = 8ULL << 20;
  std::uint64_t perturbation_bytes = 3;  // classic: also length - p and length + p
  std::vector<std::uint64_t> list;       // list: the sizes as given
};

// The sizes in ascending order, each once; a list keeps a size that is given twice, and it then has two points of its
// own (which is how bench/ shows that the intervals are honest). Classic is the schedule of NetPIPE 3.7.2 and 5.x
// exactly: an increment from 1 (from half of the start, where that is above 1), doubled at every other step from the
// third on; bounds apply to the base length only.
//
// A start of 0 is an empty message, and then the same sizes as from 1 on.
//
// Adaptive is every size that may be visited: sixteen to an octave, where there are so many, and both ends; 257 where
// both ends are less than an octave apart. Which of them are, the sampler decides; it begins with the coarse ones.
Result<std::vector<std::uint64_t>> sizes_of(const Schedule& schedule);

// Of the sizes of an adaptive schedule those that are visited in any case: powers of two and both ends; nine of a range
// of less than an octave.
bool is_coarse(const Schedule& schedule, std::uint64_t size_bytes);

}  // namespace netpipe
