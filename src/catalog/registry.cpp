// SPDX-License-Identifier: Apache-2.0
#include "catalog/registry.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>

#include "base/text.h"
#include "catalog/description.h"
#include "catalog/probing.h"

namespace netpipe {
namespace {

namespace fs = std::filesystem;

constexpr const char* description_ending = ".module";

Result<LoadedModule> describe_one(const std::string& path) {
  Result<std::unique_ptr<DescribedModule>> module = DescribedModule::read(path);
  if (!module) return module.failure();
  const std::shared_ptr<const DescribedModule> shared = std::move(*module);
  return LoadedModule{std::shared_ptr<const Layer>(shared, &shared->layer()), shared->file(), path, {}};
}

// One that was looked at in a process apart.
Result<LoadedModule> probed_one(const std::string& path, const Result<ProbedModule>& probed) {
  if (!probed) return probed.failure();
  Result<std::unique_ptr<DescribedModule>> module = DescribedModule::parse(probed->description, path);
  if (!module) return module.failure();
  const std::shared_ptr<const DescribedModule> shared = std::move(*module);
  return LoadedModule{std::shared_ptr<const Layer>(shared, &shared->layer()), path, {}, probed->reason};
}

// One module alone, under this name ("": its own).
Result<LoadedModule> named(Result<std::unique_ptr<Layer>> layer, const std::string& path, const std::string& name) {
  if (!layer) return layer.failure();
  if (!name.empty()) {
    (*layer)->rename(name);
    if (const std::string fault = layer_fault(**layer); !fault.empty()) {
      return usage("module " + path + " is refused as '" + name + "': " + fault);
    }
  }
  return LoadedModule{std::move(*layer), path, {}, {}};
}

}  // namespace

Result<Registry> Registry::load(const std::vector<std::string>& directories, const std::vector<std::string>& files) {
  Registry registry;
  std::vector<std::string> paths;
  for (const std::string& file : files) {
    std::error_code error;
    if (!fs::exists(file, error)) return usage("module file " + file + " does not exist");
    // dlopen takes a name without a slash for one to search in the library path.
    paths.push_back(fs::absolute(file).string());
  }
  std::vector<AbsentModule> absent;
  for (const std::string& directory : directories) {
    std::error_code error;
    const auto first = static_cast<std::ptrdiff_t>(paths.size());
    for (const auto& entry : fs::directory_iterator(directory, error)) {
      const fs::path& path = entry.path();
      if (path.extension() == ".absent") {
        if (std::optional<AbsentModule> module = read_absent(path.string())) absent.push_back(std::move(*module));
      }
      const bool described = path.stem().string().find('@') != std::string::npos;
      if (path.extension() == (described ? description_ending : ".so")) paths.push_back(path.string());
    }
    std::sort(paths.begin() + first, paths.end());
  }
  const auto is_description = [](const std::string& path) { return fs::path(path).extension() == description_ending; };
  std::vector<std::string> libraries;
  std::copy_if(paths.begin(), paths.end(), std::back_inserter(libraries), std::not_fn(is_description));
  const std::vector<Result<ProbedModule>> probed = probe_modules(libraries);
  std::size_t next = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    Result<LoadedModule> module =
        is_description(paths[i]) ? describe_one(paths[i]) : probed_one(paths[i], probed[next++]);
    if (!module) {
      if (i < files.size()) return module.failure();
      registry.refused_.push_back({paths[i], module.failure()});
    } else if (registry.find(module->layer->name) == nullptr) {
      registry.modules_.push_back(std::move(*module));
    }
  }
  for (AbsentModule& module : absent) {
    if (registry.find(module.name) == nullptr) registry.absent_.push_back(std::move(module));
  }
  return registry;
}

Outcome Registry::bind(const std::vector<std::string>& names) {
  for (LoadedModule& module : modules_) {
    const bool is_chosen = std::find(names.begin(), names.end(), module.layer->name) != names.end();
    if (!is_chosen || !module.description.empty()) continue;
    Result<LoadedModule> loaded = named(load_layer(module.path), module.path, {});
    if (!loaded) return loaded.failure();
    module.layer = std::move(loaded->layer);
  }
  return ok();
}

Result<Registry> Registry::load_as(const std::string& file, const std::string& name) {
  std::error_code error;
  if (!fs::exists(file, error)) return usage("module file " + file + " does not exist");
  const std::string path = fs::absolute(file).string();
  return only(named(load_layer(path), path, name));
}

Result<Registry> Registry::of(const np_module* table, const std::string& file, const std::string& name) {
  return only(named(Layer::of(table, file), file, name));
}

Result<Registry> Registry::only(Result<LoadedModule> module) {
  if (!module) return module.failure();
  Registry registry;
  registry.modules_.push_back(std::move(*module));
  return registry;
}

const LoadedModule* Registry::find(std::string_view name) const {
  const auto at =
      std::find_if(modules_.begin(), modules_.end(), [&](const LoadedModule& m) { return name == m.layer->name; });
  return at == modules_.end() ? nullptr : &*at;
}

Result<const LoadedModule*> Registry::require(const std::string& name) const {
  if (const LoadedModule* module = find(name)) return module;
  for (const AbsentModule& module : absent_) {
    if (module.name == name) return unavailable("module " + name + " is not available: " + module.reason);
  }
  for (const RefusedModule& module : refused_) {
    if (fs::path(module.path).stem() != name) continue;
    const bool misbehaved = module.why.exit == Exit::failed;
    return Failure{misbehaved ? Exit::failed : Exit::unavailable, module.why.sentence};
  }
  if (name.empty()) return usage("a variant begins with the name of its module, such as tcp or tcp:wait=poll");
  if (name.find(',') != std::string::npos) {
    return usage("there is no module '" + name + "'; write variants with blanks between them");
  }
  return usage("there is no module '" + name + "'" + did_you_mean(name, names()));
}

std::vector<std::string> Registry::names() const {
  std::vector<std::string> all;
  for (const LoadedModule& module : modules_) all.emplace_back(module.layer->name);
  for (const AbsentModule& module : absent_) all.push_back(module.name);
  return all;
}

std::vector<ModuleDirectory> module_search_path() {
  std::vector<ModuleDirectory> directories;
  if (const char* path = std::getenv("NETPIPE_MODULE_PATH"); path != nullptr) {
    for (std::string& one : split(path, ':')) {
      if (!one.empty()) directories.push_back({std::move(one), "environment"});
    }
  }
  std::array<char, PATH_MAX> self{};
  const ssize_t length = readlink("/proc/self/exe", self.data(), self.size() - 1);
  if (length > 0) {
    const fs::path prefix =
        fs::path(std::string(self.data(), static_cast<std::size_t>(length))).parent_path().parent_path();
    directories.push_back({(prefix / "lib/netpipe/modules").string(), "installation"});
  }
  const char* data = std::getenv("XDG_DATA_HOME");
  const char* home = std::getenv("HOME");
  if (data != nullptr && *data == '/') {
    directories.push_back({std::string(data) + "/netpipe/modules", "user"});
  } else if (home != nullptr && *home == '/') {
    directories.push_back({std::string(home) + "/.local/share/netpipe/modules", "user"});
  }
  return directories;
}

std::vector<std::string> module_directories() {
  std::vector<std::string> paths;
  for (ModuleDirectory& directory : module_search_path()) paths.push_back(std::move(directory.path));
  return paths;
}

}  // namespace netpipe
