// SPDX-License-Identifier: Apache-2.0
// A library that takes long to load, so that a module opens it when it is used, and not when netpipe lists what there
// is: what libfabric and grpc share.
#pragma once

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <vector>

namespace netpipe::on_demand {

// Whether a folder that the loader searches has this file. It may also be in one that only the loader's cache knows.
inline bool is_in_search_path(const std::string& file) {
  Dl_serinfo size{};
  void* const self = dlopen(nullptr, RTLD_LAZY);
  if (self == nullptr || dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0) return false;
  std::vector<std::max_align_t> room(size.dls_size / sizeof(std::max_align_t) + 1);
  auto* const all = reinterpret_cast<Dl_serinfo*>(room.data());
  if (dlinfo(self, RTLD_DI_SERINFOSIZE, all) != 0 || dlinfo(self, RTLD_DI_SERINFO, all) != 0) return false;
  for (unsigned i = 0; i < all->dls_cnt; ++i) {
    if (access((std::string(all->dls_serpath[i].dls_name) + "/" + file).c_str(), R_OK) == 0) return true;
  }
  return false;
}

// What to do where it is missing, as the end of a sentence. get: the command that installs it.
inline std::string remedy(const std::string& get) {
  return "; install it (Debian, Ubuntu: " + get + "), or build netpipe again if another version is installed";
}

// After dlopen has returned NULL. get: as for remedy.
inline std::string why_not_loaded(const std::string& name, const std::string& get) {
  const char* const told = dlerror();
  const std::string said = name + " cannot be loaded: " + (told == nullptr ? "it was not found" : told);
  if (said.find("Operation not permitted") != std::string::npos) {
    return said + "; netpipe serve lets a module open no files, so measure with --hosts";
  }
  return said + remedy(get);
}

}  // namespace netpipe::on_demand
