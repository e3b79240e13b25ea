// SPDX-License-Identifier: Apache-2.0
// One module as the rest of netpipe sees it: every table of the contract at its full size, and flat, so that a pattern
// calls `layer.send(...)` with one load whatever the age of the module. What a shorter table lacks is NULL or 0, what a
// longer one has beyond module.h is left out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "netpipe/module.h"

namespace netpipe {

// The operations are those of module.h, by the same names. `messages`, `one_sided`, `collectives` and `memories` of
// np_module are NULL here: what they pointed to has been copied into the Layer itself.
struct Layer : np_module, np_messages, np_one_sided, np_collectives {
  // Two tables have an operation of this name. That of np_collectives is `layer.np_collectives::prepare`.
  using np_module::prepare;

  Layer() : np_module{}, np_messages{}, np_one_sided{}, np_collectives{} {}
  Layer(Layer&&) = default;
  Layer& operator=(Layer&&) = default;
  Layer(const Layer&) = delete;  // options, counters and measures point into the lists
  Layer& operator=(const Layer&) = delete;
  ~Layer() = default;

  // Copies a table that a module exported and checks it. The strings and functions in it stay the module's. path: where
  // it came from, for the sentence of a refusal (Exit::usage), which names both sides of a mismatch.
  static Result<std::unique_ptr<Layer>> of(const np_module* table, const std::string& path);

  // Replace what the module has.
  void keep_options(std::vector<np_option> kept);
  void keep_counters(std::vector<np_counter> kept);
  void keep_measures(std::vector<np_measure> kept);
  void rename(std::string new_name);

  // The layer's own memory of this kind, or NULL.
  [[nodiscard]] const np_memory* memory_of(np_memory_kind kind) const;
  // What message memory comes from unless the user says otherwise; NULL: netpipe's own.
  [[nodiscard]] const np_memory* own_memory() const { return memory_kinds.empty() ? nullptr : memory_kinds.data(); }
  // The kind that limits name by its place in the list; NULL: netpipe's own, of a layer that has none.
  [[nodiscard]] const np_memory* memory_at(std::uint32_t place) const {
    return memory_kinds.empty() ? nullptr : &memory_kinds[place];
  }
  [[nodiscard]] bool has_memory_at(std::uint32_t place) const {
    return memory_kinds.empty() ? place == 0 : place < memory_kinds.size();
  }

  std::vector<np_memory> memory_kinds;

 private:
  std::vector<np_option> option_list_;
  std::vector<np_counter> counter_list_;
  std::vector<np_measure> measure_list_;
  std::unique_ptr<const std::string> own_name_;
};

// Started by a launcher of its library, so that each variant is measured by processes of its own.
inline bool launched(const Layer& layer) { return layer.process_model == NP_LAUNCHED; }

// Its daemons are started on all hosts before its ranks (python/netpipe/libraries/daemons); a server starts none.
inline bool has_daemons(const Layer& layer) { return layer.process_model == NP_DAEMONS; }

// Whether one of two ranks can be the process of a server on another host.
inline bool can_be_served(const Layer& layer) { return layer.crosses_hosts != 0 && !has_daemons(layer); }

// What is wrong with this layer, as the end of a sentence; "": nothing. Sizes and version were checked before.
std::string layer_fault(const Layer& layer);

}  // namespace netpipe
