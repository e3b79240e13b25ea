// SPDX-License-Identifier: Apache-2.0
#include "ucx_log.h"

#include <ucs/config/types.h>

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

// Exported by libucs; their header is only there where UCX was configured with --enable-devel-headers.
extern "C" {
using np_ucs_log_handler = int (*)(const char*, unsigned, const char*, ucs_log_level_t, const void*, const char*,
                                   va_list);
void ucs_log_push_handler(np_ucs_log_handler handler);
void ucs_log_pop_handler(void);
void ucs_debug_disable_signal(int signal);
}

namespace netpipe::ucx {
namespace {

constexpr int kStop = 0, kContinue = 1;  // ucs_log_func_rc_t
constexpr size_t kMostKept = 4096;

// UCX's handler has no argument of its own, and its threads log too.
struct Kept {
  std::mutex mutex;
  int logs = 0;
  std::string text;
};
Kept& kept() {
  static Kept one;
  return one;
}

[[gnu::format(printf, 6, 0)]] int keep(const char*, unsigned, const char*, ucs_log_level_t level, const void*,
                                       const char* format, va_list arguments) {
  if (level <= UCS_LOG_LEVEL_WARN) {
    char line[512];
    va_list again;
    va_copy(again, arguments);
    std::vsnprintf(line, sizeof line, format, again);
    va_end(again);
    const std::string_view said = line;
    const std::lock_guard lock(kept().mutex);
    if (!said.starts_with("unused env") && kept().text.size() < kMostKept) {
      if (!kept().text.empty()) kept().text += "; ";
      kept().text += said;
    }
  }
  const char* const file = std::getenv("UCX_LOG_FILE");
  return file != nullptr && *file != '\0' ? kContinue : kStop;
}

}  // namespace

Log::Log() {
  const std::lock_guard lock(kept().mutex);
  if (kept().logs++ == 0) ucs_log_push_handler(keep);
}

Log::~Log() {
  const std::lock_guard lock(kept().mutex);
  if (--kept().logs == 0) ucs_log_pop_handler();
}

std::string Log::take() {
  const std::lock_guard lock(kept().mutex);
  return std::exchange(kept().text, {});
}

void give_signals_back() {
  for (const int signal : {SIGILL, SIGBUS, SIGFPE, SIGSEGV, SIGHUP}) ucs_debug_disable_signal(signal);
}

}  // namespace netpipe::ucx
