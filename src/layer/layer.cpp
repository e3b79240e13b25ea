// SPDX-License-Identifier: Apache-2.0
#include "layer/layer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <utility>

namespace netpipe {
namespace {

// An older module must at least say what it is, and of an option at least what it means.
constexpr std::uint32_t least_module_bytes = offsetof(np_module, options);
constexpr std::uint32_t least_option_bytes = offsetof(np_option, tunable);
constexpr std::uint32_t least_counter_bytes = offsetof(np_counter, help);
constexpr std::uint32_t least_group_bytes = 2 * sizeof(std::uint32_t);

std::string hex(std::uint64_t value) {
  std::array<char, 20> room{};
  std::snprintf(room.data(), room.size(), "0x%llx", static_cast<unsigned long long>(value));
  return room.data();
}

// As much of a table as both sides know.
template <typename Table>
void copy_table(Table& to, const void* from, std::size_t bytes) {
  std::memcpy(static_cast<void*>(&to), from, std::min(bytes, sizeof(Table)));
}

template <typename Row>
std::vector<Row> copy_rows(const Row* rows, std::uint32_t count, std::uint32_t row_bytes) {
  std::vector<Row> copies(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    copy_table(copies[i], reinterpret_cast<const char*>(rows) + std::size_t{row_bytes} * i, row_bytes);
  }
  return copies;
}

std::string too_short(const std::string& table, std::uint32_t bytes, std::uint32_t least) {
  return "its table of " + table + " has " + std::to_string(bytes) + " bytes, at least " + std::to_string(least) +
         " are needed; set its size to that of the table in module.h";
}

// The group that a module points to, if any, into the Layer. "" or what is wrong.
template <typename Group>
std::string take_group(Group& to, const Group*& from, const char* name) {
  if (from == nullptr) return {};
  if (from->size < least_group_bytes) return too_short(name, from->size, least_group_bytes);
  copy_table(to, from, from->size);
  from = nullptr;
  return {};
}

}  // namespace

Result<std::unique_ptr<Layer>> Layer::of(const np_module* table, const std::string& path) {
  const auto refuse = [&](const std::string& why) { return usage("module " + path + " is refused: " + why); };
  if (table == nullptr) return refuse(NP_ENTRY "() returned no table");
  if (table->magic != NP_MAGIC) {
    return refuse("its magic number is " + hex(table->magic) + ", a netpipe module has " + hex(NP_MAGIC));
  }
  if (table->abi != NP_ABI) {
    return refuse("it was built for module ABI " + std::to_string(table->abi) + ", this netpipe has " +
                  std::to_string(NP_ABI) + "; build it again with this netpipe's module.h");
  }
  if (table->size < least_module_bytes) return refuse(too_short("operations", table->size, least_module_bytes));

  auto layer = std::make_unique<Layer>();
  auto& module = static_cast<np_module&>(*layer);
  copy_table(module, table, table->size);
  if (module.noptions > 0) {
    if (module.options == nullptr) return refuse("it counts options and has no table of them");
    if (module.option_bytes < least_option_bytes) {
      return refuse(too_short("options", module.option_bytes, least_option_bytes) + " (option_bytes)");
    }
    layer->keep_options(copy_rows(module.options, module.noptions, module.option_bytes));
  }
  if (module.ncounters > 0) {
    if (module.counters == nullptr) return refuse("it counts counters and has no table of them");
    if (module.counter_bytes < least_counter_bytes) {
      return refuse(too_short("counters", module.counter_bytes, least_counter_bytes) + " (counter_bytes)");
    }
    layer->keep_counters(copy_rows(module.counters, module.ncounters, module.counter_bytes));
  }
  if (module.nmeasures > 0) {
    if (module.measures == nullptr) return refuse("it counts measures and has no table of them");
    if (module.measure_bytes < sizeof(np_measure)) {
      return refuse(too_short("measures", module.measure_bytes, sizeof(np_measure)) + " (measure_bytes)");
    }
    layer->keep_measures(copy_rows(module.measures, module.nmeasures, module.measure_bytes));
  }
  std::string fault = take_group(static_cast<np_messages&>(*layer), module.messages, "messages");
  if (fault.empty()) fault = take_group(static_cast<np_one_sided&>(*layer), module.one_sided, "one_sided");
  if (fault.empty()) fault = take_group(static_cast<np_collectives&>(*layer), module.collectives, "collectives");
  for (const np_memory* const* memory = std::exchange(module.memories, nullptr); memory != nullptr && *memory;
       ++memory) {
    if ((*memory)->size < least_group_bytes && fault.empty()) {
      fault = too_short("memory", (*memory)->size, least_group_bytes);
    }
    if (!fault.empty()) break;
    if ((*memory)->kind > NP_MEMORY_DEVICE) continue;  // of a newer module
    copy_table(layer->memory_kinds.emplace_back(), *memory, (*memory)->size);
  }
  if (fault.empty()) fault = layer_fault(*layer);
  if (!fault.empty()) return refuse(fault);
  return layer;
}

void Layer::keep_options(std::vector<np_option> kept) {
  option_list_ = std::move(kept);
  options = option_list_.empty() ? nullptr : option_list_.data();
  noptions = static_cast<std::uint32_t>(option_list_.size());
  option_bytes = sizeof(np_option);
}

void Layer::keep_counters(std::vector<np_counter> kept) {
  counter_list_ = std::move(kept);
  counters = counter_list_.empty() ? nullptr : counter_list_.data();
  ncounters = static_cast<std::uint32_t>(counter_list_.size());
  counter_bytes = sizeof(np_counter);
}

void Layer::keep_measures(std::vector<np_measure> kept) {
  measure_list_ = std::move(kept);
  measures = measure_list_.empty() ? nullptr : measure_list_.data();
  nmeasures = static_cast<std::uint32_t>(measure_list_.size());
  measure_bytes = sizeof(np_measure);
}

void Layer::rename(std::string new_name) {
  own_name_ = std::make_unique<const std::string>(std::move(new_name));
  name = own_name_->c_str();
}

const np_memory* Layer::memory_of(np_memory_kind kind) const {
  const auto at = std::find_if(memory_kinds.begin(), memory_kinds.end(),
                               [kind](const np_memory& memory) { return memory.kind == static_cast<unsigned>(kind); });
  return at == memory_kinds.end() ? nullptr : &*at;
}

}  // namespace netpipe
