// SPDX-License-Identifier: Apache-2.0
// A module's table as text. Libraries that come with a launcher of their own are described instead of loaded by
// whoever does not run them: two MPIs may have one library name, and then one process can hold only one of them.
//
//     netpipe-module 1
//     name mpi@openmpi
//     file /usr/lib/netpipe/modules/mpi@openmpi.so
//     summary ...
//     version ...
//     below tcp                       not there for NULL, nor is adds
//     adds ...
//     ranks 2 2147483647
//     crosses-hosts yes
//     operations bootstrap send recv ...
//     option<TAB>name<TAB>type<TAB>default<TAB>min<TAB>max<TAB>choices<TAB>unit<TAB>tunable (yes, no)<TAB>help<TAB>
//         reserved, empty<TAB>unsupported (unsupported.h; older descriptions end with help)
//
// Other lines (family, launcher, environment, compiler, ...) are for Python and are not read here.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "netpipe/module.h"

namespace netpipe {

// name: what the module shall be called, "" for the name in its table.
std::string describe_table(const np_module& table, const std::string& file, const std::string& name);

class DescribedModule {
 public:
  // Exit::usage: the text is no description, and the sentence says in which line. path: where it came from.
  static Result<std::unique_ptr<DescribedModule>> parse(std::string_view text, const std::string& path);
  static Result<std::unique_ptr<DescribedModule>> read(const std::string& path);

  DescribedModule(const DescribedModule&) = delete;
  DescribedModule& operator=(const DescribedModule&) = delete;

  // An operation that is there can be asked for, and not called.
  [[nodiscard]] const np_module& table() const { return table_; }
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  DescribedModule() = default;
  const char* keep(std::string_view text);
  Outcome take(std::string_view key, std::string_view value);
  Outcome take_option(const std::vector<std::string>& fields);

  std::deque<std::string> texts_;  // never moves what it holds
  std::vector<np_option> options_;
  np_module table_{};
  std::string file_;
};

}  // namespace netpipe
