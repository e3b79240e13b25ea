// SPDX-License-Identifier: Apache-2.0
// What this process may use: resource limits, control groups, the container that it is in, and the rights it has.
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/text.h"
#include "machine/facts.h"

namespace netpipe {
namespace {

// A soft or hard limit: bytes or a count, or "unlimited".
Facts::Value limit_value(const std::vector<std::string>& words, std::size_t at) {
  if (at >= words.size()) return {};
  if (words[at] == "unlimited") return words[at];
  const auto number = parse_number(words[at]);
  return number ? Facts::Value(*number) : Facts::Value();
}

void gather_rlimits(const Files& files, Facts& facts) {
  struct Limit {
    const char* row;
    const char* name;
  };
  static constexpr std::array<Limit, 6> limits{{{"Max locked memory", "memlock_bytes"},
                                                {"Max open files", "open_files"},
                                                {"Max stack size", "stack_bytes"},
                                                {"Max address space", "address_space_bytes"},
                                                {"Max realtime priority", "realtime_priority"},
                                                {"Max nice priority", "nice"}}};
  const std::string text = files.read("/proc/self/limits").value_or("");
  for (const Limit& limit : limits) {
    std::vector<std::string> words;
    if (const std::size_t at = text.find(limit.row); at != std::string::npos) {
      const std::size_t from = at + std::string_view(limit.row).size();
      words = split_words(std::string_view(text).substr(from, text.find('\n', from) - from));
    }
    facts.set("limits." + std::string(limit.name), limit_value(words, 0));
    facts.set("limits." + std::string(limit.name) + "_hard", limit_value(words, 1));
  }
}

// A control group's files, from the group of this process up to the root. The path in /proc is the one that the host
// sees: below a container's own mount its first parts do not exist, and only what is there is asked.
class ControlGroup {
 public:
  ControlGroup(const Files& files, std::string_view controller) : files_(files) {
    const std::string text = files.read("/proc/self/cgroup").value_or("");
    for (const std::string& row : split(text, '\n')) {  // "4:memory:/path", and "0::/path" for version 2
      const std::size_t first = row.find(':');
      const std::size_t second = first == std::string::npos ? first : row.find(':', first + 1);
      if (second == std::string::npos) continue;
      const std::vector<std::string> controllers = split(row.substr(first + 1, second - first - 1), ',');
      if (std::find(controllers.begin(), controllers.end(), controller) != controllers.end()) {
        version_ = 1;
        base_ = "/sys/fs/cgroup/" + std::string(controller);
        path_ = row.substr(second + 1);
        return;
      }
      if (second == first + 1 && version_ == 0) {
        version_ = 2;
        base_ = "/sys/fs/cgroup";
        path_ = row.substr(second + 1);
      }
    }
  }

  [[nodiscard]] int version() const { return version_; }

  // Calls `look` with each directory from the own group to the root.
  template <typename Look>
  void climb(Look look) const {
    if (version_ == 0) return;
    std::string path = path_ == "/" ? "" : path_;
    for (;;) {
      look(base_ + path);
      const std::size_t slash = path.rfind('/');
      if (slash == std::string::npos) return;
      path.resize(slash);
    }
  }

  template <typename T>
  static void keep_smaller(std::optional<T>& least, std::optional<T> other) {
    if (other && (!least || *other < *least)) least = other;
  }

  // Processors' worth of time that the group may use.
  [[nodiscard]] std::optional<double> cpu_quota() const {
    std::optional<double> least;
    climb([&](const std::string& directory) {
      std::optional<std::int64_t> quota, period;
      if (version_ == 2) {
        const auto words = files_.words(directory + "/cpu.max");  // "200000 100000" or "max 100000"
        if (!words || words->size() != 2) return;
        quota = parse_number((*words)[0]);
        period = parse_number((*words)[1]);
      } else {
        quota = files_.number(directory + "/cpu.cfs_quota_us");  // -1: none
        period = files_.number(directory + "/cpu.cfs_period_us");
      }
      if (!quota || !period || *quota <= 0 || *period <= 0) return;
      keep_smaller(least, std::optional(static_cast<double>(*quota) / static_cast<double>(*period)));
    });
    return least;
  }

  [[nodiscard]] std::optional<std::int64_t> memory_max() const {
    std::optional<std::int64_t> least;
    climb([&](const std::string& directory) {
      const auto bytes = files_.number(directory + (version_ == 2 ? "/memory.max" : "/memory.limit_in_bytes"));
      // Version 1 writes "none" as the largest multiple of a page that fits.
      if (bytes && *bytes < (std::int64_t{1} << 60)) keep_smaller(least, bytes);
    });
    return least;
  }

  // The first answer on the way up.
  [[nodiscard]] std::optional<std::string> nearest_line(const char* file) const {
    std::optional<std::string> found;
    climb([&](const std::string& directory) {
      if (!found) found = files_.line(directory + "/" + file);
    });
    return found;
  }

  // How often the group has been stopped for having used up its quota.
  [[nodiscard]] std::optional<std::int64_t> throttled() const {
    std::optional<std::int64_t> count;
    climb([&](const std::string& directory) {
      for (const std::string& row : split(files_.read(directory + "/cpu.stat").value_or(""), '\n')) {
        if (row.starts_with("nr_throttled "))
          count = std::max(count.value_or(0), parse_number(row.substr(13)).value_or(0));
      }
    });
    return count;
  }

 private:
  const Files& files_;
  int version_ = 0;  // 0: not in any group that we know
  std::string base_;
  std::string path_;
};

std::optional<std::string> container(const Files& files) {
  struct Trace {
    const char* path;
    const char* name;
  };
  static constexpr std::array<Trace, 4> traces{{{"/.dockerenv", "docker"},
                                                {"/run/.containerenv", "podman"},
                                                {"/.singularity.d", "apptainer"},
                                                {"/var/run/secrets/kubernetes.io", "kubernetes"}}};
  for (const Trace& trace : traces) {
    if (files.exists(trace.path)) return trace.name;
  }
  if (auto told = files.line("/run/systemd/container"))
    return told;  // systemd's own convention: lxc, systemd-nspawn, ...
  const std::string groups = files.read("/proc/self/cgroup").value_or("");
  for (const char* name : {"docker", "kubepods", "libpod", "lxc"}) {
    if (groups.find(name) != std::string::npos) return name;
  }
  return "none";
}

// Is a capability (capabilities(7), by its number) in force?
std::optional<bool> capable(const Files& files, int number) {
  const auto text = colon_field(files.read("/proc/self/status").value_or(""), "CapEff");
  std::uint64_t mask = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), mask, 16).ec != std::errc())
    return std::nullopt;
  return ((mask >> number) & 1) != 0;
}

// Whether this process may call process_vm_readv at all, else the kernel's reason. It reads its own memory, for which
// the kernel asks for no right: what is refused here is refused by a filter of system calls (seccomp), or not built in.
std::string cross_memory_attach() {
  std::uint64_t from = 1, to = 0;
  const iovec here{&to, sizeof to}, there{&from, sizeof from};
  const ssize_t copied = ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0);
  return copied < 0 ? std::strerror(errno) : "allowed";
}

}  // namespace

void gather_limits(const Files& files, const Topology& topology, Facts& facts) {
  gather_rlimits(files, facts);
  facts.set("limits.allowed_cpus",
            topology.allowed.empty() ? std::nullopt : std::optional(cpu_list_text(topology.allowed)));
  facts.set("limits.allowed_cpu_count", topology.allowed.empty()
                                            ? std::nullopt
                                            : std::optional(static_cast<std::int64_t>(topology.allowed.size())));
  const ControlGroup cpu(files, "cpu"), memory(files, "memory"), cpuset(files, "cpuset");
  facts.set("limits.cgroup.version", cpu.version() == 0 ? std::nullopt : std::optional(std::int64_t{cpu.version()}));
  facts.set("limits.cgroup.cpu_quota", cpu.cpu_quota());
  facts.set("limits.cgroup.throttled", cpu.throttled());
  facts.set("limits.cgroup.memory_max_bytes", memory.memory_max());
  facts.set("limits.cgroup.cpuset",
            cpuset.nearest_line(cpuset.version() == 2 ? "cpuset.cpus.effective" : "cpuset.effective_cpus"));
  facts.set("limits.container", container(files));
  facts.set("limits.ptrace_scope", files.number("/proc/sys/kernel/yama/ptrace_scope"));
  facts.set("limits.process_vm_readv", cross_memory_attach());
  facts.set("limits.may_trace_others", capable(files, 19));    // CAP_SYS_PTRACE
  facts.set("limits.may_lock_memory", capable(files, 14));     // CAP_IPC_LOCK
  facts.set("limits.may_raise_priority", capable(files, 23));  // CAP_SYS_NICE
  facts.set("limits.xpmem", files.exists("/dev/xpmem"));       // kernel modules that are not part of Linux
  facts.set("limits.knem", files.exists("/dev/knem"));
  facts.set("limits.pipe_max_bytes", files.number("/proc/sys/fs/pipe-max-size"));
  const auto disabled = files.number("/proc/sys/kernel/io_uring_disabled");
  facts.set("limits.io_uring", disabled ? std::optional(*disabled == 0) : std::nullopt);
  facts.set("limits.shmmax_bytes", files.number("/proc/sys/kernel/shmmax"));
  // The file system behind shm_open and every MPI's shared memory.
  struct statvfs shm{};
  const bool known = files.exists("/dev/shm") && statvfs(files.path("/dev/shm").c_str(), &shm) == 0;
  const auto bytes = [&](auto blocks) {
    return known ? std::optional(static_cast<std::int64_t>(blocks * shm.f_frsize)) : std::nullopt;
  };
  facts.set("limits.dev_shm_total_bytes", bytes(shm.f_blocks));
  facts.set("limits.dev_shm_free_bytes", bytes(shm.f_bavail));
}

}  // namespace netpipe
