// SPDX-License-Identifier: Apache-2.0
// Message memory as patterns and the engine reach it: by pointer where the processor can, else through the table of the
// layer that it belongs to. Outside the timed region.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "netpipe/module.h"

namespace netpipe {

class Memory {
 public:
  Memory() = default;  // ordinary pages
  // table: of the kind that the layer provides; nullptr: ordinary pages. Both outlive this.
  Memory(const np_memory* table, np_endpoint* endpoint)
      : table_(table != nullptr && table->host_access == 0 ? table : nullptr), endpoint_(endpoint) {}

  // Can the processor read and write it by pointer?
  [[nodiscard]] bool of_host() const { return table_ == nullptr; }

  void write(void* place, const void* host, std::size_t bytes) {
    of_host() ? void(std::memcpy(place, host, bytes)) : note(table_->copy_in(endpoint_, place, host, bytes));
  }
  void read(void* host, const void* place, std::size_t bytes) {
    of_host() ? void(std::memcpy(host, place, bytes)) : note(table_->copy_out(endpoint_, host, place, bytes));
  }
  void set(void* place, int byte, std::size_t bytes) {
    of_host() ? void(std::memset(place, byte, bytes)) : note(table_->fill(endpoint_, place, byte, bytes));
  }
  // How many bytes are as in host, up to the first that is not.
  std::size_t equal(const void* place, const void* host, std::size_t bytes) {
    std::size_t right = 0;
    if (of_host()) {
      const auto* const seen = static_cast<const char*>(place);
      return static_cast<std::size_t>(std::mismatch(seen, seen + bytes, static_cast<const char*>(host)).first - seen);
    }
    note(table_->compare(endpoint_, place, host, bytes, &right));
    return right;
  }

  // One value, of or for the other side.
  template <typename Value>
  void put(void* place, const Value& value) {
    write(place, &value, sizeof value);
  }
  template <typename Value>
  Value get(const void* place) {
    Value value{};
    read(&value, place, sizeof value);
    return value;
  }

  // The first of the layer's functions that failed since the last call.
  np_status take_status() {
    const np_status status = status_;
    status_ = NP_OK;
    return status;
  }

 private:
  void note(np_status status) {
    if (status_ == NP_OK) status_ = status;
  }

  const np_memory* table_ = nullptr;
  np_endpoint* endpoint_ = nullptr;
  np_status status_ = NP_OK;
};

}  // namespace netpipe
