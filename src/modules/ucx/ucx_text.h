// SPDX-License-Identifier: Apache-2.0
// UCX tells people what it has chosen, by printing it, and tells programs nothing: what it prints is read.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace netpipe::ucx {

// What print(file) writes.
template <typename Print>
std::string said_by(const Print& print) {
  char* text = nullptr;
  size_t bytes = 0;
  FILE* const to = open_memstream(&text, &bytes);
  if (to == nullptr) return "";
  print(to);
  std::fclose(to);
  std::string said(text, bytes);
  std::free(text);
  return said;
}

// The parts between separators, those that are empty left out.
inline std::vector<std::string> words(const std::string& text, char separator) {
  std::vector<std::string> found;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    if (end > at) found.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return found;
}
inline std::vector<std::string> lines(const std::string& text) { return words(text, '\n'); }

}  // namespace netpipe::ucx
