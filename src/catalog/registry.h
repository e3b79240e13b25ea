// SPDX-License-Identifier: Apache-2.0
// Finds, loads and checks modules.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "catalog/contract.h"
#include "netpipe/module.h"

namespace netpipe {

struct LoadedModule {
  const np_module* table = nullptr;
  std::string path;                   // of the shared library
  std::string description;            // path of the description it is known by; "": it was loaded
  std::shared_ptr<const void> owner;  // of the table, where that is not the library
};

// Does the library start the ranks with a launcher of its own, so that each variant is measured by a job of its own?
inline bool launched(const np_module& module) { return process_model(module) == ProcessModel::launched; }

struct RefusedModule {
  std::string path;
  std::string reason;  // a sentence
};

class Registry {
 public:
  // Every *.so of the directories, or its description NAME.module where it has an @ in its name (description.h), and
  // the files. A file that the user named and that is refused is a failure; one in a directory is listed in refused().
  // The first of two modules with one name wins; files come before directories.
  static Result<Registry> load(const std::vector<std::string>& directories, const std::vector<std::string>& files);

  // One module alone, loaded whatever it is, under this name ("": its own).
  static Result<Registry> load_as(const std::string& file, const std::string& name);

  // The same for one that is in this program already; file: where it came from.
  static Result<Registry> of(const np_module* table, const std::string& file, const std::string& name);

  [[nodiscard]] const LoadedModule* find(std::string_view name) const;
  [[nodiscard]] const std::vector<LoadedModule>& modules() const { return modules_; }
  [[nodiscard]] const std::vector<RefusedModule>& refused() const { return refused_; }
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  static Result<Registry> only(LoadedModule module, const std::string& name);
  std::vector<LoadedModule> modules_;
  std::vector<RefusedModule> refused_;
};

// A directory where modules are looked for. kind: "environment" (named in NETPIPE_MODULE_PATH), "installation" or
// "user".
struct ModuleDirectory {
  std::string path;
  const char* kind;
};

// In the order of the search: $NETPIPE_MODULE_PATH (separated by colons), ../lib/netpipe/modules beside the executable,
// and the user's own, netpipe/modules in $XDG_DATA_HOME (~/.local/share).
std::vector<ModuleDirectory> module_search_path();
std::vector<std::string> module_directories();

// Is this table one that the core can use? The sentence names both sides of a mismatch.
Outcome check_table(const np_module* table, const std::string& path);

// The sentence that a module's probe leaves, or "" when it can be used here.
std::string probe_reason(const np_module& table);

}  // namespace netpipe
