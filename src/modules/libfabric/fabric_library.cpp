// SPDX-License-Identifier: Apache-2.0
// The seven functions of libfabric that are not inline, each found when it is first called. The library is not linked:
// to load it takes 0.2 s, in which libinfinipath below it measures its clock, and netpipe loads every module of an
// installation whenever it lists them.
#include "fabric_library.h"

#include <dlfcn.h>
#include <rdma/fabric.h>

#include <string>

#include "kit/libraries/library_version.h"
#include "kit/libraries/on_demand.h"

namespace netpipe::fabric {
namespace {

constexpr const char* kFile = "libfabric.so.1";
constexpr const char* kGet = "apt install libfabric1";

// As long as the process: its threads and handlers may be anywhere.
void* library() {
  static void* const handle = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  return handle;
}

template <typename Function>
Function find(const char* name) {
  return library() == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library(), name));
}

}  // namespace

std::string why_missing() {
  if (on_demand::is_in_search_path(kFile) || library() != nullptr) return {};
  return std::string(kFile) + " was not found" + on_demand::remedy(kGet);
}

std::string why_not_usable() {
  if (library() == nullptr) return on_demand::why_not_loaded("libfabric", kGet);
  const uint32_t found = fi_version();
  // Structures grow from one version to the next, and what a name stands for grows with them.
  return LibraryVersion{.library = "libfabric",
                        .built = dotted(FI_MAJOR_VERSION, FI_MINOR_VERSION),
                        .found = dotted(FI_MAJOR(found), FI_MINOR(found)),
                        .exactly = true}
      .mismatch();
}

}  // namespace netpipe::fabric

// Called only where why_not_usable() had nothing to say, or of a library that is loaded.
using netpipe::fabric::find;

uint32_t fi_version(void) { return find<decltype(&fi_version)>("fi_version")(); }
int fi_getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
               fi_info** info) {
  return find<decltype(&fi_getinfo)>("fi_getinfo")(version, node, service, flags, hints, info);
}
void fi_freeinfo(fi_info* info) { find<decltype(&fi_freeinfo)>("fi_freeinfo")(info); }
fi_info* fi_dupinfo(const fi_info* info) { return find<decltype(&fi_dupinfo)>("fi_dupinfo")(info); }
int fi_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
  return find<decltype(&fi_fabric)>("fi_fabric")(attributes, fabric, context);
}
const char* fi_strerror(int number) { return find<decltype(&fi_strerror)>("fi_strerror")(number); }
char* fi_tostr(const void* data, fi_type type) { return find<decltype(&fi_tostr)>("fi_tostr")(data, type); }
