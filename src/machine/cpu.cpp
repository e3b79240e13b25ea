// SPDX-License-Identifier: Apache-2.0
// The processors: what they are, how fast they may run, how deep they sleep, and where the ranks sit on them.
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "machine/facts.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace netpipe {
namespace {

constexpr std::string_view cpus_path = "/sys/devices/system/cpu/";

std::string cpu_path(int cpu, std::string_view file) {
  return std::string(cpus_path) + "cpu" + std::to_string(cpu) + "/" + std::string(file);
}

// The flags that decide which copy loops can run, what the clock is worth, and what a context switch costs.
constexpr std::array flags_that_matter{
    // x86
    "sse2",
    "sse4_2",
    "avx",
    "avx2",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "erms",
    "fsrm",
    "movdir64b",
    "clflushopt",
    "clwb",
    "rdtscp",
    "constant_tsc",
    "nonstop_tsc",
    "tsc_known_freq",
    "invpcid",
    "pcid",
    "pti",
    "waitpkg",
    "hypervisor",
    // Arm
    "asimd",
    "sve",
    "sve2",
    "atomics",
    "dcpop",
    "wfxt",
    "mops",
    // POWER, RISC-V and others list theirs in other words: the model says enough there
};

void gather_model(const Files& files, Facts& facts) {
  // The first block only: a machine with 256 processors writes 400 KB here.
  std::string info = files.read("/proc/cpuinfo", 8192).value_or("");
  if (const std::size_t end = info.find("\n\n"); end != std::string::npos) info.resize(end);
  const auto first_of = [&](std::initializer_list<const char*> names) -> std::optional<std::string> {
    for (const char* name : names) {
      if (auto text = colon_field(info, name); text && !text->empty()) return text;
    }
    return std::nullopt;
  };
  facts.set("cpu.model", first_of({"model name", "cpu model", "uarch", "cpu"}));  // Arm has numbers only, below
  facts.set("cpu.vendor", first_of({"vendor_id", "CPU implementer", "mvendorid"}));
  facts.set("cpu.family", first_of({"cpu family", "CPU architecture"}));
  facts.set("cpu.model_number", first_of({"model", "CPU part", "mimpid"}));
  facts.set("cpu.stepping", first_of({"stepping", "CPU revision", "revision"}));
  facts.set("cpu.microcode", first_of({"microcode"}));
  Facts::Value flags;
  if (const auto all = first_of({"flags", "Features"})) {
    const std::vector<std::string> words = split_words(*all);
    std::vector<std::string> matter;
    for (const char* flag : flags_that_matter) {
      if (std::find(words.begin(), words.end(), flag) != words.end()) matter.emplace_back(flag);
    }
    flags = std::move(matter);
  }
  facts.set("cpu.flags", std::move(flags));
}

// The name that the hypervisor gives itself: leaf 0x40000000 of CPUID, which all makers of hypervisors have agreed on.
std::optional<std::string> hypervisor_of_cpuid() {
#if defined(__x86_64__) || defined(__i386__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & (1U << 31)) == 0) return std::nullopt;
  __cpuid(0x40000000, a, b, c, d);
  std::array<char, 13> name{};
  std::memcpy(name.data(), &b, 4);
  std::memcpy(name.data() + 4, &c, 4);
  std::memcpy(name.data() + 8, &d, 4);
  static constexpr std::array<std::pair<const char*, const char*>, 8> known{{{"KVMKVMKVM", "KVM"},
                                                                             {"Microsoft Hv", "Hyper-V"},
                                                                             {"VMwareVMware", "VMware"},
                                                                             {"XenVMMXenVMM", "Xen"},
                                                                             {"TCGTCGTCGTCG", "QEMU TCG"},
                                                                             {"VBoxVBoxVBox", "VirtualBox"},
                                                                             {"bhyve bhyve ", "bhyve"},
                                                                             {" lrpepyh  vr", "Parallels"}}};
  for (const auto& [signature, product] : known) {
    if (std::strcmp(name.data(), signature) == 0) return product;
  }
  return name[0] != '\0' ? std::string(name.data()) : "unnamed";
#else
  return std::nullopt;
#endif
}

void gather_virtual(const Files& files, Facts& facts) {
  auto hypervisor = files.live() ? hypervisor_of_cpuid() : std::nullopt;
  if (!hypervisor) hypervisor = files.line("/sys/hypervisor/type");
  if (!hypervisor && files.exists("/proc/device-tree/hypervisor")) hypervisor = "named in the device tree";
  const auto maker = files.line("/sys/devices/virtual/dmi/id/sys_vendor");
  const auto product = files.line("/sys/devices/virtual/dmi/id/product_name");
  const std::vector<std::string> flags = facts.texts("cpu.flags");
  const bool flagged = std::find(flags.begin(), flags.end(), "hypervisor") != flags.end();
  // Guests on Arm have no flag: their firmware's name for the machine is all there is.
  const std::string firmware = maker.value_or("") + " " + product.value_or("");
  for (const char* name : {"QEMU", "KVM", "VMware", "VirtualBox", "Xen", "Virtual Machine", "Parallels", "BHYVE"}) {
    if (!hypervisor && firmware.find(name) != std::string::npos) hypervisor = name;
  }
  // An x86 guest may hide its hypervisor, but a processor that lists its flags without this one says that it is real.
  std::optional<bool> is_virtual;
  if (flagged || hypervisor) {
    is_virtual = true;
  } else if (!flags.empty() || maker || product) {
    is_virtual = false;
  }
  facts.set("cpu.virtual.is_virtual", is_virtual);
  facts.set("cpu.virtual.hypervisor", hypervisor);
  facts.set("cpu.virtual.machine", product);

  facts.set("cpu.virtual.steal_share", stolen_share(ProcessorTime{}, processor_time({files.path("/")})));
}

void gather_counts(const Files& files, const Topology& topology, Facts& facts) {
  std::set<int> cores, packages;
  std::vector<int> online;
  for (const Topology::Cpu& cpu : topology.online) {
    cores.insert(cpu.core);
    packages.insert(cpu.package);
    online.push_back(cpu.cpu);
  }
  const auto count = [](std::size_t n) { return n == 0 ? std::nullopt : std::optional(static_cast<std::int64_t>(n)); };
  facts.set("cpu.logical", count(topology.online.size()));
  facts.set("cpu.cores", count(cores.size()));
  facts.set("cpu.sockets", count(packages.size()));
  facts.set("cpu.online", online.empty() ? std::nullopt : std::optional(cpu_list_text(online)));
  facts.set("cpu.isolated", files.line("/sys/devices/system/cpu/isolated"));
  const auto smt = files.number("/sys/devices/system/cpu/smt/active");
  facts.set("cpu.smt", smt              ? std::optional(*smt == 1)
                       : !cores.empty() ? std::optional(cores.size() < topology.online.size())
                                        : std::nullopt);
}

// "48K": what sysfs writes for the size of a cache.
std::optional<std::int64_t> cache_bytes(const std::optional<std::string>& text) {
  if (!text || text->empty()) return std::nullopt;
  const char unit = text->back();
  const std::int64_t factor = unit == 'K' ? 1024 : unit == 'M' ? 1024 * 1024 : 1;
  const auto number = parse_number(factor == 1 ? *text : text->substr(0, text->size() - 1));
  return number ? std::optional(*number * factor) : std::nullopt;
}

void gather_caches(const Files& files, const std::vector<int>& cpus, Facts& facts) {
  std::set<std::string> seen;
  Json json;
  json.open('[');
  for (const int cpu : cpus) {
    for (int index = 0; index < 10; ++index) {
      const std::string directory = cpu_path(cpu, "cache/index" + std::to_string(index));
      const auto level = files.number(directory + "/level");
      if (!level) break;
      const std::string kind = files.line(directory + "/type").value_or("");
      const auto shared = files.line(directory + "/shared_cpu_list");
      if (!seen.insert(std::to_string(*level) + kind + shared.value_or(std::to_string(cpu))).second) continue;
      const auto bytes = cache_bytes(files.line(directory + "/size"));
      json.open('{').field("level", *level).field("type", kind).field("size_bytes", bytes);
      json.field("line_bytes", files.number(directory + "/coherency_line_size"));
      json.field("ways", files.number(directory + "/ways_of_associativity")).field("shared_by", shared).close('}');
      // The data caches of the first processor also by name, for whoever only wants to know what fits.
      if (kind != "Instruction" && cpu == cpus.front()) {
        facts.set("cpu.cache.l" + std::to_string(*level) + (*level == 1 ? "d_bytes" : "_bytes"), bytes);
      }
    }
  }
  json.close(']');
  facts.set("cpu.caches", Facts::Raw{json.take()});
}

// The values of one file of several processors, each once, joined: "performance", or "performance,powersave".
std::optional<std::string> distinct(const Files& files, const std::vector<int>& cpus, std::string_view file) {
  std::set<std::string> values;
  for (const int cpu : cpus) {
    if (const auto value = files.line(cpu_path(cpu, file))) values.insert(*value);
  }
  std::string joined;
  for (const std::string& value : values) joined += (joined.empty() ? "" : ",") + value;
  return joined.empty() ? std::nullopt : std::optional(joined);
}

void gather_frequency(const Files& files, const std::vector<int>& cpus, Facts& facts) {
  const std::string first = cpus.empty() ? "" : cpu_path(cpus.front(), "cpufreq/");
  const auto hertz = [&](const char* file) {
    return first.empty() ? std::nullopt : files.number(first + file, 1000);  // the files count kHz
  };
  // scaling_cur_freq is left alone: on older kernels reading it interrupts the processor and sleeps 10 ms.
  facts.set("cpu.frequency.driver", distinct(files, cpus, "cpufreq/scaling_driver"));
  facts.set("cpu.frequency.governor", distinct(files, cpus, "cpufreq/scaling_governor"));
  facts.set("cpu.frequency.energy_preference", distinct(files, cpus, "cpufreq/energy_performance_preference"));
  facts.set("cpu.frequency.min_hz", hertz("scaling_min_freq"));
  facts.set("cpu.frequency.max_hz", hertz("scaling_max_freq"));
  facts.set("cpu.frequency.hardware_min_hz", hertz("cpuinfo_min_freq"));
  facts.set("cpu.frequency.hardware_max_hz", hertz("cpuinfo_max_freq"));
  facts.set("cpu.frequency.base_hz", hertz("base_frequency"));
  std::optional<bool> boost;
  if (const auto off = files.number("/sys/devices/system/cpu/intel_pstate/no_turbo")) boost = *off == 0;
  if (const auto on = files.number("/sys/devices/system/cpu/cpufreq/boost")) boost = *on != 0;
  facts.set("cpu.frequency.boost", boost);
  auto mode = files.line("/sys/devices/system/cpu/intel_pstate/status");
  if (!mode) mode = files.line("/sys/devices/system/cpu/amd_pstate/status");
  facts.set("cpu.frequency.pstate_mode", mode);
  facts.set(
      "cpu.frequency.throttled",
      cpus.empty() ? std::nullopt : files.number(cpu_path(cpus.front(), "thermal_throttle/package_throttle_count")));
  std::optional<bool> on_battery;
  for (const std::string& supply : files.names("/sys/class/power_supply")) {
    const std::string directory = "/sys/class/power_supply/" + supply;
    if (files.line(directory + "/type") != "Mains") continue;
    if (const auto plugged = files.number(directory + "/online"))
      on_battery = *plugged == 0 && on_battery.value_or(true);
  }
  facts.set("cpu.frequency.on_battery", on_battery);
}

void gather_idle(const Files& files, const std::vector<int>& cpus, Facts& facts) {
  facts.set("cpu.idle.driver", files.line("/sys/devices/system/cpu/cpuidle/current_driver"));
  auto governor = files.line("/sys/devices/system/cpu/cpuidle/current_governor_ro");
  if (!governor) governor = files.line("/sys/devices/system/cpu/cpuidle/current_governor");
  facts.set("cpu.idle.governor", governor);
  std::optional<std::int64_t> deepest;
  Json json;
  json.open('[');
  for (int state = 0; !cpus.empty() && state < 16; ++state) {
    const std::string directory = cpu_path(cpus.front(), "cpuidle/state" + std::to_string(state));
    const auto name = files.line(directory + "/name");
    if (!name) break;
    const auto latency_ns = files.number(directory + "/latency", 1000);  // the file counts microseconds
    const auto disabled = files.number(directory + "/disable");
    json.open('{').field("name", *name).field("exit_ns", latency_ns);
    json.field("enabled", disabled ? std::optional(*disabled == 0) : std::nullopt).close('}');
    if (latency_ns && disabled.value_or(0) == 0) deepest = std::max(deepest.value_or(0), *latency_ns);
  }
  json.close(']');
  facts.set("cpu.idle.states", Facts::Raw{json.take()});
  facts.set("cpu.idle.deepest_exit_ns", deepest);
  // What is read is the tightest limit that any process holds, as four bytes in microseconds (kernel,
  // pm_qos_interface). Opening it only to read asks for nothing.
  std::optional<std::int64_t> limit_ns;
  if (const auto bytes = files.read("/dev/cpu_dma_latency", 4); bytes && bytes->size() == 4) {
    std::int32_t limit_us = 0;
    std::memcpy(&limit_us, bytes->data(), sizeof limit_us);
    limit_ns = std::int64_t{limit_us} * 1000;
  }
  facts.set("cpu.idle.latency_limit_ns", limit_ns);
}

void gather_mitigations(const Files& files, Facts& facts) {
  const std::string directory = "/sys/devices/system/cpu/vulnerabilities";
  const std::vector<std::string> names = files.names(directory);
  if (names.empty()) {
    facts.set("cpu.mitigations", Facts::Value());
    return;
  }
  Json json;
  json.open('{');
  for (const std::string& name : names) json.field(name, files.line(directory + "/" + name));
  json.close('}');
  facts.set("cpu.mitigations", Facts::Raw{json.take()});
}

void gather_pinning(const Files& files, const Topology& topology, std::span<const int> pinned, Facts& facts) {
  std::multiset<int> cpus, cores;
  std::set<int> caches, packages, nodes, capacities;
  std::vector<std::int64_t> list;
  std::int64_t unpinned = 0, shared_cpu = 0, shared_core = 0;
  Json json;
  json.open('[');
  for (const int number : pinned) {
    list.push_back(number);
    const Topology::Cpu* cpu = topology.find(number);
    json.open('{').field("cpu", number < 0 ? std::nullopt : std::optional(number));
    if (number < 0) {
      ++unpinned;
    } else if (cpu != nullptr) {
      if (cpus.contains(number)) {
        ++shared_cpu;
      } else if (cores.contains(cpu->core)) {
        ++shared_core;
      }
      cpus.insert(number);
      cores.insert(cpu->core);
      caches.insert(cpu->cache);
      packages.insert(cpu->package);
      nodes.insert(cpu->node);
      capacities.insert(cpu->capacity);
      std::vector<int> siblings;
      for (const Topology::Cpu& other : topology.online) {
        if (other.core == cpu->core && other.cpu != number) siblings.push_back(other.cpu);
      }
      json.field("core", cpu->core)
          .field("smt_siblings", cpu_list_text(siblings))
          .field("last_level_cache", cpu->cache);
      json.field("socket", cpu->package).field("node", cpu->node < 0 ? std::nullopt : std::optional(cpu->node));
      json.field("capacity", cpu->capacity == 0 ? std::nullopt : std::optional(cpu->capacity));
      json.field("governor", files.line(cpu_path(number, "cpufreq/scaling_governor")));
    }
    json.close('}');
  }
  json.close(']');
  facts.set("pinning.ranks", Facts::Raw{json.take()});
  facts.set("pinning.cpus", std::move(list));
  facts.set("pinning.count", static_cast<std::int64_t>(pinned.size()));
  facts.set("pinning.unpinned", unpinned);
  facts.set("pinning.sharing_cpu", shared_cpu);
  facts.set("pinning.sharing_core", shared_core);
  facts.set("pinning.last_level_caches", static_cast<std::int64_t>(caches.size()));
  facts.set("pinning.sockets", static_cast<std::int64_t>(packages.size()));
  facts.set("pinning.nodes", static_cast<std::int64_t>(nodes.size()));
  facts.set("pinning.kinds_of_core", static_cast<std::int64_t>(capacities.size()));
}

}  // namespace

void gather_cpu(const Files& files, const Topology& topology, std::span<const int> pinned, Facts& facts) {
  // Per-processor facts are those of the pinned ones; where nothing is pinned, of the first that may be used.
  std::vector<int> cpus;
  for (const int cpu : pinned) {
    if (cpu >= 0 && std::find(cpus.begin(), cpus.end(), cpu) == cpus.end()) cpus.push_back(cpu);
  }
  if (cpus.empty() && !topology.allowed.empty()) cpus.push_back(topology.allowed.front());

  utsname name{};
  facts.set("cpu.architecture",
            files.live() && uname(&name) == 0 ? std::optional(std::string(name.machine)) : std::nullopt);
  gather_model(files, facts);
  gather_virtual(files, facts);
  gather_counts(files, topology, facts);
  gather_caches(files, cpus, facts);
  gather_frequency(files, cpus, facts);
  gather_idle(files, cpus, facts);
  gather_mitigations(files, facts);
  gather_pinning(files, topology, pinned, facts);
}

std::optional<ProcessorTime> processor_time(const Host& host) {
  // Ticks: user nice system idle iowait irq softirq steal (proc(5)); the time of guests is inside user.
  const auto times = Files(host).words("/proc/stat");
  if (!times || times->size() < 9 || times->front() != "cpu") return std::nullopt;
  ProcessorTime time;
  for (std::size_t i = 1; i <= 8; ++i) {
    const auto ticks = static_cast<double>(parse_number((*times)[i]).value_or(0));
    time.all_ticks += ticks;
    if (i == 8) time.stolen_ticks = ticks;
  }
  return time;
}

std::optional<double> stolen_share(const std::optional<ProcessorTime>& before,
                                   const std::optional<ProcessorTime>& after) {
  if (!before || !after || after->all_ticks <= before->all_ticks) return std::nullopt;
  return (after->stolen_ticks - before->stolen_ticks) / (after->all_ticks - before->all_ticks);
}

}  // namespace netpipe
