// SPDX-License-Identifier: Apache-2.0
#include "catalog/absent.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "base/text.h"

namespace netpipe {
namespace {

using Lines = std::map<std::string, std::string>;  // values by their keys

// Empty: the text begins with another line.
Lines parse(std::string_view text, std::string_view first_line) {
  Lines found;
  const std::vector<std::string> lines = split(text, '\n');
  if (lines.front() != first_line) return found;
  for (const std::string& line : lines) {
    const auto blank = line.find(' ');
    if (blank != std::string::npos) found[line.substr(0, blank)] = trim(std::string_view(line).substr(blank));
  }
  return found;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Of the file with this ending beside a module.
std::string beside(const std::string& module_path, const char* ending) {
  return contents(std::filesystem::path(module_path).replace_extension(ending).string());
}

}  // namespace

std::optional<AbsentModule> parse_absent(std::string_view text, const std::string& path) {
  Lines lines = parse(text, "netpipe-absent 1");
  AbsentModule module{lines["name"], lines["summary"], lines["reason"], path};
  if (module.name.empty() || module.reason.empty()) return std::nullopt;
  return module;
}

std::optional<AbsentModule> read_absent(const std::string& path) { return parse_absent(contents(path), path); }

std::string library_command(const std::string& module_path) {
  return parse(beside(module_path, ".needs"), "netpipe-needs 1")["get"];
}

std::vector<std::string> default_variants(const std::string& module_path) {
  const std::string variants = parse(beside(module_path, ".default"), "netpipe-default 1")["variants"];
  return variants.empty() ? std::vector<std::string>{} : split(variants, ' ');
}

}  // namespace netpipe
