// SPDX-License-Identifier: Apache-2.0
// Computation of a set amount, to be done beside communication. It is counted in units and not ended by a clock: when
// something takes the processor away from it, or memory, it becomes longer, and that is to be seen.
#pragma once

#include <cstdint>
#include <vector>

namespace netpipe {

class Work {
 public:
  // 0: it stays in registers. Otherwise it goes through so much memory of its own, line after line, round and round,
  // and writes each; beyond_caches() is enough for every line to come from main memory. Allocates and touches it.
  explicit Work(std::uint64_t memory_bytes = 0);
  static std::uint64_t beyond_caches();

  // ns that one unit takes here and now: the median of some runs. Lasts about 0.2 ms.
  double calibrate();
  // Units that take this long at that speed, at least 1.
  static std::uint64_t units(double ns, double unit_ns);
  // false: *abort was raised, and it was given up. Looks at it some ten thousand times a second.
  bool run(std::uint64_t units, const volatile int* abort) noexcept;

 private:
  std::vector<std::uint64_t> memory_;
  std::uint64_t next_ = 0;   // where in it the next unit begins
  std::uint64_t state_ = 1;  // so that nothing can be left out
};

}  // namespace netpipe
