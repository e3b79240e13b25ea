// SPDX-License-Identifier: Apache-2.0
// What held a visit up, with made-up readings of the clocks.
#include <gtest/gtest.h>

#include <cstdint>

#include "base/clock.h"
#include "engine/visit.h"
#include "fake_host.h"
#include "machine/environment.h"

namespace netpipe {
namespace {

constexpr std::int64_t ms = 1'000'000;

TEST(Pause, IsWhatTheMachineWasSuspendedAndTheProcessStoppedMeanwhile) {
  const Standstill before{.stalled_ns = 5000 * ms, .suspended_ns = 90'000 * ms};
  EXPECT_EQ(paused_ms(before, before), 0U);
  EXPECT_EQ(paused_ms(before, {.stalled_ns = 5000 * ms, .suspended_ns = 127'000 * ms}), 37'000U);
  EXPECT_EQ(paused_ms(before, {.stalled_ns = 6500 * ms, .suspended_ns = 90'000 * ms}), 1500U);
  EXPECT_EQ(paused_ms(before, {.stalled_ns = 6500 * ms, .suspended_ns = 127'000 * ms}), 38'500U);
}

TEST(Pause, IsNoneWhereTwoReadingsOnlyDiffer) {
  EXPECT_EQ(paused_ms({0, 1000}, {0, 1000 + ms - 1}), 0U);
  EXPECT_EQ(paused_ms({0, 1000}, {0, 900}), 0U);
}

TEST(Pause, OfWeeksIsStillANumber) {
  EXPECT_EQ(paused_ms({0, 0}, {0, std::int64_t{90} * 24 * 3600 * 1000 * ms}), UINT32_MAX);
}

TEST(Suspension, DoesNotGrowWhileTheMachineRuns) {
  const std::int64_t before = suspended_ns();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(paused_ms({0, before}, {0, suspended_ns()}), 0U);
}

TEST(ClockSource, IsWhatTheKernelSays) {
  FakeHost host;
  EXPECT_EQ(clock_source(host.host()), std::nullopt);
  host.write("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
  EXPECT_EQ(clock_source(host.host()), "hpet");
}

}  // namespace
}  // namespace netpipe
