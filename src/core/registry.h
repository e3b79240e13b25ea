// SPDX-License-Identifier: Apache-2.0
// Finds, loads and checks modules.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "netpipe/module.h"

namespace netpipe {

struct LoadedModule {
  const np_module* table = nullptr;
  std::string path;
};

struct RefusedModule {
  std::string path;
  std::string reason;  // a sentence
};

class Registry {
 public:
  // Every *.so of the directories, then the files. A file that the user named and that is refused is a failure; one in
  // a directory is listed in refused(). The first of two modules with one name wins; files come before directories.
  static Result<Registry> load(const std::vector<std::string>& directories, const std::vector<std::string>& files);

  [[nodiscard]] const LoadedModule* find(std::string_view name) const;
  [[nodiscard]] const std::vector<LoadedModule>& modules() const { return modules_; }
  [[nodiscard]] const std::vector<RefusedModule>& refused() const { return refused_; }
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::vector<LoadedModule> modules_;
  std::vector<RefusedModule> refused_;
};

// Where the modules of this installation are: $NETPIPE_MODULE_PATH (colons), then ../lib/netpipe/modules beside the
// executable.
std::vector<std::string> module_directories();

// Is this table one that the core can use? The sentence names both sides of a mismatch.
Outcome check_table(const np_module* table, const std::string& path);

// The operations that are there, by their field names.
std::vector<std::string_view> operations(const np_module& table);

// The sentence that a module's probe leaves, or "" when it can be used here.
std::string probe_reason(const np_module& table);

}  // namespace netpipe
