// SPDX-License-Identifier: Apache-2.0
// What this worker is made of.
#include <cstdlib>
#include <set>

#include "base/text.h"
#include "machine/facts.h"

#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif

#if defined(__has_feature)
#define NP_HAS_FEATURE(x) __has_feature(x)  // Clang's way to say which sanitizer it builds with
#else
#define NP_HAS_FEATURE(x) 0
#endif

namespace netpipe {
namespace {

std::string file_name(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

std::string compiler() {
#if defined(__clang__)
  return std::string("Clang ") + __clang_version__;
#elif defined(__GNUC__)
  return std::string("GCC ") + __VERSION__;
#else
  return "unknown";
#endif
}

std::string standard_library() {
#if defined(_GLIBCXX_RELEASE)
  return "libstdc++ " + std::to_string(_GLIBCXX_RELEASE);
#elif defined(_LIBCPP_VERSION)
  return "libc++ " + std::to_string(_LIBCPP_VERSION);
#else
  return "unknown";
#endif
}

std::optional<std::string> libc() {
#if defined(__GLIBC__)
  return std::string("glibc ") + gnu_get_libc_version();
#else
  return std::nullopt;  // musl has no way to ask
#endif
}

std::vector<std::string> sanitizers() {
  std::vector<std::string> built_with;
#if defined(__SANITIZE_ADDRESS__) || NP_HAS_FEATURE(address_sanitizer)
  built_with.emplace_back("address");
#endif
#if defined(__SANITIZE_THREAD__) || NP_HAS_FEATURE(thread_sanitizer)
  built_with.emplace_back("thread");
#endif
#if NP_HAS_FEATURE(memory_sanitizer)
  built_with.emplace_back("memory");
#endif
  return built_with;
}

bool optimised() {
#if defined(__OPTIMIZE__)
  return true;
#else
  return false;
#endif
}

// The shared libraries in this process, by file name. Found this way, a library that only some installations load (and
// one that LD_PRELOAD slipped in) is seen for what it is. The paths stay out: they name people and projects.
std::optional<std::vector<std::string>> loaded_libraries(const Files& files) {
  const auto maps = files.read("/proc/self/maps", std::size_t{1} << 20);
  if (!maps) return std::nullopt;
  std::set<std::string> names;
  for (const std::string& row : split(*maps, '\n')) {
    const std::size_t slash = row.find('/');
    if (slash == std::string::npos) continue;
    std::string name = file_name(std::string_view(row).substr(slash));
    if (name.ends_with(".so") || name.find(".so.") != std::string::npos) names.insert(std::move(name));
  }
  return std::vector<std::string>(names.begin(), names.end());
}

std::vector<std::string> preloaded() {
  std::vector<std::string> names;
  const char* text = std::getenv("LD_PRELOAD");
  for (const std::string& group : split(text != nullptr ? text : "", ':')) {  // spaces separate too (ld.so(8))
    for (const std::string& path : split_words(group)) names.push_back(file_name(path));
  }
  return names;
}

}  // namespace

void gather_software(const Files& files, Facts& facts) {
  facts.set("software.netpipe", NETPIPE_VERSION);
  facts.set("software.compiler", compiler());
  facts.set("software.standard_library", standard_library());
  facts.set("software.libc", libc());
  facts.set("software.optimised", optimised());
  facts.set("software.sanitizers", sanitizers());
  facts.set("software.libraries", loaded_libraries(files));
  facts.set("software.preloaded", preloaded());
}

}  // namespace netpipe
