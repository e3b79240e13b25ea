// SPDX-License-Identifier: Apache-2.0
// The calls of NCCL, found when the layer is opened: it is built where nccl.h is, and runs where libnccl.so.2 is.
#pragma once

#include <dlfcn.h>
#include <nccl.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "netpipe/module.h"

namespace netpipe::nccl {

// X(field, symbol)
#define NP_NCCL_CALLS(X)                \
  X(version, ncclGetVersion)            \
  X(unique_id, ncclGetUniqueId)         \
  X(init, ncclCommInitRank)             \
  X(destroy, ncclCommDestroy)           \
  X(abort, ncclCommAbort)               \
  X(async_error, ncclCommGetAsyncError) \
  X(error_text, ncclGetErrorString)     \
  X(last_error, ncclGetLastError)       \
  X(group_start, ncclGroupStart)        \
  X(group_end, ncclGroupEnd)            \
  X(send, ncclSend)                     \
  X(recv, ncclRecv)                     \
  X(broadcast, ncclBroadcast)           \
  X(reduce, ncclReduce)                 \
  X(all_reduce, ncclAllReduce)          \
  X(all_gather, ncclAllGather)          \
  X(reduce_scatter, ncclReduceScatter)

struct Library {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a symbol
#define NP_NCCL_POINTER(field, symbol) decltype(&symbol) field = nullptr;
  NP_NCCL_CALLS(NP_NCCL_POINTER)
#undef NP_NCCL_POINTER
};

// Where the loader looks, or beside the header that this was built with: a Python package has both, and no loader
// knows of it.
inline void* open_library(std::string& why) {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) why = dlerror();
#ifdef NETPIPE_LIBRARY_FOLDERS
  const std::string folders = NETPIPE_LIBRARY_FOLDERS;
  for (std::size_t at = 0; library == nullptr && at < folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    library = dlopen((folders.substr(at, end - at) + "/libnccl.so.2").c_str(), RTLD_NOW | RTLD_LOCAL);
    at = end + 1;
  }
#endif
  return library;
}

// NP_UNAVAILABLE with a sentence where it is missing, or lacks a call.
inline np_status load(Library& library, char* message, size_t message_bytes) {
  std::string why;
  void* const handle = open_library(why);  // stays loaded: it has threads of its own
  if (handle == nullptr) {
    std::snprintf(
        message, message_bytes,
        "NCCL's library libnccl.so.2 cannot be loaded (%s); pip install nvidia-nccl-cu12 and add its lib folder "
        "to LD_LIBRARY_PATH, or install libnccl2",
        why.c_str());
    return NP_UNAVAILABLE;
  }
  const char* lacking = nullptr;
// NOLINTBEGIN(bugprone-macro-parentheses): a symbol
#define NP_NCCL_FIND(field, symbol)                                            \
  library.field = reinterpret_cast<decltype(&symbol)>(dlsym(handle, #symbol)); \
  if (library.field == nullptr && lacking == nullptr) lacking = #symbol;
  NP_NCCL_CALLS(NP_NCCL_FIND)
#undef NP_NCCL_FIND
  // NOLINTEND(bugprone-macro-parentheses)
  if (lacking == nullptr) return NP_OK;
  std::snprintf(message, message_bytes, "libnccl.so.2 has no %s: install NCCL 2.10 or newer", lacking);
  return NP_UNAVAILABLE;
}

}  // namespace netpipe::nccl
