// SPDX-License-Identifier: Apache-2.0
// The sums in /proc/PID/status are kept apart by processor and may be off by hundreds of pages of each; smaps_rollup
// (from Linux 4.14) walks the page tables and is exact. Neither has huge pages of hugetlbfs in Rss.
#include "machine/footprint.h"

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace netpipe {
namespace {

// The sum of these fields, which are in kB; nullopt when none is there.
std::optional<std::int64_t> bytes_of(const std::string& text, std::initializer_list<const char*> names) {
  std::optional<std::int64_t> sum;
  for (const char* name : names) {
    const auto field = colon_field(text, name);
    const auto kib = field ? parse_number(*field) : std::nullopt;
    if (kib) sum = sum.value_or(0) + *kib * 1024;
  }
  return sum;
}

}  // namespace

std::optional<Footprint> read_footprint(const Files& files) {
  const std::string status = files.read("/proc/self/status").value_or("");
  const std::string rollup = files.read("/proc/self/smaps_rollup").value_or("");
  auto resident = bytes_of(rollup, {"Rss", "Shared_Hugetlb", "Private_Hugetlb"});
  auto own = bytes_of(rollup, {"Anonymous", "Private_Hugetlb"});
  if (!resident) {
    resident = bytes_of(status, {"VmRSS", "HugetlbPages"});
    own = bytes_of(status, {"RssAnon"});
  }
  if (!resident) return std::nullopt;
  return Footprint{*resident, own.value_or(0), bytes_of(status, {"VmLck", "VmPin"}).value_or(0)};
}

// getrusage would count what the process was before it became this program.
std::uint64_t most_resident_bytes(const Files& files) {
  return static_cast<std::uint64_t>(bytes_of(files.read("/proc/self/status").value_or(""), {"VmHWM"}).value_or(0));
}

Cost& Cost::operator+=(const Cost& other) {
  ns += other.ns;
  if (!memory || !other.memory) {
    memory.reset();
    return *this;
  }
  memory->resident_bytes += other.memory->resident_bytes;
  memory->private_bytes += other.memory->private_bytes;
  memory->pinned_bytes += other.memory->pinned_bytes;
  return *this;
}

Meter::Meter(int ranks) : before_(ranks == 1 ? read_footprint() : std::nullopt), began_ns_(now_ns()) {}

Cost Meter::spent() const {
  const std::int64_t ended_ns = now_ns();
  Cost cost{std::nullopt, ended_ns - began_ns_};
  if (!before_) return cost;
  if (const auto after = read_footprint()) {
    cost.memory = Footprint{after->resident_bytes - before_->resident_bytes,
                            after->private_bytes - before_->private_bytes, after->pinned_bytes - before_->pinned_bytes};
  }
  return cost;
}

}  // namespace netpipe
