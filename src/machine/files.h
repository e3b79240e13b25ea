// SPDX-License-Identifier: Apache-2.0
// Reads what a Linux host says about itself in files, below a root that tests can choose. Nothing here fails: what is
// not there, not readable or not a number is nullopt.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "machine/environment.h"

namespace netpipe {

// For a process that will be able to open nothing: opens these files of the running machine now, and from then on
// read() reads them through these descriptors. Once, before any other thread.
void keep_open(std::initializer_list<const char*> paths);

class Files {
 public:
  explicit Files(const Host& host);

  // Is this the machine that we run on? Only then may system calls and instructions be asked.
  [[nodiscard]] bool live() const { return root_.empty(); }

  // Paths are absolute, as on the host.
  [[nodiscard]] std::string path(std::string_view of) const { return root_ + std::string(of); }
  [[nodiscard]] bool exists(std::string_view path) const;
  // The whole file, at most limit_bytes of it.
  [[nodiscard]] std::optional<std::string> read(std::string_view path, std::size_t limit_bytes = 65536) const;
  // The first line without surrounding space; nullopt when that is empty.
  [[nodiscard]] std::optional<std::string> line(std::string_view path) const;
  // The first number of the file, times scale.
  [[nodiscard]] std::optional<std::int64_t> number(std::string_view path, std::int64_t scale = 1) const;
  // All numbers of the first line.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> numbers(std::string_view path) const;
  // "always [madvise] never" is "madvise".
  [[nodiscard]] std::optional<std::string> chosen(std::string_view path) const;
  // The words of the first line.
  [[nodiscard]] std::optional<std::vector<std::string>> words(std::string_view path) const;
  // "0-3,8": ascending.
  [[nodiscard]] std::vector<int> cpu_list(std::string_view path) const;
  // The names in a directory, sorted, without . and ..; empty when it cannot be read.
  [[nodiscard]] std::vector<std::string> names(std::string_view directory) const;
  // The last part of what a symbolic link points to.
  [[nodiscard]] std::optional<std::string> link_name(std::string_view path) const;

 private:
  std::string root_;  // without a slash at its end; empty for the running machine
};

// Parts of texts that the kernel writes.
std::vector<int> parse_cpu_list(std::string_view text);
std::string cpu_list_text(const std::vector<int>& cpus);  // ascending cpus as "0-3,8"
std::optional<std::int64_t> parse_number(std::string_view text);
std::vector<std::string> split_words(std::string_view text);
// The value of "name<spaces>:<spaces>value" (cpuinfo, meminfo, status), of its first occurrence.
std::optional<std::string> colon_field(std::string_view text, std::string_view name);

}  // namespace netpipe
