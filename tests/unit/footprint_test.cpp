// SPDX-License-Identifier: Apache-2.0
#include "machine/footprint.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <string>
#include <vector>

#include "fake_host.h"

namespace netpipe {
namespace {

constexpr std::int64_t kib = 1024;
constexpr std::int64_t mib = 1024 * kib;
const std::string status = "Name:\tworker\nVmLck:\t      64 kB\nVmPin:\t     128 kB\nVmHWM:\t    9000 kB\n";
const std::string sums = "VmRSS:\t    5000 kB\nRssAnon:\t    1000 kB\nHugetlbPages:\t    2048 kB\n";

TEST(Footprint, TheExactSumsComeFirst) {
  FakeHost host;
  host.write("/proc/self/status", status + sums);
  host.write("/proc/self/smaps_rollup",
             "5581-7fff ---p 00000000 00:00 0   [rollup]\nRss:    4000 kB\nPss:    900 kB\nAnonymous:   700 kB\n"
             "Shared_Hugetlb:  2048 kB\nPrivate_Hugetlb:  4096 kB\n");
  const auto found = read_footprint(Files(host.host()));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->resident_bytes, (4000 + 2048 + 4096) * kib);
  EXPECT_EQ(found->private_bytes, (700 + 4096) * kib);
  EXPECT_EQ(found->pinned_bytes, (64 + 128) * kib);
}

TEST(Footprint, AnOlderKernelHasRoughOnes) {
  FakeHost host;
  host.write("/proc/self/status", status + sums);
  const auto found = read_footprint(Files(host.host()));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->resident_bytes, (5000 + 2048) * kib);
  EXPECT_EQ(found->private_bytes, 1000 * kib);
  EXPECT_EQ(most_resident_bytes(Files(host.host())), 9000U * kib);
}

TEST(Footprint, WhereNothingIsSaidNothingIsKnown) {
  const FakeHost host;
  EXPECT_FALSE(read_footprint(Files(host.host())));
  EXPECT_EQ(most_resident_bytes(Files(host.host())), 0U);
  FakeHost broken;
  broken.write("/proc/self/smaps_rollup", "Rss: many kB\n").write("/proc/self/status", "VmRSS:\n");
  EXPECT_FALSE(read_footprint(Files(broken.host())));
}

TEST(Cost, AddsUpAndStaysUnknown) {
  Cost cost;
  cost += Cost{Footprint{5, 3, 1}, 10};
  cost += Cost{Footprint{-1, 2, 0}, 30};
  ASSERT_TRUE(cost.memory);
  EXPECT_EQ(cost.memory->resident_bytes, 4);
  EXPECT_EQ(cost.memory->private_bytes, 5);
  EXPECT_EQ(cost.memory->pinned_bytes, 1);
  EXPECT_EQ(cost.ns, 40);
  cost += Cost{std::nullopt, 1};
  cost += Cost{Footprint{5, 3, 1}, 1};
  EXPECT_FALSE(cost.memory);
  EXPECT_EQ(cost.ns, 42);
}

// Of this very process: shared memory is resident and not private, and what was there before does not count.
TEST(Meter, SeesWhatIsTouchedWhileItRuns) {
  if (!read_footprint()) GTEST_SKIP() << "this system does not say what a process holds";
  const auto touched = [](int sharing) {
    void* memory = mmap(nullptr, 16 * mib, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no memory");
    std::memset(memory, 1, 16 * mib);
    return memory;
  };
  void* const before = touched(MAP_PRIVATE);
  const Meter meter;
  void* const own = touched(MAP_PRIVATE);
  void* const shared = touched(MAP_SHARED);
  const Cost cost = meter.spent();
  ASSERT_TRUE(cost.memory);
  EXPECT_GE(cost.memory->resident_bytes, 32 * mib);
  EXPECT_GE(cost.memory->private_bytes, 16 * mib);
#if !defined(__SANITIZE_THREAD__)  // which keeps several bytes of its own for each that is touched
  EXPECT_LT(cost.memory->resident_bytes, 36 * mib);
  EXPECT_LT(cost.memory->private_bytes, 20 * mib);
#endif
  EXPECT_GT(cost.ns, 0);
  for (void* memory : {before, own, shared}) munmap(memory, 16 * mib);
}

}  // namespace
}  // namespace netpipe
