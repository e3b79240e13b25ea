// SPDX-License-Identifier: Apache-2.0
// A module's table as text. Modules of libraries that have their own launcher are described instead of loaded, except
// in the processes that the launcher starts: two MPI libraries may share one file name, and then a process can hold
// only one of them.
//
//     netpipe-module 1
//     abi 4
//     name mpi@openmpi
//     file /usr/lib/netpipe/modules/mpi@openmpi.so
//     summary ...
//     version ...
//     below tcp                       below and adds are left out where the table has NULL
//     adds ...
//     process-model launched          forked, launched or daemons
//     ranks 2 2147483647
//     threads 1                       the most that may use one endpoint
//     crosses-hosts yes
//     operations bootstrap send recv ...
//     counter<TAB>name<TAB>unit<TAB>kind (up, gauge)<TAB>help
//     measure<TAB>name<TAB>unit<TAB>counter of its sum<TAB>counter of its count<TAB>help      (behind the counters)
//     option<TAB>name<TAB>type<TAB>default<TAB>min<TAB>max<TAB>choices<TAB>unit<TAB>tunable<TAB>help
//           (tunable: yes, no, waiting or calling)<TAB>applies_to (messages, one_sided, collectives, requests, cast,
//           strided; separated by |; empty: all)<TAB>unsupported (unsupported.h)
//
// An option line without the last two fields is an older one: the option applies to all and can be set. Other lines
// (loaded, family, launcher, environment, compiler, ...) are for Python, or of older versions (rails), and are ignored
// here.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "layer/layer.h"

namespace netpipe {

// name: what the module shall be called; "": the name in its table.
std::string describe_layer(const Layer& layer, const std::string& file, const std::string& name);

class DescribedModule {
 public:
  // Exit::usage: the text is not a description, and the sentence says in which line. path: where it came from.
  static Result<std::unique_ptr<DescribedModule>> parse(std::string_view text, const std::string& path);
  static Result<std::unique_ptr<DescribedModule>> read(const std::string& path);

  DescribedModule(const DescribedModule&) = delete;
  DescribedModule& operator=(const DescribedModule&) = delete;

  // Its operations can be looked at and not called.
  [[nodiscard]] const Layer& layer() const { return layer_; }
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  DescribedModule() = default;
  const char* keep(std::string_view text);
  Outcome take(std::string_view key, std::string_view value);
  Outcome take_ranks(std::string_view value);
  Outcome take_option(std::vector<std::string> fields);
  Outcome take_counter(const std::vector<std::string>& fields);
  Outcome take_measure(const std::vector<std::string>& fields);

  std::deque<std::string> texts_;  // never moves what it holds
  std::vector<np_option> options_;
  std::vector<np_counter> counters_;
  std::vector<np_measure> measures_;
  Layer layer_;
  std::string file_;
};

}  // namespace netpipe
