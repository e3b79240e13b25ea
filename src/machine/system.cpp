// SPDX-License-Identifier: Apache-2.0
// Memory, the kernel, its clocks, and what else is running.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>

#include "base/text.h"
#include "machine/facts.h"

namespace netpipe {
namespace {

std::optional<double> parse_decimal(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// One row of /proc/meminfo, which counts KiB.
std::optional<std::int64_t> meminfo_bytes(const std::string& info, std::string_view name) {
  const auto text = colon_field(info, name);
  const auto kib = text ? parse_number(*text) : std::nullopt;
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

void gather_nodes(const Files& files, Facts& facts) {
  const std::vector<int> nodes = files.cpu_list("/sys/devices/system/node/online");
  Json json;
  json.open('[');
  for (const int node : nodes) {
    const std::string directory = "/sys/devices/system/node/node" + std::to_string(node);
    // Its rows read "Node 0 MemTotal:  24684092 kB".
    const std::string info = files.read(directory + "/meminfo").value_or("");
    const std::string prefix = "Node " + std::to_string(node) + " ";
    json.open('{').field("node", node).field("cpus", files.line(directory + "/cpulist"));
    json.field("total_bytes", meminfo_bytes(info, prefix + "MemTotal"));
    json.field("free_bytes", meminfo_bytes(info, prefix + "MemFree"));
    json.key("distances").open('[');
    for (const std::int64_t distance : files.numbers(directory + "/distance").value_or(std::vector<std::int64_t>{})) {
      json.value(distance);
    }
    json.close(']').close('}');
  }
  json.close(']');
  facts.set("memory.nodes", Facts::Raw{json.take()});
  facts.set("memory.node_count", nodes.empty() ? std::nullopt : std::optional(static_cast<std::int64_t>(nodes.size())));
}

void gather_huge_pages(const Files& files, Facts& facts) {
  const std::string base = "/sys/kernel/mm/hugepages";
  Json json;
  json.open('[');
  for (const std::string& name : files.names(base)) {  // "hugepages-2048kB"
    const auto digits = name.find_first_of("0123456789");
    const auto end = name.rfind("kB");
    if (digits == std::string::npos || end == std::string::npos || end < digits) continue;
    const auto kib = parse_number(name.substr(digits, end - digits));
    if (!kib) continue;
    json.open('{').field("size_bytes", *kib * 1024).field("total", files.number(base + "/" + name + "/nr_hugepages"));
    json.field("free", files.number(base + "/" + name + "/free_hugepages")).close('}');
  }
  json.close(']');
  facts.set("memory.huge_pages", Facts::Raw{json.take()});
}

// The words of the kernel's command line that change how fast a message goes. The others (disks, consoles, ids) stay
// out.
constexpr std::array boot_words{"isolcpus",
                                "nohz_full",
                                "nohz",
                                "rcu_nocbs",
                                "irqaffinity",
                                "mitigations",
                                "spectre_v2",
                                "pti",
                                "nopti",
                                "nospectre_v1",
                                "nospectre_v2",
                                "mds",
                                "nosmt",
                                "maxcpus",
                                "nr_cpus",
                                "preempt",
                                "threadirqs",
                                "clocksource",
                                "tsc",
                                "idle",
                                "intel_idle.max_cstate",
                                "processor.max_cstate",
                                "intel_pstate",
                                "amd_pstate",
                                "cpufreq.default_governor",
                                "hugepages",
                                "hugepagesz",
                                "default_hugepagesz",
                                "transparent_hugepage",
                                "numa",
                                "numa_balancing",
                                "iommu",
                                "intel_iommu",
                                "amd_iommu",
                                "iommu.passthrough",
                                "iommu.strict",
                                "swiotlb",
                                "nosoftlockup",
                                "nmi_watchdog",
                                "skew_tick",
                                "audit",
                                "selinux",
                                "apparmor",
                                "init_on_alloc",
                                "init_on_free",
                                "slub_debug",
                                "page_poison",
                                "debug_pagealloc",
                                "kasan",
                                "cpuidle_haltpoll.force",
                                "haltpoll.guest_halt_poll_ns"};

void gather_boot_words(const Files& files, Facts& facts) {
  const auto words = files.words("/proc/cmdline");
  if (!words) {
    facts.set("kernel.command_line", Facts::Value());
    return;
  }
  std::vector<std::string> kept;
  for (const std::string& word : *words) {
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    if (std::find(boot_words.begin(), boot_words.end(), name) != boot_words.end()) kept.push_back(word);
  }
  facts.set("kernel.command_line", std::move(kept));
}

// "none", "voluntary", "full", "lazy", "realtime", or "dynamic" where it could be any of the first four and is not
// shown.
std::optional<std::string> preemption(const Files& files, const Facts& facts, const std::string& config) {
  if (auto now = files.chosen("/sys/kernel/debug/sched/preempt")) return now;
  for (const std::string& word : facts.texts("kernel.command_line")) {
    if (word.starts_with("preempt=")) return word.substr(8);
  }
  const std::string version = files.line("/proc/sys/kernel/version").value_or("");
  const auto has = [](const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; };
  if (has(version, "PREEMPT_RT") || files.number("/sys/kernel/realtime") == 1) return "realtime";
  if (has(version, "PREEMPT_DYNAMIC")) return "dynamic";
  if (has(version, "PREEMPT")) return "full";
  if (has(config, "\nCONFIG_PREEMPT_VOLUNTARY=y")) return "voluntary";
  if (has(config, "\nCONFIG_PREEMPT_NONE=y")) return "none";
  return std::nullopt;
}

// What a kernel built to find its own faults gives away; each costs many per cent in locks or memory.
std::vector<std::string> debug_features(const Files& files, const std::string& release, const std::string& config) {
  std::vector<std::string> found;
  if (release.find("debug") != std::string::npos) found.emplace_back("release name");
  if (files.exists("/proc/lockdep")) found.emplace_back("LOCKDEP");
  if (files.exists("/proc/lock_stat")) found.emplace_back("LOCK_STAT");
  for (const char* option :
       {"KASAN", "KCSAN", "KMSAN", "PROVE_LOCKING", "DEBUG_PAGEALLOC_ENABLE_DEFAULT", "SLUB_DEBUG_ON"}) {
    if (config.find("\nCONFIG_" + std::string(option) + "=y") != std::string::npos) found.emplace_back(option);
  }
  return found;
}

// Of a row of /proc/PID/stat. The name stands in parentheses and may hold any.
struct ProcessState {
  char state;  // of the first thread
  std::int64_t group;
  std::int64_t threads;
};
std::optional<ProcessState> process_state(const Files& files, const std::string& process) {
  const auto row = files.line("/proc/" + process + "/stat");
  if (!row) return std::nullopt;
  const std::size_t end = row->rfind(')');
  if (end == std::string::npos) return std::nullopt;
  const std::vector<std::string> words = split_words(std::string_view(*row).substr(end + 1));  // state, parent, group
  constexpr std::size_t threads_at = 17;
  if (words.size() < 3 || words[0].size() != 1) return std::nullopt;
  const std::int64_t threads = words.size() > threads_at ? parse_number(words[threads_at]).value_or(1) : 1;
  return ProcessState{words[0][0], parse_number(words[2]).value_or(-1), threads};
}

std::vector<std::string> numbers_in(const Files& files, const std::string& folder) {
  std::vector<std::string> found = files.names(folder);
  std::erase_if(found,
                [](const std::string& name) { return name.find_first_not_of("0123456789") != std::string::npos; });
  return found;
}

// Processes outside our own process group of which a thread runs or wants to run at this moment. Not counted on a
// machine with so many processes that asking each would disturb more than the answer is worth; nor are the threads of
// those that have as many.
std::optional<std::int64_t> other_busy_processes(const Files& files) {
  constexpr std::size_t most = 1000;
  const auto self = process_state(files, "self");
  if (!self) return std::nullopt;
  const std::vector<std::string> pids = numbers_in(files, "/proc");
  if (pids.size() > most) return std::nullopt;
  std::size_t asked = pids.size();
  std::int64_t busy = 0;
  for (const std::string& pid : pids) {
    const auto other = process_state(files, pid);
    if (!other || other->group == self->group) continue;
    bool runs = other->state == 'R';
    if (!runs && other->threads > 1) {
      const std::vector<std::string> threads = numbers_in(files, "/proc/" + pid + "/task");
      asked += threads.size();
      if (asked > most) continue;
      runs = std::ranges::any_of(threads, [&](const std::string& thread) {
        const auto one = process_state(files, pid + "/task/" + thread);
        return one && one->state == 'R';
      });
    }
    busy += runs ? 1 : 0;
  }
  return busy;
}

}  // namespace

void gather_memory(const Files& files, Facts& facts) {
  const std::string info = files.read("/proc/meminfo").value_or("");
  const auto bytes = [&](const char* name) { return meminfo_bytes(info, name); };
  facts.set("memory.total_bytes", bytes("MemTotal"));
  facts.set("memory.available_bytes", bytes("MemAvailable"));
  const auto swap = bytes("SwapTotal"), swap_free = bytes("SwapFree");
  facts.set("memory.swap_total_bytes", swap);
  facts.set("memory.swap_used_bytes", swap && swap_free ? std::optional(*swap - *swap_free) : std::nullopt);
  const long page = files.live() ? sysconf(_SC_PAGESIZE) : 0;
  facts.set("memory.page_bytes", page > 0 ? std::optional(std::int64_t{page}) : std::nullopt);
  facts.set("memory.swappiness", files.number("/proc/sys/vm/swappiness"));
  facts.set("memory.zone_reclaim", files.number("/proc/sys/vm/zone_reclaim_mode"));
  facts.set("memory.numa_balancing", files.number("/proc/sys/kernel/numa_balancing"));
  const std::string thp = "/sys/kernel/mm/transparent_hugepage/";
  facts.set("memory.transparent_huge_pages.enabled", files.chosen(thp + "enabled"));
  facts.set("memory.transparent_huge_pages.defrag", files.chosen(thp + "defrag"));
  facts.set("memory.transparent_huge_pages.shmem", files.chosen(thp + "shmem_enabled"));
  const auto merging = files.number("/sys/kernel/mm/ksm/run");
  facts.set("memory.page_merging", merging ? std::optional(*merging == 1) : std::nullopt);
  gather_huge_pages(files, facts);
  gather_nodes(files, facts);
}

void gather_kernel(const Files& files, Facts& facts) {
  const std::string release = files.line("/proc/sys/kernel/osrelease").value_or("");
  facts.set("kernel.release", release.empty() ? std::nullopt : std::optional(release));
  facts.set("kernel.version", files.line("/proc/sys/kernel/version"));
  std::optional<std::string> distribution;
  for (const std::string& row : split(files.read("/etc/os-release").value_or(""), '\n')) {
    if (!row.starts_with("PRETTY_NAME=")) continue;
    distribution = row.substr(12);
    std::erase(*distribution, '"');
  }
  facts.set("kernel.distribution", distribution);
  gather_boot_words(files, facts);
  const std::string config =
      release.empty() ? "" : files.read("/boot/config-" + release, std::size_t{1} << 19).value_or("");
  facts.set("kernel.preemption", preemption(files, facts, config));
  facts.set("kernel.debug_features", debug_features(files, release, config));
  struct Knob {
    const char* name;
    const char* file;
  };
  static constexpr std::array<Knob, 10> knobs{
      {{"autogroup", "/proc/sys/kernel/sched_autogroup_enabled"},
       {"realtime_period_us", "/proc/sys/kernel/sched_rt_period_us"},
       {"realtime_runtime_us", "/proc/sys/kernel/sched_rt_runtime_us"},
       {"round_robin_ms", "/proc/sys/kernel/sched_rr_timeslice_ms"},
       {"energy_aware", "/proc/sys/kernel/sched_energy_aware"},
       {"timer_migration", "/proc/sys/kernel/timer_migration"},
       {"base_slice_ns", "/sys/kernel/debug/sched/base_slice_ns"},
       {"min_granularity_ns", "/proc/sys/kernel/sched_min_granularity_ns"},
       {"wakeup_granularity_ns", "/proc/sys/kernel/sched_wakeup_granularity_ns"},
       {"migration_cost_ns", "/proc/sys/kernel/sched_migration_cost_ns"}}};
  for (const Knob& knob : knobs) facts.set("kernel.scheduler." + std::string(knob.name), files.number(knob.file));
  facts.set("kernel.nmi_watchdog", files.number("/proc/sys/kernel/nmi_watchdog"));
  facts.set("kernel.address_randomisation", files.number("/proc/sys/kernel/randomize_va_space"));
}

std::optional<std::string> clock_source(const Host& host) {
  return Files(host).line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
}

void gather_clock(const Files& files, Facts& facts) {
  facts.set("clock.source", clock_source({files.path("/")}));
  const auto sources = files.words("/sys/devices/system/clocksource/clocksource0/available_clocksource");
  facts.set("clock.sources", sources);
  const auto resolution = [&](clockid_t id) -> std::optional<std::int64_t> {
    timespec step{};
    if (!files.live() || clock_getres(id, &step) != 0) return std::nullopt;
    return std::int64_t{step.tv_sec} * 1'000'000'000 + step.tv_nsec;
  };
  facts.set("clock.monotonic_resolution_ns", resolution(CLOCK_MONOTONIC));
  facts.set("clock.monotonic_raw_resolution_ns", resolution(CLOCK_MONOTONIC_RAW));
  // The coarse clock advances at each tick, so its resolution is 1 / CONFIG_HZ; sysconf(_SC_CLK_TCK) is always 100.
  const std::int64_t tick_ns = resolution(CLOCK_MONOTONIC_COARSE).value_or(0);
  facts.set("clock.tick_hz", tick_ns > 0 ? std::optional(std::int64_t{1'000'000'000} / tick_ns) : std::nullopt);
}

void gather_load(const Files& files, Facts& facts) {
  const auto averages = files.words("/proc/loadavg");  // "0.20 0.18 0.12 1/80 11206" (proc(5))
  const auto average = [&](std::size_t at) {
    return averages && averages->size() > at ? parse_decimal((*averages)[at]) : std::nullopt;
  };
  facts.set("load.average_1", average(0));
  facts.set("load.average_5", average(1));
  facts.set("load.average_15", average(2));
  std::optional<std::int64_t> runnable, tasks;
  if (averages && averages->size() > 3) {
    const std::vector<std::string> counts = split((*averages)[3], '/');
    runnable = parse_number(counts.front());
    tasks = parse_number(counts.back());
  }
  facts.set("load.runnable", runnable);
  facts.set("load.tasks", tasks);
  facts.set("load.other_busy_processes", other_busy_processes(files));
  // "some avg10=1.53 ...": the per cent of the last 10 s in which some task waited for a processor (kernel, psi.rst).
  std::optional<double> pressure;
  for (const std::string& word : files.words("/proc/pressure/cpu").value_or(std::vector<std::string>{})) {
    if (word.starts_with("avg10=")) pressure = parse_decimal(std::string_view(word).substr(6));
  }
  facts.set("load.cpu_pressure", pressure ? std::optional(*pressure / 100) : std::nullopt);
  const auto uptime = files.words("/proc/uptime");
  facts.set("load.uptime_s", uptime ? parse_decimal(uptime->front()) : std::nullopt);
}

}  // namespace netpipe
