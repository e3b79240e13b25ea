// SPDX-License-Identifier: Apache-2.0
#include "catalog/contract.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace netpipe {
namespace {

constexpr std::array<std::string_view, 5> type_names = {"bool", "int", "size", "choice", "text"};
constexpr std::array<std::string_view, 4> tunable_words = {"no", "yes", "waiting", "calling"};  // of np_tunable

// Every operation once, so that a name and its field never differ.
#define NP_EVERY_OPERATION(X)                    \
  X(probe, probe)                                \
  X(open, open)                                  \
  X(close, close)                                \
  X(bootstrap, bootstrap)                        \
  X(address, address)                            \
  X(connect, connect)                            \
  X(reset, reset)                                \
  X(limits, limits)                              \
  X(send, send)                                  \
  X(recv, recv)                                  \
  X(isend, isend)                                \
  X(irecv, irecv)                                \
  X(cast, cast)                                  \
  X(recv_cast, recv_cast)                        \
  X(isend_parts, isend_parts)                    \
  X(part_ready, part_ready)                      \
  X(sendrecv, sendrecv)                          \
  X(wait, wait)                                  \
  X(test, test)                                  \
  X(expose, expose)                              \
  X(attach, attach)                              \
  X(withdraw, withdraw)                          \
  X(put, put)                                    \
  X(get, get)                                    \
  X(fence, fence)                                \
  X(flush, flush)                                \
  X(iput, iput)                                  \
  X(iget, iget)                                  \
  X(put_each, put_each)                          \
  X(get_each, get_each)                          \
  X(put_signal, put_signal)                      \
  X(await_signal, await_signal)                  \
  X(put_strided, put_strided)                    \
  X(get_strided, get_strided)                    \
  X(atomic, atomic)                              \
  X(accumulate, accumulate)                      \
  X(fetch_accumulate, fetch_accumulate)          \
  X(accumulate_each, accumulate_each)            \
  X(prepare_collective, np_collectives::prepare) \
  X(release_collective, release)                 \
  X(barrier, barrier)                            \
  X(describe, describe)                          \
  X(read_counters, read_counters)                \
  X(prepare, prepare)                            \
  X(environment, environment)

void elsewhere() { std::abort(); }

}  // namespace

std::vector<std::string_view> operations(const Layer& layer) {
  std::vector<std::string_view> there;
#define NP_LIST(operation, field) \
  if (layer.field != nullptr) there.emplace_back(#operation);
  NP_EVERY_OPERATION(NP_LIST)
#undef NP_LIST
  if (layer.own_memory() != nullptr) there.insert(there.end(), {"alloc", "free"});
  return there;
}

bool mark_operation(Layer& layer, std::string_view name) {
#define NP_MARK(operation, field)                                     \
  if (name == #operation) {                                           \
    layer.field = reinterpret_cast<decltype(layer.field)>(elsewhere); \
    return true;                                                      \
  }
  NP_EVERY_OPERATION(NP_MARK)
#undef NP_MARK
  if (name != "alloc" && name != "free") return false;
  if (layer.memory_kinds.empty()) {
    np_memory& memory = layer.memory_kinds.emplace_back();
    memory.kind = NP_MEMORY_LAYER;
    memory.host_access = 1;
    memory.alloc = reinterpret_cast<decltype(memory.alloc)>(elsewhere);
    memory.free = reinterpret_cast<decltype(memory.free)>(elsewhere);
  }
  return true;
}

std::string_view type_name(np_type type) { return type_names.at(static_cast<std::size_t>(type)); }

std::optional<np_type> type_named(std::string_view name) {
  const auto* found = std::find(type_names.begin(), type_names.end(), name);
  if (found == type_names.end()) return std::nullopt;
  return static_cast<np_type>(found - type_names.begin());
}

np_tunable tunable_of(const np_option& option) {
  return option.tunable < tunable_words.size() ? static_cast<np_tunable>(option.tunable) : NP_TUNABLE;
}

std::string_view tunable_word(np_tunable tunable) { return tunable_words.at(static_cast<std::size_t>(tunable)); }

std::optional<np_tunable> tunable_named(std::string_view word) {
  const auto* found = std::find(tunable_words.begin(), tunable_words.end(), word);
  if (found == tunable_words.end()) return std::nullopt;
  return static_cast<np_tunable>(found - tunable_words.begin());
}

}  // namespace netpipe
