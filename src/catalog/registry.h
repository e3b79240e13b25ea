// SPDX-License-Identifier: Apache-2.0
// Finds, loads and checks modules.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "catalog/absent.h"
#include "layer/layer.h"

namespace netpipe {

struct LoadedModule {
  std::shared_ptr<const Layer> layer;
  std::string path;         // of the shared library
  std::string description;  // path of the description that it was read from; "": a process apart looked at the library
  std::string reason;       // why it cannot be used here, as its probe says; "": it can, or a description cannot tell
};

struct RefusedModule {
  std::string path;
  Failure why;  // Exit::failed: its code misbehaved
};

class Registry {
 public:
  // Every *.so of the directories and the files: a process apart looks at them (probing.h), and here their operations
  // can be looked at and not called. A module with an @ in its name is read from its description NAME.module instead
  // (description.h). A file that the user named and that is refused is a failure; one in a directory is listed in
  // refused(). The first of two modules with the same name wins; files come before directories.
  static Result<Registry> load(const std::vector<std::string>& directories, const std::vector<std::string>& files);

  // Loads the code of the modules with these names into this process, so that their operations can be called. Those
  // that have a description are left as they are: their code runs in the processes of a launcher.
  Outcome bind(const std::vector<std::string>& names);

  // One module alone, always loaded, under this name ("": its own).
  static Result<Registry> load_as(const std::string& file, const std::string& name);

  // The same for one that is already part of this program; file: where it came from.
  static Result<Registry> of(const np_module* table, const std::string& file, const std::string& name);

  [[nodiscard]] const LoadedModule* find(std::string_view name) const;
  [[nodiscard]] const std::vector<LoadedModule>& modules() const { return modules_; }
  [[nodiscard]] const std::vector<RefusedModule>& refused() const { return refused_; }
  // Layers of the directories that were not built, and are not there from elsewhere.
  [[nodiscard]] const std::vector<AbsentModule>& absent() const { return absent_; }
  // A module of this name; Exit::usage: there is none, Exit::unavailable: it was not built, or what is in its file was
  // refused, Exit::failed: its code misbehaved. The sentence says which.
  [[nodiscard]] Result<const LoadedModule*> require(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  static Result<Registry> only(Result<LoadedModule> module);
  std::vector<LoadedModule> modules_;
  std::vector<RefusedModule> refused_;
  std::vector<AbsentModule> absent_;
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

}  // namespace netpipe
