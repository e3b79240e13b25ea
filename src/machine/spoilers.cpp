// SPDX-License-Identifier: Apache-2.0
// What spoils measurements on this host: one table. A spoiler looks at facts by their names and, if it applies, says
// why that matters and what to do. What is not known spoils nothing, unless not knowing is itself the trouble.
#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"
#include "machine/facts.h"

namespace netpipe {
namespace {

struct Advice {
  std::string why;  // a sentence
  std::string fix;  // a command where there is one
};
using Judged = std::optional<Advice>;

// severe: numbers taken now mean something else than they seem to; `netpipe doctor --strict` fails.
// warning: numbers are noisier, or other than on the same hardware elsewhere.
// note: worth knowing when a number is explained.
enum class Severity { severe, warning, note };
constexpr std::array severity_names{"severe", "warning", "note"};

struct Spoiler {
  const char* what;
  Severity severity;
  Judged (*judge)(const Facts&);
};

std::string decimal(double value, int digits) {
  std::array<char, 32> room{};
  const auto end = std::to_chars(room.data(), room.data() + room.size(), value, std::chars_format::fixed, digits).ptr;
  return {room.data(), end};
}

std::string per_cent(double share, int digits = 0) { return decimal(share * 100, digits) + " %"; }

std::string count(double value) { return decimal(value, 0); }

std::string size(double bytes) {
  constexpr double mebi = 1024 * 1024;
  return bytes < mebi          ? decimal(bytes / 1024, 0) + " KiB"
         : bytes < 4096 * mebi ? decimal(bytes / mebi, 0) + " MiB"
                               : decimal(bytes / (1024 * mebi), 1) + " GiB";
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// How many ranks want a processor of their own; nullopt: there are none to judge.
std::optional<double> ranks(const Facts& facts) {
  const auto number = facts.number("pinning.count");
  return number && *number > 0 ? number : std::nullopt;
}

Judged slow_build(const Facts& facts) {
  const std::vector<std::string> sanitizers = facts.texts("software.sanitizers");
  if (!sanitizers.empty()) {
    return Advice{"netpipe-worker was built with the " + joined(sanitizers) +
                      " sanitizer, which multiplies the cost of every memory access.",
                  "cmake -B build -DCMAKE_BUILD_TYPE=Release -DNETPIPE_SANITIZE="};
  }
  if (facts.truth("software.optimised") != false) return std::nullopt;
  return Advice{"netpipe-worker was built without optimisation, so its own cost is inside every number.",
                "cmake -B build -DCMAKE_BUILD_TYPE=Release"};
}

Judged debug_kernel(const Facts& facts) {
  const std::vector<std::string> features = facts.texts("kernel.debug_features");
  if (features.empty()) return std::nullopt;
  return Advice{
      "This is a kernel for finding faults (" + joined(features) + "): its locks and memory cost many times the usual.",
      "boot the distribution's ordinary kernel"};
}

Judged emulated(const Facts& facts) {
  if (facts.text("cpu.virtual.hypervisor") != "QEMU TCG") return std::nullopt;
  return Advice{"The processor is emulated in software (QEMU TCG): no time measured here says anything about hardware.",
                "start the guest with -accel kvm, or measure on the host"};
}

Judged oversubscribed(const Facts& facts) {
  const auto wanted = ranks(facts);
  if (!wanted) return std::nullopt;
  const auto sharing = facts.number("pinning.sharing_cpu").value_or(0);
  const auto unpinned = facts.number("pinning.unpinned").value_or(0);
  const auto allowed = facts.number("limits.allowed_cpu_count");
  const bool too_few = unpinned > 0 && allowed && *allowed < *wanted;
  if (sharing == 0 && !too_few) return std::nullopt;
  return Advice{
      count(*wanted) + " ranks have " + count(too_few ? *allowed : *wanted - sharing) +
          " processors: they take turns, so a latency contains context switches.",
      "run fewer ranks, or allow more processors (taskset, the batch system's request, docker --cpuset-cpus)"};
}

Judged smt_siblings(const Facts& facts) {
  if (facts.number("pinning.sharing_core").value_or(0) == 0) return std::nullopt;
  return Advice{
      "Ranks are pinned to hardware threads of one core: they share its execution units and first caches, so each "
      "slows the other, and messages between them never leave the core.",
      "netpipe run --pin auto"};
}

Judged quota(const Facts& facts) {
  const auto quota = facts.number("limits.cgroup.cpu_quota");
  const double wanted = ranks(facts).value_or(1);
  // The launcher lives in the same group and needs a little too, so as many processors as ranks are not enough.
  if (!quota || *quota > wanted) return std::nullopt;
  const auto throttled = facts.number("limits.cgroup.throttled").value_or(0);
  return Advice{"The control group may use " + decimal(*quota, 2) + " processors' time for " + count(wanted) +
                    (wanted == 1 ? " rank" : " ranks") +
                    " and netpipe itself; beyond that it is stopped for up to 100 ms" +
                    (throttled > 0 ? " (" + count(throttled) + " times so far)." : "."),
                "raise the limit (docker --cpus, the pod's resources.limits.cpu, systemd CPUQuota=)"};
}

Judged loaded(const Facts& facts) {
  const auto average = facts.number("load.average_1");
  const auto processors = facts.number("cpu.logical");
  if (!average || !processors || *average <= 0.5 * *processors) return std::nullopt;
  // The average forgets slowly: with nobody else at work now, it is our own last measurement that it remembers.
  if (facts.number("load.other_busy_processes") == 0) return std::nullopt;
  return Advice{"The load of the last minute is " + decimal(*average, 1) + " on " + count(*processors) +
                    " processors: other work takes time and cache from what is measured.",
                "see what runs with: top -o %CPU; wait until it has ended, or use a machine of your own"};
}

Judged slow_clock(const Facts& facts) {
  const std::string source = facts.text("clock.source").value_or("");
  // These are read from a device or a hypercall, so that each reading is a system call (kernel, vdso/clocksource.h).
  constexpr std::array in_the_kernel{"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit", "xen"};
  if (std::find(in_the_kernel.begin(), in_the_kernel.end(), source) == in_the_kernel.end()) return std::nullopt;
  const bool has_tsc = contains(facts.texts("clock.sources"), "tsc");
  return Advice{"The clock source is " + source +
                    ": reading it is a system call of about a microsecond or steps coarsely, so short operations "
                    "cannot be timed one by one.",
                has_tsc
                    ? "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
                    : "look for the reason with: dmesg | grep -i tsc; if the counter is sound, boot with tsc=reliable"};
}

Judged guest_clock(const Facts& facts) {
  if (facts.text("clock.source") != "kvm-clock") return std::nullopt;
  const bool has_tsc = contains(facts.texts("clock.sources"), "tsc");
  return Advice{
      "The clock source is kvm-clock: a reading costs more than that of the bare tsc, and the host corrects its rate.",
      has_tsc ? "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
              : "nothing in the guest; the host decides whether it offers an invariant tsc"};
}

Judged memory_short(const Facts& facts) {
  const auto total = facts.number("memory.total_bytes");
  const auto available = facts.number("memory.available_bytes");
  if (total && available && *available < 0.05 * *total) {
    return Advice{"Only " + size(*available) + " of " + size(*total) +
                      " memory are available: the kernel reclaims pages while we measure.",
                  "end what fills the memory; see: ps aux --sort=-rss | head"};
  }
  const auto limit = facts.number("limits.cgroup.memory_max_bytes");
  constexpr double enough = 512.0 * 1024 * 1024;
  if (!limit || *limit >= enough) return std::nullopt;
  return Advice{"The control group may use " + size(*limit) +
                    " of memory, and shared memory and page cache count: large cold buffers do not fit.",
                "raise the limit (docker --memory, the pod's resources.limits.memory), or measure smaller sizes only"};
}

Judged busy(const Facts& facts) {
  const auto others = facts.number("load.other_busy_processes");
  if (!others || *others == 0) return std::nullopt;
  return Advice{
      count(*others) + (*others == 1 ? " other process wants" : " other processes want") + " to run at this moment.",
      "see which with: ps -eo stat,pid,comm | grep ^R; stop what need not run"};
}

Judged virtual_machine(const Facts& facts) {
  if (facts.truth("cpu.virtual.is_virtual") != true) return std::nullopt;
  return Advice{
      "The hypervisor (" + facts.text("cpu.virtual.hypervisor").value_or("its name is hidden") +
          ") can move or stop the processors at any time, and how far apart two of them are changes then.",
      "compare only what was measured in the same run, and heed the machine's states in it; for absolute numbers "
      "use a bare machine or dedicated processors"};
}

Judged stolen(const Facts& facts) {
  const auto share = facts.number("cpu.virtual.steal_share");
  if (!share || *share < 0.01) return std::nullopt;
  return Advice{
      "Since this machine started, its host gave " + per_cent(*share, 1) + " of its processor time to others.",
      "ask for dedicated processors, or move to a quieter host"};
}

Judged governor(const Facts& facts) {
  const auto governor = facts.text("cpu.frequency.governor");
  if (!governor || *governor == "performance") return std::nullopt;
  return Advice{
      "The frequency governor is " + *governor +
          ": the clock follows the load, so what waits much is measured at a lower clock than what works much.",
      "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"};
}

Judged turbo(const Facts& facts) {
  if (facts.truth("cpu.frequency.boost") == true) {
    const bool intel = facts.text("cpu.frequency.driver").value_or("").starts_with("intel");
    return Advice{"Turbo is on: the clock depends on the temperature and on how many cores are busy.",
                  intel ? "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
                        : "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"};
  }
  if (facts.truth("cpu.frequency.boost").has_value() || facts.text("cpu.frequency.driver").has_value())
    return std::nullopt;
  return Advice{
      "The clock of the processors cannot be seen here, so neither can turbo or power saving.",
      "none from here: the machine's firmware or host decides it; the yardsticks of a run show whether speed changed"};
}

Judged thermal(const Facts& facts) {
  const auto times = facts.number("cpu.frequency.throttled");
  if (!times || *times == 0) return std::nullopt;
  return Advice{"The processor has slowed down for heat " + count(*times) + " times since the start.",
                "look at cooling and power limits; sudo turbostat shows them"};
}

Judged battery(const Facts& facts) {
  if (facts.truth("cpu.frequency.on_battery") != true) return std::nullopt;
  return Advice{"The machine runs on its battery, and firmware then limits the clock.", "plug it in"};
}

Judged unpinned(const Facts& facts) {
  const auto free = facts.number("pinning.unpinned");
  if (!free || *free == 0) return std::nullopt;
  return Advice{count(*free) + (*free == 1 ? " rank is" : " ranks are") +
                    " not pinned: the scheduler may move a process in the middle of a sample.",
                "netpipe run --pin auto"};
}

Judged mixed_cores(const Facts& facts) {
  if (facts.number("pinning.kinds_of_core").value_or(0) < 2) return std::nullopt;
  return Advice{"The ranks are on cores of different speed.", "netpipe run --pin auto"};
}

Judged far_apart(const Facts& facts) {
  if (facts.number("pinning.nodes").value_or(0) < 2) return std::nullopt;
  return Advice{"The ranks are on different NUMA nodes: messages between them cross the interconnect of the sockets.",
                "netpipe run --pin auto, unless that is what is to be measured"};
}

Judged numa_balancing(const Facts& facts) {
  if (facts.number("memory.numa_balancing").value_or(0) == 0 || facts.number("memory.node_count").value_or(0) < 2) {
    return std::nullopt;
  }
  return Advice{
      "Automatic NUMA balancing takes away access to pages to see who uses them, and moves them during a measurement.",
      "sudo sysctl kernel.numa_balancing=0"};
}

Judged swap(const Facts& facts) {
  const auto used = facts.number("memory.swap_used_bytes");
  const auto total = facts.number("memory.total_bytes");
  // A little is what the kernel put aside long ago and nobody misses.
  if (!used || !total || *used < 0.02 * *total) return std::nullopt;
  return Advice{
      size(*used) + " of memory are swapped out: a page that is needed again stops its process for milliseconds.",
      "free memory, then: sudo swapoff -a && sudo swapon -a"};
}

Judged huge_pages(const Facts& facts) {
  if (facts.text("memory.transparent_huge_pages.enabled") != "always") return std::nullopt;
  return Advice{
      "Transparent huge pages are on for all memory: a buffer gets them or not, as memory happens to be fragmented, so "
      "large copies differ from start to start.",
      "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"};
}

Judged page_merging(const Facts& facts) {
  if (facts.truth("memory.page_merging") != true) return std::nullopt;
  return Advice{"The kernel merges equal pages (KSM): a write to a merged page costs a fault and a copy.",
                "echo 2 | sudo tee /sys/kernel/mm/ksm/run"};
}

Judged ptrace(const Facts& facts) {
  const auto scope = facts.number("limits.ptrace_scope");
  if (!scope || *scope == 0 || facts.truth("limits.may_trace_others") == true) return std::nullopt;
  return Advice{
      "ptrace_scope is " + count(*scope) +
          ": without consent or privilege no process may read another's memory, so many message libraries copy large "
          "shared-memory messages twice where one copy (CMA) would do.",
      "sudo sysctl kernel.yama.ptrace_scope=0"};
}

Judged locked_memory(const Facts& facts) {
  const auto limit = facts.number("limits.memlock_bytes");  // no number: unlimited, or not known
  constexpr double enough = 1024.0 * 1024 * 1024;
  if (!limit || *limit >= enough || facts.truth("limits.may_lock_memory") == true ||
      facts.number("network.rdma_device_count").value_or(0) == 0) {
    return std::nullopt;
  }
  return Advice{"There is an RDMA device, and a process may lock only " + size(*limit) +
                    " of memory: buffers cannot be registered, or only small ones.",
                "ulimit -l unlimited, after a line '* - memlock unlimited' in /etc/security/limits.conf"};
}

Judged small_shm(const Facts& facts) {
  const auto bytes = facts.number("limits.dev_shm_total_bytes");
  constexpr double enough = 256.0 * 1024 * 1024;
  if (!bytes || *bytes >= enough) return std::nullopt;
  return Advice{"/dev/shm holds " + size(*bytes) +
                    ": message libraries that keep their shared memory there fail or fall back to slower ways.",
                facts.text("limits.container") == "none" ? "sudo mount -o remount,size=50% /dev/shm"
                                                         : "docker run --shm-size=1g, or --ipc=host"};
}

Judged deep_sleep(const Facts& facts) {
  constexpr double noticeable_ns = 20'000;
  const auto exit_ns = facts.number("cpu.idle.deepest_exit_ns");
  const auto limit_ns = facts.number("cpu.idle.latency_limit_ns");
  if (!exit_ns || *exit_ns < noticeable_ns || (limit_ns && *limit_ns < noticeable_ns)) return std::nullopt;
  return Advice{"An idle processor may sleep so deeply that waking takes " + decimal(*exit_ns / 1000, 0) +
                    " us: what blocks while it waits pays for that, what polls does not.",
                "sudo cpupower idle-set -D 10 (undo: -E); better still, measure both: wait=poll and wait=block"};
}

// In the order in which they are shown: the worst first, then as a reader would look.
constexpr std::array<Spoiler, 28> spoilers{{
    {"Slow build of the worker", Severity::severe, slow_build},
    {"Debug kernel", Severity::severe, debug_kernel},
    {"Emulated processor", Severity::severe, emulated},
    {"Oversubscribed", Severity::severe, oversubscribed},
    {"Ranks on one core", Severity::severe, smt_siblings},
    {"Processor quota", Severity::severe, quota},
    {"Load", Severity::severe, loaded},
    {"Slow clock source", Severity::severe, slow_clock},
    {"Short of memory", Severity::warning, memory_short},
    {"Other busy processes", Severity::warning, busy},
    {"Virtual machine", Severity::warning, virtual_machine},
    {"Stolen time", Severity::warning, stolen},
    {"Frequency governor", Severity::warning, governor},
    {"On battery", Severity::warning, battery},
    {"Heat", Severity::warning, thermal},
    {"Unpinned ranks", Severity::warning, unpinned},
    {"Mixed kinds of core", Severity::warning, mixed_cores},
    {"NUMA balancing", Severity::warning, numa_balancing},
    {"Swap in use", Severity::warning, swap},
    {"Little lockable memory", Severity::warning, locked_memory},
    {"Small /dev/shm", Severity::warning, small_shm},
    {"Restricted ptrace", Severity::note, ptrace},
    {"Ranks on several NUMA nodes", Severity::note, far_apart},
    {"Transparent huge pages", Severity::note, huge_pages},
    {"Page merging", Severity::note, page_merging},
    {"Deep sleep", Severity::note, deep_sleep},
    {"Turbo", Severity::note, turbo},
    {"Guest clock", Severity::note, guest_clock},
}};

}  // namespace

std::string spoilers_json(const Facts& facts) {
  Json json;
  json.open('[');
  for (const Spoiler& spoiler : spoilers) {
    const Judged advice = spoiler.judge(facts);
    if (!advice) continue;
    json.open('{').field("what", spoiler.what).field("why", advice->why).field("fix", advice->fix);
    json.field("severity", severity_names[static_cast<std::size_t>(spoiler.severity)]).close('}');
  }
  json.close(']');
  return json.take();
}

}  // namespace netpipe
