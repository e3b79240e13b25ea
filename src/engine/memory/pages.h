// SPDX-License-Identifier: Apache-2.0
// Which pages message memory has, and on which NUMA node they are: asked of the kernel before anything is written, and
// read back afterwards, because the kernel may do otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "patterns/kit/slots.h"

namespace netpipe {

// Asks for such pages. base: at a page boundary. Exit::unavailable where the kernel refuses.
Outcome choose_pages(char* base, std::uint64_t bytes, const PageChoice& choice);

struct PagesFound {
  std::optional<std::uint64_t> huge_bytes;  // of the memory on huge pages; of PageChoice::kind automatic not looked at
  std::optional<int> node;                  // that all pages are on; of no chosen node not looked at
};
// What memory has that was chosen so, once all of it has been written. Exit::unavailable where it is not what was asked
// for; the sentence says what it is instead.
Result<PagesFound> found_pages(char* base, std::uint64_t bytes, const PageChoice& choice);

// What /proc/self/smaps says of the mappings that this range of addresses touches, together.
struct MappedPages {
  std::uint64_t huge_bytes = 0;
  bool shared = false;  // some of them with other processes
};
MappedPages mapped_pages(std::string_view smaps, std::uint64_t begin, std::uint64_t end);

}  // namespace netpipe
