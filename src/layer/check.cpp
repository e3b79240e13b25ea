// SPDX-License-Identifier: Apache-2.0
// What a layer must have to be measured: a name, options that can be shown, and all of what belongs together.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "layer/layer.h"

namespace netpipe {
namespace {

bool good_name(const char* name) {
  if (name == nullptr || *name < 'a' || *name > 'z') return false;
  return std::all_of(name, name + std::char_traits<char>::length(name), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '@' || c == '-' || c == '.';
  });
}

std::string option_fault(const np_option& option) {
  if (!good_name(option.name)) return "it has an option whose name is missing or malformed";
  const std::string name = std::string("its option '") + option.name + "' has ";
  if (option.default_value == nullptr) return name + "no default";
  if (option.help == nullptr || option.unit == nullptr) return name + "no help or no unit (\"\" is a unit)";
  if (option.type < NP_BOOL || option.type > NP_TEXT) return name + "an unknown type";
  if (option.type == NP_CHOICE && (option.choices == nullptr || *option.choices == '\0')) return name + "no choices";
  if ((option.type == NP_INT || option.type == NP_SIZE) && option.min > option.max) {
    return name + "a smallest value above its largest";
  }
  return {};
}

std::string counter_fault(const np_counter& counter) {
  if (!good_name(counter.name)) return "it has a counter whose name is missing or malformed";
  if (counter.unit != nullptr && counter.kind <= NP_GAUGE) return {};
  return std::string("its counter '") + counter.name + "' has no unit or an unknown kind";
}

std::string measure_fault(const Layer& layer, const np_measure& measure) {
  if (!good_name(measure.name)) return "it has a measure whose name is missing or malformed";
  const std::string name = std::string("its measure '") + measure.name + "' has ";
  if (std::string_view(measure.name).starts_with("loss")) return name + "the name of what netpipe counts itself";
  if (measure.unit == nullptr) return name + "no unit";
  for (const std::uint32_t place : {measure.sum, measure.count}) {
    if (place >= layer.ncounters) return name + "a counter that is not in the table";
    if (layer.counters[place].kind != NP_COUNTS_UP) return name + "a counter that is a gauge";
  }
  return {};
}

std::string memory_fault(const np_memory& memory) {
  if (memory.alloc == nullptr || memory.free == nullptr) return "alloc and free of memory belong together";
  const bool reached =
      memory.copy_in != nullptr && memory.copy_out != nullptr && memory.fill != nullptr && memory.compare != nullptr;
  if (memory.host_access != 0 || reached) return {};
  return "memory without host_access needs copy_in, copy_out, fill and compare";
}

bool together(bool first, bool second) { return first == second; }

// The first rule of what belongs together that it breaks, or "".
std::string group_fault(const Layer& l) {
  const bool two_sided = l.send != nullptr || l.isend != nullptr;
  const bool one_sided = l.put != nullptr || l.get != nullptr || l.iput != nullptr || l.iget != nullptr ||
                         l.put_each != nullptr || l.get_each != nullptr || l.put_signal != nullptr ||
                         l.put_strided != nullptr || l.get_strided != nullptr || l.atomic != nullptr ||
                         l.accumulate != nullptr || l.fetch_accumulate != nullptr || l.accumulate_each != nullptr;
  const bool requests =
      l.isend != nullptr || l.irecv != nullptr || l.isend_parts != nullptr || l.iput != nullptr || l.iget != nullptr;
  const bool collective = l.np_collectives::prepare != nullptr;
  const struct {
    bool kept;
    const char* rule;
  } rules[] = {
      {l.open != nullptr && l.close != nullptr, "open and close are required"},
      {together(l.send != nullptr, l.recv != nullptr), "send and recv belong together"},
      {together(l.address != nullptr, l.connect != nullptr), "address and connect belong together"},
      {together(l.isend != nullptr, l.irecv != nullptr), "isend and irecv belong together"},
      {together(l.cast != nullptr, l.recv_cast != nullptr), "cast and recv_cast belong together"},
      {together(l.isend_parts != nullptr, l.part_ready != nullptr), "isend_parts and part_ready belong together"},
      {!requests || (l.wait != nullptr && l.test != nullptr),
       "isend, irecv, isend_parts, iput and iget need wait and test"},
      {!one_sided || (l.expose != nullptr && l.attach != nullptr && l.withdraw != nullptr),
       "put, get and the other one-sided operations need expose, attach and withdraw"},
      {together(l.put_signal != nullptr, l.await_signal != nullptr), "put_signal and await_signal belong together"},
      {together(collective, l.release != nullptr), "prepare and release of collectives belong together"},
      {together(l.ncounters > 0, l.read_counters != nullptr), "counters and read_counters belong together"},
      {two_sided || one_sided || collective, "it has no operation that moves a message"},
      {l.process_model <= NP_DAEMONS, "its process model is unknown to this netpipe"},
      {together(launched(l), l.bootstrap != nullptr), "process model NP_LAUNCHED and bootstrap belong together"},
      {l.max_ranks == 1 || l.address != nullptr || launched(l),
       "several ranks need address and connect, or a launcher of the library (NP_LAUNCHED) and bootstrap"},
  };
  for (const auto& each : rules) {
    if (!each.kept) return each.rule;
  }
  return {};
}

}  // namespace

std::string layer_fault(const Layer& l) {
  if (!good_name(l.name)) return "its name is missing or is not lower case letters, digits, _ . - or @";
  if (l.summary == nullptr || l.version == nullptr) return "it has no summary or no version";
  if (l.min_ranks < 1 || l.max_ranks < l.min_ranks) {
    return "it wants from " + std::to_string(l.min_ranks) + " to " + std::to_string(l.max_ranks) + " ranks";
  }
  std::string fault;
  for (std::uint32_t i = 0; i < l.noptions && fault.empty(); ++i) fault = option_fault(l.options[i]);
  for (std::uint32_t i = 0; i < l.ncounters && fault.empty(); ++i) fault = counter_fault(l.counters[i]);
  for (std::uint32_t i = 0; i < l.nmeasures && fault.empty(); ++i) fault = measure_fault(l, l.measures[i]);
  for (std::size_t i = 0; i < l.memory_kinds.size() && fault.empty(); ++i) fault = memory_fault(l.memory_kinds[i]);
  return fault.empty() ? group_fault(l) : fault;
}

}  // namespace netpipe
