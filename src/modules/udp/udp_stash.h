// SPDX-License-Identifier: Apache-2.0
// Datagrams of later messages that overtook the one that is being received.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "udp_datagram.h"

namespace netpipe::udp {

class Stash {
 public:
  // Room for so many datagrams of so many bytes.
  Stash(size_t most, size_t bytes) : bytes_(bytes), entries_(most), memory_(most * bytes) {}

  [[nodiscard]] size_t count() const { return count_; }

  // False: there is no room for it.
  bool keep(const Header& header, const char* data, size_t bytes, bool overtaken) {
    if (bytes > bytes_) return false;
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].used) continue;
      entries_[i] = {true, overtaken, header, bytes};
      if (bytes != 0) std::memcpy(&memory_[i * bytes_], data, bytes);
      ++count_;
      return true;
    }
    return false;
  }

  // Takes out those of this message: take(header, data, bytes, overtaken).
  template <typename Take>
  void take(uint32_t message, const Take& take) {
    for (size_t i = 0; i < entries_.size() && count_ > 0; ++i) {
      if (!entries_[i].used || entries_[i].header.message != message) continue;
      entries_[i].used = false;
      --count_;
      take(entries_[i].header, &memory_[i * bytes_], entries_[i].bytes, entries_[i].overtaken);
    }
  }

 private:
  struct Entry {
    bool used = false;
    bool overtaken = false;  // it came behind a later one
    Header header;
    size_t bytes = 0;
  };
  size_t bytes_, count_ = 0;
  std::vector<Entry> entries_;
  std::vector<char> memory_;
};

}  // namespace netpipe::udp
