// SPDX-License-Identifier: Apache-2.0
// Message memory as patterns and the engine reach it: by pointer where the processor can, else through the table of the
// layer that it belongs to. Outside the timed region.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "netpipe/module.h"

namespace netpipe {

// Where the bytes of one half lie, and the table of their kind.
struct MemoryHalf {
  const np_memory* table = nullptr;  // nullptr: ordinary pages
  char* base = nullptr;
  std::size_t bytes = 0;
};

class Memory {
 public:
  Memory() = default;  // ordinary pages
  // The halves may be of different kinds: a copy to an accelerator starts in memory of the host. All outlives this.
  // Places in neither half are ordinary pages.
  Memory(const MemoryHalf& outgoing, const MemoryHalf& incoming, np_endpoint* endpoint)
      : outgoing_(outgoing), incoming_(incoming), endpoint_(endpoint) {}

  // Can the processor read and write it by pointer?
  [[nodiscard]] bool of_host(const void* place) const { return table_of(place) == nullptr; }
  // All of it?
  [[nodiscard]] bool of_host() const { return of_host(outgoing_.base) && of_host(incoming_.base); }

  void write(void* place, const void* host, std::size_t bytes) {
    const np_memory* const table = table_of(place);
    table == nullptr ? void(std::memcpy(place, host, bytes)) : note(table->copy_in(endpoint_, place, host, bytes));
  }
  void read(void* host, const void* place, std::size_t bytes) {
    const np_memory* const table = table_of(place);
    table == nullptr ? void(std::memcpy(host, place, bytes)) : note(table->copy_out(endpoint_, host, place, bytes));
  }
  void set(void* place, int byte, std::size_t bytes) {
    const np_memory* const table = table_of(place);
    table == nullptr ? void(std::memset(place, byte, bytes)) : note(table->fill(endpoint_, place, byte, bytes));
  }
  // How many bytes are as in host, up to the first that is not.
  std::size_t equal(const void* place, const void* host, std::size_t bytes) {
    std::size_t right = 0;
    const np_memory* const table = table_of(place);
    if (table == nullptr) {
      const auto* const seen = static_cast<const char*>(place);
      return static_cast<std::size_t>(std::mismatch(seen, seen + bytes, static_cast<const char*>(host)).first - seen);
    }
    note(table->compare(endpoint_, place, host, bytes, &right));
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

  // Through which this place is reached; nullptr: by pointer.
  [[nodiscard]] const np_memory* table_of(const void* place) const {
    for (const MemoryHalf* half : {&outgoing_, &incoming_}) {
      const auto offset = reinterpret_cast<std::uintptr_t>(place) - reinterpret_cast<std::uintptr_t>(half->base);
      if (half->table != nullptr && half->table->host_access == 0 && offset < half->bytes) return half->table;
    }
    return nullptr;
  }

  MemoryHalf outgoing_, incoming_;
  np_endpoint* endpoint_ = nullptr;
  np_status status_ = NP_OK;
};

}  // namespace netpipe
