// SPDX-License-Identifier: Apache-2.0
#include "catalog/contract.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace netpipe {
namespace {

constexpr std::array<std::string_view, 5> type_names = {"bool", "int", "size", "choice", "text"};

// So that a name and its field never differ.
#define NP_EVERY_OPERATION(X) \
  X(probe)                    \
  X(open)                     \
  X(close)                    \
  X(bootstrap)                \
  X(address)                  \
  X(connect)                  \
  X(reset)                    \
  X(limits)                   \
  X(alloc)                    \
  X(free)                     \
  X(send)                     \
  X(recv)                     \
  X(isend)                    \
  X(irecv)                    \
  X(wait)                     \
  X(test)                     \
  X(expose)                   \
  X(attach)                   \
  X(withdraw)                 \
  X(put)                      \
  X(get)                      \
  X(fence)                    \
  X(flush)                    \
  X(collective)               \
  X(barrier)                  \
  X(describe)                 \
  X(counters)                 \
  X(prepare)

void elsewhere() { std::abort(); }

}  // namespace

std::vector<std::string_view> operations(const np_module& table) {
  std::vector<std::string_view> there;
#define NP_LIST(field) \
  if (table.field != nullptr) there.emplace_back(#field);
  NP_EVERY_OPERATION(NP_LIST)
#undef NP_LIST
  return there;
}

bool mark_operation(np_module& table, std::string_view name) {
#define NP_MARK(field)                                                \
  if (name == #field) {                                               \
    table.field = reinterpret_cast<decltype(table.field)>(elsewhere); \
    return true;                                                      \
  }
  NP_EVERY_OPERATION(NP_MARK)
#undef NP_MARK
  return false;
}

ProcessModel process_model(const np_module& module) {
  return module.bootstrap != nullptr ? ProcessModel::launched : ProcessModel::forked;
}

std::string_view type_name(np_type type) { return type_names.at(static_cast<std::size_t>(type)); }

std::optional<np_type> type_named(std::string_view name) {
  const auto* found = std::find(type_names.begin(), type_names.end(), name);
  if (found == type_names.end()) return std::nullopt;
  return static_cast<np_type>(found - type_names.begin());
}

}  // namespace netpipe
