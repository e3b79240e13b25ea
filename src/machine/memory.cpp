// SPDX-License-Identifier: Apache-2.0
#include "machine/memory.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "base/text.h"

namespace netpipe {

std::uint64_t last_level_cache_bytes() {
  std::uint64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    std::string text;
    if (!(file >> text)) break;
    if (const Result<std::uint64_t> size = parse_size(text); size) largest = std::max(largest, *size);
  }
  return largest != 0 ? largest : 32ULL << 20;
}

std::uint64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kib = 0;
  std::string rest;
  while (file >> name >> kib && std::getline(file, rest)) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return UINT64_MAX;
}

}  // namespace netpipe
