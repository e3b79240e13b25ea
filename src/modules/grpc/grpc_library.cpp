// SPDX-License-Identifier: Apache-2.0
#include "grpc_library.h"

#include <dlfcn.h>

#include <type_traits>

#include "kit/libraries/on_demand.h"

namespace netpipe::grpc {
namespace {

// As long as the process: its threads may be anywhere.
void* handle() {
  static void* const opened = dlopen(NP_LIBRARY_FILE_grpc, RTLD_NOW | RTLD_LOCAL);
  return opened;
}

// The library's log goes to stderr, and a module prints nothing; what fails is said by the call that failed.
void drop(gpr_log_func_args*) {}

}  // namespace

const char* file() { return NP_LIBRARY_FILE_grpc; }

std::string package() {
  const std::string name = file();
  return "libgrpc" + name.substr(name.rfind('.') + 1);
}

std::string why_missing() {
  if (on_demand::is_in_search_path(file()) || handle() != nullptr) return {};
  return std::string(file()) + " was not found" + on_demand::remedy("apt install " + package());
}

const Library* library(std::string& why) {
  static Library found;
  static std::string missing = [] {
    if (handle() == nullptr) return on_demand::why_not_loaded("gRPC", "apt install " + package());
    std::string absent;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle(), name));
      if (function == nullptr) absent = name;
    };
#define NP_GRPC_FIND(name) find(found.name, #name);
    NP_GRPC_FUNCTIONS(NP_GRPC_FIND)
#undef NP_GRPC_FIND
    if (!absent.empty()) return std::string(file()) + " has no function " + absent + "; build netpipe again";
    found.gpr_set_log_function(drop);
    return std::string();
  }();
  why = missing;
  return why.empty() ? &found : nullptr;
}

}  // namespace netpipe::grpc
