// SPDX-License-Identifier: Apache-2.0
// The facts while they are gathered, and the functions that gather them. A fact has one name, "cpu.frequency.driver";
// the dots are the nesting of the JSON object. Facts are recorded and not judged here: the rules that judge them are in
// python/netpipe/findings/machine, and ask for them by these names.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "machine/files.h"
#include "machine/topology.h"
#include "record/json.h"

namespace netpipe {

class Facts {
 public:
  struct Raw {
    std::string json;  // a list or object that is JSON already
  };
  using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                             std::vector<std::string>, Raw>;

  void set(std::string name, Value value) { values_[std::move(name)] = std::move(value); }
  void set(std::string name, const char* text) { set(std::move(name), Value(std::string(text))); }
  template <typename T>
  void set(std::string name, std::optional<T> maybe) {
    set(std::move(name), maybe ? Value(*std::move(maybe)) : Value());
  }

  // nullopt: not known, or of another type. A number is an integer or a double.
  [[nodiscard]] std::optional<double> number(std::string_view name) const;
  [[nodiscard]] std::optional<bool> truth(std::string_view name) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view name) const;

  // One field per first word into the object that is open in json.
  void write(Json& json) const;

 private:
  [[nodiscard]] const Value* find(std::string_view name) const;
  // Sorted, so that all names below one object stand together.
  std::map<std::string, Value, std::less<>> values_;
};

void gather_cpu(const Files& files, const Topology& topology, std::span<const int> pinned, Facts& facts);
void gather_memory(const Files& files, Facts& facts);
void gather_kernel(const Files& files, Facts& facts);
void gather_clock(const Files& files, Facts& facts);
void gather_limits(const Files& files, const Topology& topology, Facts& facts);
void gather_load(const Files& files, Facts& facts);
void gather_network(const Files& files, Facts& facts);
void gather_software(const Files& files, Facts& facts);

// All of them but gather_software, which is about the running program. `cpus` as in environment_json.
Facts host_facts(const Files& files, std::span<const int> cpus);

}  // namespace netpipe
