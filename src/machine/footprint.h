// SPDX-License-Identifier: Apache-2.0
// What a process holds of the machine's memory, and what a part of its life has added to that.
#pragma once

#include <cstdint>
#include <optional>

#include "machine/files.h"

namespace netpipe {

struct Footprint {
  std::int64_t resident_bytes = 0;  // all pages that are there for it: its own, and those that others see as well
  std::int64_t private_bytes = 0;   // of these in memory that no other process sees: heap, stacks
  std::int64_t pinned_bytes = 0;    // that the kernel may not move or page out: locked, or registered with a device
};

// nullopt where /proc does not say.
std::optional<Footprint> read_footprint(const Files& files = Files(Host{}));
std::uint64_t most_resident_bytes(const Files& files = Files(Host{}));  // since this program began; 0: not known

struct Cost {
  std::optional<Footprint> memory = Footprint{};  // as differences
  std::int64_t ns = 0;

  Cost& operator+=(const Cost& other);
};

// What happens between its making and spent().
class Meter {
 public:
  // ranks: of this process. What one of several costs cannot be told, and a thousand would read for minutes.
  explicit Meter(int ranks = 1);
  [[nodiscard]] Cost spent() const;

 private:
  std::optional<Footprint> before_;
  std::int64_t began_ns_;
};

}  // namespace netpipe
