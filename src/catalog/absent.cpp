// SPDX-License-Identifier: Apache-2.0
#include "catalog/absent.h"

#include <fstream>
#include <iterator>

#include "base/text.h"

namespace netpipe {

std::optional<AbsentModule> parse_absent(std::string_view text, const std::string& path) {
  AbsentModule module;
  module.path = path;
  bool first = true;
  for (const std::string& line : split(text, '\n')) {
    if (first && line != "netpipe-absent 1") return std::nullopt;
    first = false;
    const auto blank = line.find(' ');
    if (blank == std::string::npos) continue;
    const std::string key = line.substr(0, blank);
    const std::string value{trim(std::string_view(line).substr(blank))};
    if (key == "name") module.name = value;
    if (key == "summary") module.summary = value;
    if (key == "reason") module.reason = value;
  }
  if (module.name.empty() || module.reason.empty()) return std::nullopt;
  return module;
}

std::optional<AbsentModule> read_absent(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return parse_absent(text, path);
}

}  // namespace netpipe
