// SPDX-License-Identifier: Apache-2.0
// A module is compiled with the headers of one version of a library, and another one may answer when it runs: the
// library was upgraded after netpipe was built, or another build of it is found first. The loader notices only where
// the name of the file or a function differs (load_layer in src/catalog/probing.cpp).
//
// Nothing is compared where the loader compares more than this could: libibverbs gives each function a version, and so
// does NVIDIA's driver by its names; libgrpc, libnccl and OpenSSL are opened by a name with the number of their
// interface in it.
#pragma once

#include <array>
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

#include "netpipe/module.h"

namespace netpipe {

// 4, 3, 4 -> "4.3.4"
template <typename... Number>
std::string dotted(Number... numbers) {
  std::string text;
  ((text += (text.empty() ? "" : ".") + std::to_string(numbers)), ...);
  return text;
}

// The major and the minor number of "1.13.1"; 0 where there is none.
inline std::array<int, 2> version_numbers(std::string_view text) {
  std::array<int, 2> numbers{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int& number : numbers) {
    const auto [behind, error] = std::from_chars(at, end, number);
    if (error != std::errc() || behind == end || *behind != '.') break;
    at = behind + 1;
  }
  return numbers;
}

struct LibraryVersion {
  std::string library;   // "UCX"
  std::string built;     // of the headers: "1.13"
  std::string found;     // what the library says of itself: "1.13.1"
  bool exactly = false;  // its structures change with the minor number; else a later one serves what is older

  // For a module's table.
  [[nodiscard]] std::string text() const { return library + " " + found; }

  // Why the module cannot be used with the library that answers, as a sentence; "": it can.
  [[nodiscard]] std::string mismatch() const {
    const std::array<int, 2> then = version_numbers(built), now = version_numbers(found);
    if (now[0] == then[0] && (exactly ? now[1] == then[1] : now[1] >= then[1])) return {};
    return "this module was built with " + library + " " + built + ", and " + text() +
           " is installed; build netpipe again";
  }

  // For a module's probe.
  np_status probe(char* message, size_t message_bytes) const {
    const std::string why = mismatch();
    if (why.empty()) return NP_OK;
    std::snprintf(message, message_bytes, "%s", why.c_str());
    return NP_UNAVAILABLE;
  }

  // For its description: the fact `built_with`, where another version answers.
  void describe(np_emit emit, void* to) const {
    if (version_numbers(built) != version_numbers(found)) np_emit_text(emit, to, "built_with", built.c_str());
  }
};

}  // namespace netpipe
