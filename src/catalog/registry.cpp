// SPDX-License-Identifier: Apache-2.0
#include "catalog/registry.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <filesystem>

#include "base/text.h"
#include "catalog/description.h"

namespace netpipe {
namespace {

namespace fs = std::filesystem;

constexpr const char* description_ending = ".module";

Result<LoadedModule> load_one(const std::string& path) {
  // RTLD_LOCAL: two modules may bind two builds of one library.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return unavailable("module " + path + " cannot be loaded: " + (why != nullptr ? why : "unknown reason") +
                       "; install what is missing, or remove the module");
  }
  using Entry = const np_module* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, NP_ENTRY));
  if (entry == nullptr) {
    dlclose(library);
    return usage(path + " is no netpipe module: it does not export " NP_ENTRY "(); see docs/writing-a-module.md");
  }
  const np_module* table = entry();
  if (const Outcome fits = check_table(table, path); !fits) {
    dlclose(library);  // the sentence has copied what it names of the library
    return fits.failure();
  }
  return LoadedModule{table, path, {}, {}};
}

Result<LoadedModule> describe_one(const std::string& path) {
  Result<std::unique_ptr<DescribedModule>> module = DescribedModule::read(path);
  if (!module) return module.failure();
  const std::shared_ptr<const DescribedModule> shared = std::move(*module);
  return LoadedModule{&shared->table(), shared->file(), path, shared};
}

std::string hex(std::uint64_t value) {
  std::array<char, 20> room{};
  std::snprintf(room.data(), room.size(), "0x%llx", static_cast<unsigned long long>(value));
  return room.data();
}

bool good_name(const char* name) {
  if (name == nullptr || *name < 'a' || *name > 'z') return false;
  return std::all_of(name, name + std::char_traits<char>::length(name), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '@' || c == '-' || c == '.';
  });
}

// The first thing that is wrong with one option, or "".
std::string option_fault(const np_option& option) {
  if (!good_name(option.name)) return "an option without a good name";
  const std::string name = std::string("option '") + option.name + "'";
  if (option.default_value == nullptr) return name + " without a default";
  if (option.help == nullptr || option.unit == nullptr) return name + " without help or unit (\"\" is a unit)";
  if (option.type < NP_BOOL || option.type > NP_TEXT) return name + " of an unknown type";
  if (option.type == NP_CHOICE && (option.choices == nullptr || *option.choices == '\0')) {
    return name + " with nothing to choose from";
  }
  if ((option.type == NP_INT || option.type == NP_SIZE) && option.min > option.max) {
    return name + " whose smallest value is above its largest";
  }
  return {};
}

}  // namespace

Outcome check_table(const np_module* table, const std::string& path) {
  const auto refuse = [&](const std::string& why) -> Outcome {
    return usage("module " + path + " is refused: " + why);
  };
  if (table == nullptr) return refuse(NP_ENTRY "() returned no table");
  if (table->magic != NP_MAGIC) {
    return refuse("its magic number is " + hex(table->magic) + ", a netpipe module has " + hex(NP_MAGIC));
  }
  if (table->abi != NP_ABI) {
    return refuse("it was built for module ABI " + std::to_string(table->abi) + ", this netpipe has " +
                  std::to_string(NP_ABI) + "; build it again with this netpipe's module.h");
  }
  if (table->size != sizeof(np_module)) {
    return refuse("its table has " + std::to_string(table->size) + " bytes, this netpipe's has " +
                  std::to_string(sizeof(np_module)) + "; build it again with this netpipe's module.h");
  }
  const np_module& m = *table;
  if (!good_name(m.name)) return refuse("its name is missing or is not lower case letters, digits, _ . - or @");
  if (m.summary == nullptr || m.version == nullptr) return refuse("it has no summary or no version");
  if (m.min_ranks < 1 || m.max_ranks < m.min_ranks) {
    return refuse("it wants from " + std::to_string(m.min_ranks) + " to " + std::to_string(m.max_ranks) + " ranks");
  }
  if (m.noptions > 0 && m.options == nullptr) return refuse("it counts options and has no table of them");
  for (std::uint32_t i = 0; i < m.noptions; ++i) {
    if (const std::string fault = option_fault(m.options[i]); !fault.empty()) return refuse("it has " + fault);
  }
  struct Pair {
    bool consistent;
    const char* rule;
  };
  const bool one_sided = m.put != nullptr || m.get != nullptr;
  const bool asynchronous = m.isend != nullptr || m.irecv != nullptr;
  const std::array<Pair, 9> rules{{
      {m.open != nullptr && m.close != nullptr, "open and close must both be there"},
      {(m.send == nullptr) == (m.recv == nullptr), "send and recv belong together"},
      {(m.address == nullptr) == (m.connect == nullptr), "address and connect belong together"},
      {(m.isend == nullptr) == (m.irecv == nullptr), "isend and irecv belong together"},
      {!asynchronous || (m.wait != nullptr && m.test != nullptr), "isend and irecv need wait and test"},
      {!one_sided || (m.expose != nullptr && m.attach != nullptr && m.withdraw != nullptr),
       "put and get need expose, attach and withdraw"},
      {(m.alloc == nullptr) == (m.free == nullptr), "alloc and free belong together"},
      {m.send != nullptr || one_sided || asynchronous || m.collective != nullptr,
       "it has no operation that moves a message"},
      {m.max_ranks == 1 || m.address != nullptr || m.bootstrap != nullptr,
       "several ranks need address and connect, or a bootstrap of the library's own"},
  }};
  for (const Pair& rule : rules) {
    if (!rule.consistent) return refuse(rule.rule);
  }
  return ok();
}

std::string probe_reason(const np_module& m) {
  if (m.probe == nullptr) return {};
  std::array<char, 512> message{};
  if (m.probe(message.data(), message.size()) == NP_OK) return {};
  return message[0] != '\0' ? message.data() : "the module does not say why";
}

Result<Registry> Registry::load(const std::vector<std::string>& directories, const std::vector<std::string>& files) {
  Registry registry;
  const auto take = [&](const std::string& path) -> Outcome {
    Result<LoadedModule> module =
        fs::path(path).extension() == description_ending ? describe_one(path) : load_one(path);
    if (!module) return module.failure();
    if (registry.find(module->table->name) == nullptr) registry.modules_.push_back(*module);
    return ok();
  };
  for (const std::string& file : files) {
    std::error_code error;
    if (!fs::exists(file, error)) return usage("module file " + file + " does not exist");
    // dlopen takes a name without a slash for one to search in the library path.
    if (const Outcome taken = take(fs::absolute(file).string()); !taken) return taken.failure();
  }
  for (const std::string& directory : directories) {
    std::error_code error;
    std::vector<std::string> paths;
    for (const auto& entry : fs::directory_iterator(directory, error)) {
      const fs::path& path = entry.path();
      const bool described = path.stem().string().find('@') != std::string::npos;
      if (path.extension() == (described ? description_ending : ".so")) paths.push_back(path.string());
    }
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) {
      if (const Outcome taken = take(path); !taken) registry.refused_.push_back({path, taken.failure().sentence});
    }
  }
  return registry;
}

Result<Registry> Registry::load_as(const std::string& file, const std::string& name) {
  std::error_code error;
  if (!fs::exists(file, error)) return usage("module file " + file + " does not exist");
  Result<LoadedModule> module = load_one(fs::absolute(file).string());
  if (!module) return module.failure();
  return only(std::move(*module), name);
}

Result<Registry> Registry::of(const np_module* table, const std::string& file, const std::string& name) {
  if (const Outcome fits = check_table(table, file); !fits) return fits.failure();
  return only(LoadedModule{table, file, {}, {}}, name);
}

Result<Registry> Registry::only(LoadedModule module, const std::string& name) {
  if (!name.empty()) {
    struct Renamed {
      std::string name;
      np_module table;
    };
    const auto renamed = std::make_shared<Renamed>(Renamed{name, *module.table});
    renamed->table.name = renamed->name.c_str();
    if (const Outcome fits = check_table(&renamed->table, module.path); !fits) return fits.failure();
    module.table = &renamed->table;
    module.owner = renamed;
  }
  Registry registry;
  registry.modules_.push_back(std::move(module));
  return registry;
}

const LoadedModule* Registry::find(std::string_view name) const {
  const auto at =
      std::find_if(modules_.begin(), modules_.end(), [&](const LoadedModule& m) { return name == m.table->name; });
  return at == modules_.end() ? nullptr : &*at;
}

std::vector<std::string> Registry::names() const {
  std::vector<std::string> all;
  for (const LoadedModule& module : modules_) all.emplace_back(module.table->name);
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
