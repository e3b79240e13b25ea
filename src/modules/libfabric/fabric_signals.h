// SPDX-License-Identifier: Apache-2.0
// Handlers of signals belong to netpipe. Two libraries below this module install their own: libinfinipath, of the
// provider psm, when it is loaded, and the provider shm when libfabric first looks for providers.
#pragma once

#include <array>
#include <csignal>

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

}  // namespace netpipe::fabric
