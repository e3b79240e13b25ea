// SPDX-License-Identifier: Apache-2.0
// Handlers of signals belong to netpipe. Two libraries below this module install their own: libinfinipath, of the
// provider psm, when it is loaded, and the provider shm when libfabric first looks for providers.
#pragma once

#include <dlfcn.h>

#include <array>
#include <csignal>
#include <cstring>

namespace netpipe::fabric {

inline constexpr std::array<int, 6> kHandled = {SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGINT, SIGTERM};

// Puts back what was there when it was made.
class KeptSignals {
 public:
  KeptSignals() {
    for (size_t i = 0; i < kHandled.size(); ++i) sigaction(kHandled[i], nullptr, &before_[i]);
  }
  ~KeptSignals() {
    for (size_t i = 0; i < kHandled.size(); ++i) sigaction(kHandled[i], &before_[i], nullptr);
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  std::array<struct sigaction, kHandled.size()> before_{};
};

// What was there before libinfinipath was loaded nobody knows any more: its backtraces on standard error are ended.
inline void drop_handlers_of_infinipath() {
  for (const int signal : kHandled) {
    struct sigaction now{};
    sigaction(signal, nullptr, &now);
    Dl_info where{};
    if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN ||
        dladdr(reinterpret_cast<void*>(now.sa_handler), &where) == 0 || where.dli_fname == nullptr ||
        std::strstr(where.dli_fname, "libinfinipath") == nullptr) {
      continue;
    }
    now = {};
    now.sa_handler = SIG_DFL;
    sigaction(signal, &now, nullptr);
  }
}

}  // namespace netpipe::fabric
