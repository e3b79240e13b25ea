// SPDX-License-Identifier: Apache-2.0
// Machines made of files.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "machine/facts.h"
#include "machine/topology.h"

namespace netpipe {

// A directory that looks like a host, gone when the test is.
class FakeHost {
 public:
  FakeHost() {
    std::string name = (std::filesystem::temp_directory_path() / "netpipe-host-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no room for a fake host in " + name);
    host_.root = name;
  }
  ~FakeHost() { std::filesystem::remove_all(host_.root); }
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  FakeHost& write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(host_.root + path).parent_path());
    std::ofstream(host_.root + path, std::ios::binary) << text;
    return *this;
  }

  // What was there before; nullopt: nothing, and that is what it takes away.
  std::optional<std::string> swap(const std::string& path, const std::optional<std::string>& text) {
    std::optional<std::string> before = Files(host_).read(path);
    if (text) {
      write(path, *text);
    } else {
      std::filesystem::remove(host_.root + path);
    }
    return before;
  }

  // One processor; the lists are who shares its core, its last level of cache and its socket.
  FakeHost& cpu(int number, const std::string& core, const std::string& cache, const std::string& package) {
    const std::string directory = "/sys/devices/system/cpu/cpu" + std::to_string(number);
    write(directory + "/topology/core_cpus_list", core + "\n");
    write(directory + "/topology/package_cpus_list", package + "\n");
    const std::string index0 = directory + "/cache/index0", index1 = directory + "/cache/index1";
    write(index0 + "/level", "1\n").write(index0 + "/type", "Data\n").write(index0 + "/size", "48K\n");
    write(index0 + "/shared_cpu_list", core + "\n");
    write(index1 + "/level", "3\n").write(index1 + "/type", "Unified\n").write(index1 + "/size", "32M\n");
    return write(index1 + "/shared_cpu_list", cache + "\n");
  }
  FakeHost& cpus(const std::string& online, const std::string& allowed) {
    write("/sys/devices/system/cpu/online", online + "\n");
    return write("/proc/self/status",
                 "Name:\tworker\nCapEff:\t0000000000000000\nCpus_allowed_list:\t" + allowed + "\n");
  }

  [[nodiscard]] const Host& host() const { return host_; }
  [[nodiscard]] Facts facts(const std::vector<int>& pinned = {}) const { return host_facts(Files(host_), pinned); }

 private:
  Host host_;
};

}  // namespace netpipe
