// SPDX-License-Identifier: Apache-2.0
#include "machine/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <memory>

#include "base/descriptor.h"
#include "base/text.h"

namespace netpipe {
namespace {

std::string_view first_line(std::string_view text) { return trim(text.substr(0, text.find('\n'))); }

struct Kept {
  std::string path;
  int fd;
};
// Never closed: as long as the process lives.
std::vector<Kept>& kept_files() {
  static std::vector<Kept> files;
  return files;
}

int kept_open(std::string_view path) {
  for (const Kept& one : kept_files()) {
    if (one.path == path) return one.fd;
  }
  return -1;
}

}  // namespace

void keep_open(std::initializer_list<const char*> paths) {
  for (const char* const path : paths) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) kept_files().push_back({path, fd});
  }
}

Files::Files(const Host& host) : root_(host.root) {
  while (!root_.empty() && root_.back() == '/') root_.pop_back();
}

bool Files::exists(std::string_view of) const { return access(path(of).c_str(), F_OK) == 0; }

std::optional<std::string> Files::read(std::string_view of, std::size_t limit_bytes) const {
  const int kept = live() ? kept_open(of) : -1;
  // O_NONBLOCK: a named pipe in the place of a file must not hold us.
  const Descriptor opened(kept >= 0 ? -1 : open(path(of).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const int fd = kept >= 0 ? kept : opened.get();
  if (fd < 0) return std::nullopt;
  if (kept >= 0) lseek(kept, 0, SEEK_SET);  // the kernel makes it anew
  std::string text;
  std::array<char, 4096> part{};
  ssize_t got = 0;
  // The kernel makes its longer files a page at a time and may answer any single read short of the end.
  while (text.size() < limit_bytes &&
         (got = ::read(fd, part.data(), std::min(part.size(), limit_bytes - text.size()))) > 0) {
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  if (got < 0 && text.empty()) return std::nullopt;
  return text;
}

std::optional<std::string> Files::line(std::string_view of) const {
  const auto text = read(of, 4096);
  if (!text || first_line(*text).empty()) return std::nullopt;
  return std::string(first_line(*text));
}

std::optional<std::int64_t> Files::number(std::string_view of, std::int64_t scale) const {
  const auto text = line(of);
  const auto value = text ? parse_number(*text) : std::nullopt;
  std::int64_t scaled = 0;
  if (!value || __builtin_mul_overflow(*value, scale, &scaled)) return std::nullopt;
  return scaled;
}

std::optional<std::vector<std::int64_t>> Files::numbers(std::string_view of) const {
  const auto all = words(of);
  if (!all) return std::nullopt;
  std::vector<std::int64_t> values;
  for (const std::string& word : *all) {
    const auto value = parse_number(word);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

std::optional<std::string> Files::chosen(std::string_view of) const {
  auto text = line(of);
  if (!text) return std::nullopt;
  for (const auto& [left, right] : {std::pair{'[', ']'}, std::pair{'(', ')'}}) {
    const std::size_t from = text->find(left);
    const std::size_t to = text->find(right, from == std::string::npos ? 0 : from);
    if (from != std::string::npos && to != std::string::npos) return text->substr(from + 1, to - from - 1);
  }
  return text;
}

std::optional<std::vector<std::string>> Files::words(std::string_view of) const {
  const auto text = line(of);
  if (!text) return std::nullopt;
  return split_words(*text);
}

std::vector<int> Files::cpu_list(std::string_view of) const {
  const auto text = line(of);
  return text ? parse_cpu_list(*text) : std::vector<int>{};
}

std::vector<std::string> Files::names(std::string_view directory) const {
  std::vector<std::string> all;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(opendir(path(directory).c_str()), closedir);
  if (!stream) return all;
  while (const dirent* entry = readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") all.emplace_back(name);
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::optional<std::string> Files::link_name(std::string_view of) const {
  std::array<char, PATH_MAX> target{};
  const ssize_t length = readlink(path(of).c_str(), target.data(), target.size());
  if (length <= 0) return std::nullopt;
  const std::string_view text(target.data(), static_cast<std::size_t>(length));
  return std::string(text.substr(text.rfind('/') + 1));
}

std::vector<int> parse_cpu_list(std::string_view text) {
  // The largest count that any kernel is built for is 8192 (CONFIG_NR_CPUS); a range beyond that is no cpu list.
  constexpr std::int64_t most = 65536;
  std::vector<int> cpus;
  for (const std::string& part : split(trim(text), ',')) {
    const std::size_t dash = part.find('-');
    const auto from = parse_number(part.substr(0, dash));
    const auto to = dash == std::string::npos ? from : parse_number(part.substr(dash + 1));
    if (!from || !to || *from < 0 || *to < *from || *to >= most) continue;
    for (std::int64_t cpu = *from; cpu <= *to; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string cpu_list_text(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    const std::size_t first = i;
    while (i + 1 < cpus.size() && cpus[i + 1] == cpus[i] + 1) ++i;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[first]);
    if (i > first) text += '-' + std::to_string(cpus[i]);
  }
  return text;
}

std::optional<std::int64_t> parse_number(std::string_view text) {
  text = trim(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // "266240 kB" and "-1" are numbers, "unlimited" and "12abc" are not.
  if (error != std::errc() || (end != text.data() + text.size() && *end != ' ' && *end != '\t')) return std::nullopt;
  return value;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  std::size_t at = 0;
  while ((at = text.find_first_not_of(" \t\n", at)) != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(" \t\n", at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::optional<std::string> colon_field(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view row = text.substr(0, text.find('\n'));
    const std::size_t colon = row.find(':');
    if (colon != std::string_view::npos && trim(row.substr(0, colon)) == name)
      return std::string(trim(row.substr(colon + 1)));
    text.remove_prefix(std::min(row.size() + 1, text.size()));
  }
  return std::nullopt;
}

}  // namespace netpipe
