// SPDX-License-Identifier: Apache-2.0
#include "machine/memory.h"

#include <algorithm>
#include <string>

#include "base/text.h"
#include "machine/files.h"

namespace netpipe {

std::uint64_t last_level_cache_bytes() {
  static const std::uint64_t bytes = [] {
    const Files files(Host{});
    std::uint64_t largest = 0;
    for (int index = 0; index < 8; ++index) {
      const auto text = files.line("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
      if (!text) break;
      if (const Result<std::uint64_t> size = parse_size(*text); size) largest = std::max(largest, *size);
    }
    return largest != 0 ? largest : 32ULL << 20;
  }();
  return bytes;
}

std::uint64_t available_memory_bytes() {
  const auto field = colon_field(Files(Host{}).read("/proc/meminfo").value_or(""), "MemAvailable");
  const auto kib = field ? parse_number(*field) : std::nullopt;
  return kib && *kib >= 0 ? static_cast<std::uint64_t>(*kib) * 1024 : UINT64_MAX;
}

}  // namespace netpipe
