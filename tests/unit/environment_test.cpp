// SPDX-License-Identifier: Apache-2.0
// Machines made of files: what is said about a host must follow from what the host says about itself.
#include "machine/environment.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fake_host.h"
#include "machine/facts.h"

namespace netpipe {
namespace {

std::string json_of(const Facts& facts) {
  Json json;
  json.open('{');
  facts.write(json);
  json.close('}');
  return json.take();
}

// A fact as text, whatever its type; "?" if it is not known. Numbers have no decimals they do not need.
std::string said(const Facts& facts, const std::string& name) {
  if (const auto truth = facts.truth(name)) return *truth ? "true" : "false";
  if (const auto text = facts.text(name)) return *text;
  if (const auto number = facts.number(name)) {
    const std::string digits = std::to_string(*number);
    const std::size_t last = digits.find_last_not_of('0');
    return digits.substr(0, digits[last] == '.' ? last : last + 1);
  }
  std::string list;
  for (const std::string& word : facts.texts(name)) list += (list.empty() ? "" : " ") + word;
  return list.empty() ? "?" : list;
}

// Is this one well-formed JSON value (RFC 8259)?
class JsonCheck {
 public:
  explicit JsonCheck(std::string_view text) : rest_(text) {}
  bool whole() { return value() && rest_.empty(); }

 private:
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  bool string() {
    if (!take('"')) return false;
    while (!rest_.empty() && rest_.front() != '"') {
      if (static_cast<unsigned char>(rest_.front()) < 0x20) return false;
      rest_.remove_prefix(rest_.front() == '\\' ? std::min<std::size_t>(2, rest_.size()) : 1);
    }
    return take('"');
  }
  bool list(char end, const std::function<bool()>& item) {
    if (take(end)) return true;
    do {
      if (!item()) return false;
    } while (take(','));
    return take(end);
  }
  bool value() {
    if (take('{')) return list('}', [this] { return string() && take(':') && value(); });
    if (take('[')) return list(']', [this] { return value(); });
    if (!rest_.empty() && rest_.front() == '"') return string();
    if (word("null") || word("true") || word("false")) return true;
    const std::size_t end = std::min(rest_.find_first_not_of("+-.0123456789eE"), rest_.size());
    rest_.remove_prefix(end);
    return end > 0;
  }
  std::string_view rest_;
};

// A guest with two cores, as clouds rent them out.
void make_two_core_guest(FakeHost& host) {
  host.cpus("0-1", "0-1").cpu(0, "0", "0-1", "0-1").cpu(1, "1", "0-1", "0-1");
  host.write(
      "/proc/cpuinfo",
      "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Xeon of a test\n"
      "flags\t\t: fpu sse2 avx2 hypervisor erms\n\nprocessor\t: 1\nmodel name\t: another\n");
  host.write("/proc/stat", "cpu  100 0 100 700 0 0 0 100 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n");
  host.write("/sys/devices/virtual/dmi/id/sys_vendor", "QEMU\n");
  host.write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock\n");
  host.write("/sys/devices/system/clocksource/clocksource0/available_clocksource", "kvm-clock tsc acpi_pm \n");
  host.write("/proc/meminfo", "MemTotal: 4000000 kB\nMemAvailable: 3000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n");
  host.write("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
  host.write("/proc/loadavg", "0.10 0.20 0.30 2/80 4242\n");
  host.write("/proc/cmdline", "root=UUID=1234 ro quiet mitigations=off isolcpus=1\n");
}

// Two sockets of four cores with two threads each. Thread t of core c is processor c + 8 * t, as the kernel counts.
void make_two_socket_server(FakeHost& host) {
  host.cpus("0-15", "0-15");
  for (int cpu = 0; cpu < 16; ++cpu) {
    const int core = cpu % 8;
    const std::string siblings = std::to_string(core) + "," + std::to_string(core + 8);
    const std::string socket = core < 4 ? "0-3,8-11" : "4-7,12-15";
    host.cpu(cpu, siblings, socket, socket);
    const std::string frequency = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq/";
    host.write(frequency + "scaling_driver", "intel_pstate\n").write(frequency + "scaling_governor", "powersave\n");
    host.write(frequency + "scaling_max_freq", "3500000\n");
    const std::string idle = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpuidle/";
    host.write(idle + "state0/name", "POLL\n")
        .write(idle + "state0/latency", "0\n")
        .write(idle + "state0/disable", "0\n");
    host.write(idle + "state1/name", "C6\n")
        .write(idle + "state1/latency", "133\n")
        .write(idle + "state1/disable", "0\n");
  }
  host.write("/sys/devices/system/cpu/intel_pstate/no_turbo", "0\n").write("/sys/devices/system/cpu/smt/active", "1\n");
  host.write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Server\nflags\t\t: sse2 avx2 erms\n\n");
  host.write("/sys/devices/system/node/online", "0-1\n");
  host.write("/sys/devices/system/node/node0/cpulist", "0-3,8-11\n")
      .write("/sys/devices/system/node/node0/distance", "10 21\n");
  host.write("/sys/devices/system/node/node1/cpulist", "4-7,12-15\n")
      .write("/sys/devices/system/node/node1/distance", "21 10\n");
  host.write("/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:       65536 kB\nNode 1 MemFree: 1 kB\n");
  host.write("/proc/sys/kernel/numa_balancing", "1\n").write("/proc/sys/kernel/yama/ptrace_scope", "1\n");
  host.write("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
  host.write("/proc/self/limits",
             "Limit                     Soft Limit           Hard Limit           Units     \n"
             "Max locked memory         65536                unlimited            bytes     \n"
             "Max open files            1024                 4096                 files     \n");
  host.write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
}

// A bare machine on which somebody has done everything right.
void make_quiet_machine(FakeHost& host) {
  host.cpus("0-7", "0-7");
  for (int cpu = 0; cpu < 8; ++cpu) {
    host.cpu(cpu, std::to_string(cpu), "0-7", "0-7");
    host.write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq/scaling_driver", "acpi-cpufreq\n");
    host.write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq/scaling_governor", "performance\n");
  }
  host.write("/sys/devices/system/cpu/cpufreq/boost", "0\n");
  host.write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Quiet\nflags\t\t: sse2 avx2\n\n");
  host.write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
  host.write("/proc/meminfo", "MemTotal: 4000000 kB\nMemAvailable: 3000000 kB\nSwapTotal: 100 kB\nSwapFree: 100 kB\n");
  host.write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  host.write("/proc/loadavg", "0.00 0.00 0.00 1/80 4242\n").write("/proc/self/stat", "7 (w) R 1 7 7 0 0\n");
  host.write("/proc/7/stat", "7 (w) R 1 7 7 0 0\n").write("/proc/8/stat", "8 (a) b) S 1 8 8 0 0\n");
  host.write("/proc/sys/kernel/yama/ptrace_scope", "0\n").write("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
  host.write("/proc/self/cgroup", "0::/user.slice\n").write("/sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
}

TEST(Environment, TwoCoreGuest) {
  FakeHost host;
  make_two_core_guest(host);
  const Facts facts = host.facts({0, 1});
  EXPECT_EQ(facts.text("cpu.model"), "Xeon of a test");
  EXPECT_EQ(facts.texts("cpu.flags"), (std::vector<std::string>{"sse2", "avx2", "erms", "hypervisor"}));
  EXPECT_EQ(facts.number("cpu.logical"), 2);
  EXPECT_EQ(facts.number("cpu.cores"), 2);
  EXPECT_EQ(facts.number("cpu.sockets"), 1);
  EXPECT_EQ(facts.truth("cpu.smt"), false);
  EXPECT_EQ(facts.number("cpu.cache.l1d_bytes"), 48 * 1024);
  EXPECT_EQ(facts.number("cpu.cache.l3_bytes"), 32 * 1024 * 1024);
  EXPECT_EQ(facts.truth("cpu.virtual.is_virtual"), true);
  EXPECT_EQ(facts.text("cpu.virtual.hypervisor"), "QEMU");
  EXPECT_DOUBLE_EQ(facts.number("cpu.virtual.steal_share").value_or(-1), 0.1);
  EXPECT_EQ(facts.text("cpu.frequency.governor"), std::nullopt);
  EXPECT_EQ(facts.number("memory.total_bytes"), 4000000.0 * 1024);
  EXPECT_EQ(facts.texts("kernel.command_line"), (std::vector<std::string>{"mitigations=off", "isolcpus=1"}));
  EXPECT_EQ(facts.text("clock.source"), "kvm-clock");
  EXPECT_EQ(facts.text("memory.transparent_huge_pages.enabled"), "always");
  EXPECT_EQ(facts.number("pinning.count"), 2);
  EXPECT_EQ(facts.number("pinning.sharing_cpu"), 0);
  EXPECT_EQ(facts.number("pinning.sharing_core"), 0);
}

TEST(StolenTime, IsWhatWasTakenSinceTheEarlierLook) {
  FakeHost host;
  host.write("/proc/stat", "cpu  900 0 0 0 0 0 0 100 0 0\n");
  const std::optional<ProcessorTime> before = processor_time(host.host());
  host.write("/proc/stat", "cpu  950 5 5 100 10 5 5 120 7 0\n");
  EXPECT_DOUBLE_EQ(stolen_share(before, processor_time(host.host())).value_or(-1), 0.1);
  EXPECT_EQ(stolen_share(before, before), std::nullopt);
  EXPECT_EQ(stolen_share(std::nullopt, before), std::nullopt);
  host.write("/proc/stat", "cpu  900 0 0 0\n");  // as kernels before 2.6.11 write it
  EXPECT_EQ(processor_time(host.host()), std::nullopt);
}

TEST(Environment, TwoSocketServer) {
  FakeHost host;
  make_two_socket_server(host);
  const Facts facts = host.facts({1, 9});
  EXPECT_EQ(facts.number("cpu.logical"), 16);
  EXPECT_EQ(facts.number("cpu.cores"), 8);
  EXPECT_EQ(facts.number("cpu.sockets"), 2);
  EXPECT_EQ(facts.truth("cpu.smt"), true);
  EXPECT_EQ(facts.truth("cpu.virtual.is_virtual"), false);
  EXPECT_EQ(facts.text("cpu.frequency.governor"), "powersave");
  EXPECT_EQ(facts.number("cpu.frequency.max_hz"), 3.5e9);
  EXPECT_EQ(facts.truth("cpu.frequency.boost"), true);
  EXPECT_EQ(facts.number("cpu.idle.deepest_exit_ns"), 133000);
  EXPECT_EQ(facts.number("limits.memlock_bytes"), 65536);
  EXPECT_EQ(facts.text("limits.memlock_bytes_hard"), "unlimited");
  EXPECT_EQ(facts.number("pinning.sharing_core"), 1);
  const std::string json = json_of(facts);
  EXPECT_NE(json.find(R"("distances":[21,10])"), std::string::npos);
  EXPECT_NE(json.find(R"({"cpu":9,"core":1,"smt_siblings":"1")"), std::string::npos);
  EXPECT_NE(json.find(R"("total_bytes":67108864)"), std::string::npos);  // of node 1
  EXPECT_EQ(facts.text("clock.source"), "hpet");
  EXPECT_EQ(facts.number("memory.numa_balancing"), 1);
  EXPECT_EQ(facts.number("memory.node_count"), 2);
  EXPECT_EQ(facts.number("network.rdma_device_count"), 1);
  EXPECT_EQ(facts.number("limits.ptrace_scope"), 1);
  EXPECT_TRUE(facts.text("limits.process_vm_readv"));  // of this process: what refuses it is beside its files
  EXPECT_EQ(facts.number("pinning.nodes"), 1);
  EXPECT_EQ(host.facts({1, 4}).number("pinning.nodes"), 2);
  EXPECT_EQ(host.facts({1, 2}).number("pinning.sharing_core"), 0);
}

// What the rules in python/netpipe/findings/machine ask for: tests/python/test_findings.py judges the same values.
TEST(Environment, AQuietMachineSaysSo) {
  FakeHost host;
  make_quiet_machine(host);
  const Facts facts = host.facts({1, 2});
  const std::vector<std::pair<std::string, std::string>> expected{
      {"cpu.logical", "8"},
      {"cpu.virtual.is_virtual", "false"},
      {"cpu.frequency.driver", "acpi-cpufreq"},
      {"cpu.frequency.governor", "performance"},
      {"cpu.frequency.boost", "false"},
      {"clock.source", "tsc"},
      {"kernel.debug_features", "?"},
      {"limits.cgroup.cpu_quota", "?"},
      {"limits.ptrace_scope", "0"},
      {"load.average_1", "0"},
      {"load.other_busy_processes", "0"},
      {"memory.total_bytes", "4096000000"},
      {"memory.available_bytes", "3072000000"},
      {"memory.swap_used_bytes", "0"},
      {"memory.transparent_huge_pages.enabled", "madvise"},
      {"pinning.count", "2"},
      {"pinning.unpinned", "0"},
      {"pinning.sharing_cpu", "0"},
      {"pinning.sharing_core", "0"},
      {"pinning.nodes", "1"},
  };
  for (const auto& [name, text] : expected) EXPECT_EQ(said(facts, name), text) << name;
}

TEST(Environment, EveryFactThatRulesAskForFollowsItsFile) {
  struct Cause {
    const char* fact;
    const char* becomes;
    const char* path;
    const char* text;
    std::vector<int> pinned = {1, 2};
  };
  const std::string config_path = "/boot/config-6.1.0-18-amd64";
  const std::string cpufreq2 = "/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor";
  const std::vector<Cause> causes{
      {"kernel.debug_features", "LOCKDEP", "/proc/lockdep", ""},
      {"kernel.debug_features", "KASAN", config_path.c_str(), "# Linux\nCONFIG_KASAN=y\n"},
      {"pinning.sharing_cpu", "1", "/proc/loadavg", "0.00 0.00 0.00 1/80 1\n", {1, 1}},
      {"limits.allowed_cpu_count", "1", "/proc/self/status", "Cpus_allowed_list:\t3\n", {-1, -1}},
      {"limits.cgroup.cpu_quota", "2", "/sys/fs/cgroup/user.slice/cpu.max", "200000 100000\n"},
      {"clock.source", "acpi_pm", "/sys/devices/system/clocksource/clocksource0/current_clocksource", "acpi_pm\n"},
      {"memory.available_bytes", "102400000", "/proc/meminfo", "MemTotal: 4000000 kB\nMemAvailable: 100000 kB\n"},
      {"limits.cgroup.memory_max_bytes", "268435456", "/sys/fs/cgroup/memory.max", "268435456\n"},
      {"memory.swap_used_bytes", "92160", "/proc/meminfo",
       "MemTotal: 1000 kB\nMemAvailable: 900 kB\nSwapTotal: 100 kB\nSwapFree: 10 kB\n"},
      {"load.other_busy_processes", "1", "/proc/9/stat", "9 (x) R 1 9 9 0 0\n"},
      {"cpu.virtual.is_virtual", "true", "/sys/hypervisor/type", "xen\n"},
      {"cpu.virtual.steal_share", "0.1", "/proc/stat", "cpu  900 0 0 0 0 0 0 100 0 0\n"},
      {"cpu.frequency.governor", "ondemand,performance", cpufreq2.c_str(), "ondemand\n"},
      {"cpu.frequency.boost", "true", "/sys/devices/system/cpu/cpufreq/boost", "1\n"},
      {"cpu.frequency.throttled", "3", "/sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count", "3\n"},
      {"pinning.unpinned", "1", "/proc/loadavg", "0.00 0.00 0.00 1/80 1\n", {-1, 2}},
      {"memory.page_merging", "true", "/sys/kernel/mm/ksm/run", "1\n"},
      {"memory.transparent_huge_pages.enabled", "always", "/sys/kernel/mm/transparent_hugepage/enabled",
       "[always] madvise never\n"},
      {"limits.ptrace_scope", "2", "/proc/sys/kernel/yama/ptrace_scope", "2\n"},
      {"limits.xpmem", "true", "/dev/xpmem", ""},
      {"limits.knem", "true", "/dev/knem", ""},
  };
  FakeHost host;
  make_quiet_machine(host);
  for (const Cause& cause : causes) {
    const std::string usual = said(host.facts({1, 2}), cause.fact);
    const std::optional<std::string> before = host.swap(cause.path, cause.text);
    EXPECT_EQ(said(host.facts(cause.pinned), cause.fact), cause.becomes) << cause.path;
    host.swap(cause.path, before);
    EXPECT_EQ(said(host.facts({1, 2}), cause.fact), usual) << cause.path;
    EXPECT_NE(usual, cause.becomes) << cause.fact;
  }
}

TEST(Environment, BatteryAndKindsOfCore) {
  FakeHost host;
  make_quiet_machine(host);
  host.write("/sys/class/power_supply/AC/type", "Mains\n").write("/sys/class/power_supply/AC/online", "0\n");
  for (int cpu = 0; cpu < 8; ++cpu) {
    host.write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpu_capacity", cpu < 6 ? "446\n" : "1024\n");
  }
  EXPECT_EQ(host.facts({1, 2}).truth("cpu.frequency.on_battery"), true);
  EXPECT_EQ(host.facts({1, 2}).number("pinning.kinds_of_core"), 1);
  EXPECT_EQ(host.facts({1, 7}).number("pinning.kinds_of_core"), 2);
  EXPECT_EQ(sensible_cpus(2, host.host()), (std::vector<int>{6, 7}));        // the fast ones
  EXPECT_EQ(sensible_cpus(4, host.host()), (std::vector<int>{1, 2, 3, 4}));  // of one kind, where two are not enough
}

TEST(Environment, ControlGroupOfVersion2CountsItsParents) {
  FakeHost host;
  host.cpus("0-7", "0-3");
  host.write("/proc/self/cgroup", "0::/pods/burst/job\n");
  host.write("/sys/fs/cgroup/pods/burst/job/cpu.max", "max 100000\n");
  host.write("/sys/fs/cgroup/pods/burst/cpu.max", "150000 100000\n");
  host.write("/sys/fs/cgroup/pods/burst/cpu.stat", "usage_usec 12\nnr_periods 5\nnr_throttled 3\n");
  host.write("/sys/fs/cgroup/pods/cpu.max", "400000 100000\n").write("/sys/fs/cgroup/pods/memory.max", "104857600\n");
  host.write("/sys/fs/cgroup/pods/burst/job/memory.max", "max\n");
  host.write("/sys/fs/cgroup/pods/burst/job/cpuset.cpus.effective", "0-3\n");
  const Facts facts = host.facts({0, 1});
  EXPECT_EQ(facts.number("limits.cgroup.version"), 2);
  EXPECT_DOUBLE_EQ(facts.number("limits.cgroup.cpu_quota").value_or(-1), 1.5);
  EXPECT_EQ(facts.number("limits.cgroup.throttled"), 3);
  EXPECT_EQ(facts.number("limits.cgroup.memory_max_bytes"), 104857600);
  EXPECT_EQ(facts.text("limits.cgroup.cpuset"), "0-3");
  EXPECT_EQ(facts.text("limits.allowed_cpus"), "0-3");
}

TEST(Environment, ControlGroupOfVersion1BelowAContainersMount) {
  FakeHost host;
  host.cpus("0-3", "0-3");
  // The host's path; in the container the group itself is mounted at the top.
  host.write("/proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n");
  host.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n")
      .write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  host.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // this means: none
  const Facts facts = host.facts({0, 1});
  EXPECT_EQ(facts.number("limits.cgroup.version"), 1);
  EXPECT_DOUBLE_EQ(facts.number("limits.cgroup.cpu_quota").value_or(-1), 2.5);
  EXPECT_EQ(facts.number("limits.cgroup.memory_max_bytes"), std::nullopt);
  EXPECT_EQ(facts.text("limits.container"), "docker");
  EXPECT_EQ(host.facts({0, 1, 2}).number("pinning.count"), 3);
}

TEST(Environment, ProcessesOfOurOwnGroupAreNotOthers) {
  FakeHost host;
  host.write("/proc/self/stat", "7 (netpipe-worker) R 1 7 7 0 0\n")
      .write("/proc/7/stat", "7 (netpipe-worker) R 1 7 7 0 0\n");
  host.write("/proc/8/stat", "8 (its child) R 7 7 7 0 0\n").write("/proc/9/stat", "9 (a ) R 1 7) S 1 9 9 0 0\n");
  EXPECT_EQ(host.facts().number("load.other_busy_processes"), 0);
  host.write("/proc/10/stat", "10 (stranger) R 1 10 10 0 0\n");
  EXPECT_EQ(host.facts().number("load.other_busy_processes"), 1);
}

TEST(Environment, AProcessWhoseFirstThreadSleepsIsBusyIfAnotherRuns) {
  FakeHost host;
  const std::string more = " 0 0 -1 0 0 0 0 0 0 0 0 20 0 2 0\n";  // two threads
  host.write("/proc/self/stat", "7 (netpipe-worker) R 1 7 7 0 0\n").write("/proc/9/stat", "9 (java) S 1 9 9" + more);
  host.write("/proc/9/task/9/stat", "9 (java) S 1 9 9" + more)
      .write("/proc/9/task/10/stat", "10 (java) S 1 9 9" + more);
  EXPECT_EQ(host.facts().number("load.other_busy_processes"), 0);
  host.write("/proc/9/task/10/stat", "10 (java) R 1 9 9" + more);
  EXPECT_EQ(host.facts().number("load.other_busy_processes"), 1);
}

TEST(Environment, TheLoadAverageIsThatOfTheKernel) {
  FakeHost host;
  make_quiet_machine(host);
  host.write("/proc/loadavg", "4.10 0.00 0.00 1/80 1\n");
  EXPECT_EQ(host.facts().number("load.average_1"), 4.1);
  EXPECT_EQ(host.facts().number("load.other_busy_processes"), 0);
}

TEST(Environment, AnEmptyHostIsUnknownAndNoFailure) {
  FakeHost host;
  const std::vector<int> pinned{0, 5};
  const std::string json = environment_json(pinned, host.host());
  EXPECT_TRUE(JsonCheck(json).whole()) << json;
  EXPECT_NE(json.find(R"("model":null)"), std::string::npos);
  EXPECT_NE(json.find(R"("total_bytes":null)"), std::string::npos);
  EXPECT_NE(json.find(R"("is_virtual":null)"), std::string::npos);
  EXPECT_TRUE(sensible_cpus(2, host.host()).empty());
}

TEST(Environment, GarbageInEveryFileIsNoFailure) {
  const std::vector<std::string> garbage{std::string("\0\xff\xfe\x80", 4),
                                         "\n\n\n",
                                         std::string(9000, 'x'),
                                         "18446744073709551615\n",
                                         "-1\n",
                                         "-9223372036854775808 9 9 9 9 9 9 9 9\n",
                                         "4294967295-0,7-,-,,99999999-999999999\n",
                                         ":::\n::\n)(\n[\n",
                                         "[]()\n",
                                         "0-70000\n"};
  FakeHost host;
  make_two_core_guest(host);
  make_two_socket_server(host);
  make_quiet_machine(host);
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(host.host().root)) {
    if (entry.is_regular_file()) paths.push_back(entry.path().string());
  }
  ASSERT_GT(paths.size(), 100U);
  for (const std::string& text : garbage) {
    for (const std::string& path : paths) std::ofstream(path, std::ios::binary) << text;
    const std::vector<int> pinned{0, 1, -1, 1 << 30};
    const std::string json = environment_json(pinned, host.host());
    EXPECT_TRUE(JsonCheck(json).whole()) << text.substr(0, 40) << "\n" << json;
    EXPECT_LE(sensible_cpus(3, host.host()).size(), 3U);
  }
}

TEST(Environment, NoHardwareAddressInTheNameOfAnInterface) {
  FakeHost host;
  host.write("/sys/class/net/enx0123456789ab/mtu", "1500\n").write("/sys/class/net/enx0123456789ab/speed", "1000\n");
  host.write("/sys/class/net/lo/mtu", "65536\n").write("/sys/class/net/bonding_masters", "\n");
  const std::string json = json_of(host.facts());
  EXPECT_NE(json.find(R"("name":"enx*")"), std::string::npos);
  EXPECT_NE(json.find(R"("bits_per_s":1000000000)"), std::string::npos);
  EXPECT_EQ(json.find("0123456789ab"), std::string::npos);
  EXPECT_EQ(json.find("bonding_masters"), std::string::npos);
}

TEST(Environment, ThisMachine) {
  const std::vector<int> cpus = sensible_cpus(2);
  ASSERT_EQ(cpus.size(), 2U);
  const std::string json = environment_json(cpus);
  EXPECT_TRUE(JsonCheck(json).whole()) << json;
  for (const char* section : {"clock", "cpu", "kernel", "limits", "load", "memory", "network", "pinning", "software"}) {
    EXPECT_NE(json.find('"' + std::string(section) + "\":{"), std::string::npos) << section;
  }
  EXPECT_NE(json.find(R"("monotonic_resolution_ns":)"), std::string::npos);
  EXPECT_EQ(json.find(R"("page_bytes":null)"), std::string::npos);
  // No hardware address of this machine's is in it.
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net")) {
    std::string address;
    std::ifstream(entry.path() / "address") >> address;
    if (address.empty() || address == "00:00:00:00:00:00") continue;
    EXPECT_EQ(json.find(address), std::string::npos) << entry.path();
  }
}

TEST(SensibleCpus, OneSocketOneCacheNoSiblingsNotCpu0) {
  FakeHost host;
  make_two_socket_server(host);
  EXPECT_EQ(sensible_cpus(1, host.host()), (std::vector<int>{1}));
  EXPECT_EQ(sensible_cpus(2, host.host()), (std::vector<int>{1, 2}));
  EXPECT_EQ(sensible_cpus(3, host.host()), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(sensible_cpus(4, host.host()), (std::vector<int>{4, 5, 6, 7}));  // the other socket spares cpu 0
  EXPECT_EQ(sensible_cpus(7, host.host()), (std::vector<int>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(sensible_cpus(0, host.host()), std::vector<int>{});
  EXPECT_EQ(sensible_cpus(-3, host.host()), std::vector<int>{});
}

TEST(SensibleCpus, SiblingsComeLastAndThenTheyRepeat) {
  FakeHost host;
  make_two_socket_server(host);
  EXPECT_EQ(sensible_cpus(8, host.host()), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(sensible_cpus(9, host.host()), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  const std::vector<int> many = sensible_cpus(40, host.host());
  ASSERT_EQ(many.size(), 40U);
  for (std::size_t i = 16; i < many.size(); ++i) EXPECT_EQ(many[i], many[i - 16]);
}

TEST(SensibleCpus, StaysInsideTheAffinityMask) {
  FakeHost host;
  make_two_socket_server(host);
  host.cpus("0-15", "0,8,5,13");  // two cores, one on each socket
  EXPECT_EQ(sensible_cpus(2, host.host()), (std::vector<int>{0, 5}));
  EXPECT_EQ(sensible_cpus(3, host.host()), (std::vector<int>{0, 5, 8}));
  host.cpus("0-15", "3,9-10");
  EXPECT_EQ(sensible_cpus(2, host.host()), (std::vector<int>{3, 9}));
  host.cpus("0-6", "6-12");  // some of them are offline
  EXPECT_EQ(sensible_cpus(2, host.host()), (std::vector<int>{6, 6}));
}

TEST(SensibleCpus, CloseCacheBeforeSocket) {
  FakeHost host;
  host.cpus("0-7", "0-7");
  for (int cpu = 0; cpu < 8; ++cpu)
    host.cpu(cpu, std::to_string(cpu), cpu < 3 ? "0-2" : cpu < 6 ? "3-5" : "6-7", "0-7");
  EXPECT_EQ(sensible_cpus(2, host.host()), (std::vector<int>{1, 2}));
  EXPECT_EQ(sensible_cpus(3, host.host()), (std::vector<int>{3, 4, 5}));
  EXPECT_EQ(sensible_cpus(4, host.host()), (std::vector<int>{1, 2, 3, 4}));
}

TEST(SensibleCpus, TwoCoresAreBothUsed) {
  FakeHost host;
  make_two_core_guest(host);
  EXPECT_EQ(sensible_cpus(2, host.host()), (std::vector<int>{0, 1}));
  EXPECT_EQ(sensible_cpus(3, host.host()), (std::vector<int>{0, 1, 0}));
}

TEST(SensibleCpus, SmallCoresOfAnIntelHybridAreLeftAlone) {
  FakeHost host;
  host.cpus("0-7", "0-7").write("/sys/devices/cpu_atom/cpus", "4-7\n");
  for (int cpu = 0; cpu < 8; ++cpu)
    host.cpu(cpu, cpu < 4 ? (cpu < 2 ? "0-1" : "2-3") : std::to_string(cpu), "0-7", "0-7");
  EXPECT_EQ(sensible_cpus(1, host.host()), (std::vector<int>{2}));
  EXPECT_EQ(sensible_cpus(2, host.host()), (std::vector<int>{0, 2}));  // a fast core counts more than sparing cpu 0
  EXPECT_EQ(sensible_cpus(3, host.host()), (std::vector<int>{4, 5, 6}));
}

TEST(Files, CpuLists) {
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11\n"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_cpu_list(""), std::vector<int>{});
  EXPECT_EQ(parse_cpu_list("3,1,1-2"), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(cpu_list_text({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(cpu_list_text({}), "");
}

TEST(Files, NumbersAreWholeWords) {
  EXPECT_EQ(parse_number(" 42 kB\n"), 42);
  EXPECT_EQ(parse_number("-1"), -1);
  EXPECT_EQ(parse_number("unlimited"), std::nullopt);
  EXPECT_EQ(parse_number("12abc"), std::nullopt);
  EXPECT_EQ(parse_number(""), std::nullopt);
  EXPECT_EQ(parse_number("99999999999999999999"), std::nullopt);
}

}  // namespace
}  // namespace netpipe
