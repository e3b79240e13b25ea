// SPDX-License-Identifier: Apache-2.0
// The reports of all ranks, made one.
#include "worker/results/reports.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

#include "engine/watchdog.h"

namespace netpipe {
namespace {

Report good(std::uint64_t verified_bytes, std::uint64_t progress = 0) {
  Report report;
  report.verified_bytes = verified_bytes;
  report.progress = progress;
  return report;
}

Report bad(np_status status, Cause cause, const std::string& sentence, std::uint64_t progress = 0) {
  Report report;
  report.status = status;
  report.cause = static_cast<std::uint32_t>(cause);
  report.progress = progress;
  std::strncpy(report.sentence, sentence.c_str(), sizeof report.sentence - 1);
  return report;
}

Report joined(const std::vector<Report>& all) {
  Reports reports(static_cast<int>(all.size()));
  for (std::size_t rank = 0; rank < all.size(); ++rank) reports.add(static_cast<int>(rank), all[rank]);
  EXPECT_EQ(reports.good(), reports.joined().status == NP_OK);
  return reports.joined();
}

TEST(Reports, OfRanksThatDidWellAddTheirVerifiedBytes) {
  const Report report = joined({good(5), good(7), good(0)});
  EXPECT_EQ(report.status, NP_OK);
  EXPECT_EQ(report.verified_bytes, 12U);
  EXPECT_EQ(report.unanimous, 1U);
}

TEST(Reports, KnowTheLongestPauseOfARank) {
  Report paused = good(0);
  paused.paused_ms = 1500;
  Report longer = good(0);
  longer.paused_ms = 37000;
  EXPECT_EQ(joined({good(5), paused, longer, good(5)}).paused_ms, 37000U);
  EXPECT_EQ(joined({good(5), good(5)}).paused_ms, 0U);
  EXPECT_EQ(joined({paused, bad(NP_FAILED, Cause::none, "first"), good(0)}).paused_ms, 1500U);
}

TEST(Reports, AreAsBadAsTheFirstBadOne) {
  const Report report =
      joined({good(5), bad(NP_FAILED, Cause::none, "first"), bad(NP_NO_MEMORY, Cause::none, "second")});
  EXPECT_EQ(report.status, NP_FAILED);
  EXPECT_STREQ(report.sentence, "first");
  EXPECT_EQ(report.unanimous, 0U);
  EXPECT_EQ(report.verified_bytes, 5U);
}

TEST(Reports, PreferARankThatWasMovedToThoseThatWaitedForIt) {
  Report moved = bad(NP_OK, Cause::none, "rank 1 was placed on processor 1");
  moved.status = processors_changed;
  const Report report =
      joined({bad(NP_FAILED, Cause::deadline, "gave up"), moved, bad(NP_ABORTED, Cause::peer_gone, "stopped")});
  EXPECT_EQ(report.status, processors_changed);
  EXPECT_STREQ(report.sentence, "rank 1 was placed on processor 1");
}

TEST(Reports, PreferARankThatKnowsToOneThatWasOnlyStopped) {
  const Report report =
      joined({bad(NP_ABORTED, Cause::peer_gone, "stopped"), bad(NP_FAILED, Cause::none, "the cable is out"),
              bad(NP_NO_MEMORY, Cause::none, "later")});
  EXPECT_STREQ(report.sentence, "the cable is out");
  const Report only_stopped =
      joined({bad(NP_ABORTED, Cause::peer_gone, "one"), bad(NP_ABORTED, Cause::peer_gone, "two")});
  EXPECT_STREQ(only_stopped.sentence, "one");
}

TEST(Reports, AreUnanimousWhereAllCameToTheSame) {
  const Report lacks = bad(NP_UNSUPPORTED, Cause::none, "no such operation");
  EXPECT_EQ(joined({lacks, lacks, lacks}).unanimous, 1U);
  EXPECT_EQ(joined({lacks, good(0)}).unanimous, 0U);
}

TEST(Reports, NameTheRankThatTheOthersWaitedFor) {
  const Report late = bad(NP_ABORTED, Cause::deadline, "too slow", 7);
  EXPECT_STREQ(joined({late, bad(NP_ABORTED, Cause::deadline, "x", 4), late}).sentence,
               "too slow; the others waited for rank 1, which had not begun operation 3 of this visit");
  EXPECT_STREQ(joined({late, late, bad(NP_ABORTED, Cause::deadline, "x", 5)}).sentence,
               "too slow; the others waited for rank 2, which did not come back from operation 3 of this visit");
}

TEST(Reports, NameNobodyWhereAllCameEquallyFarOrTimeWasNotTheCause) {
  const Report late = bad(NP_ABORTED, Cause::deadline, "too slow", 4);
  EXPECT_STREQ(joined({late, late}).sentence, "too slow");
  EXPECT_STREQ(joined({bad(NP_FAILED, Cause::none, "broken", 4), good(0, 2)}).sentence, "broken");
}

TEST(Reports, OfAnotherProcessAreTakenAsTheyShouldBe) {
  Report report = good(5);
  report.counters = 2;
  report.losses = 3;
  EXPECT_TRUE(accept_report(report, 2, 3));
  report.losses = 0;
  EXPECT_TRUE(accept_report(report, 2, 3));
  Report trouble = bad(NP_FAILED, Cause::deadline, "rank 1: it failed");
  trouble.counters = 77;  // nothing follows it
  EXPECT_TRUE(accept_report(trouble, 2, 3));
  EXPECT_STREQ(trouble.sentence, "rank 1: it failed");
}

TEST(Reports, OfAnotherProcessAreRefusedWhereTheyCannotBe) {
  const auto refused = [](const std::function<void(Report&)>& change, const std::string& why) {
    Report report = good(0);
    report.counters = 2;
    change(report);
    const Outcome fine = accept_report(report, 2, 3);
    ASSERT_FALSE(fine) << why;
    EXPECT_NE(fine.failure().sentence.find(why), std::string::npos) << fine.failure().sentence;
  };
  refused([](Report& r) { r.status = 10; }, "the status 10");
  refused([](Report& r) { r.status = -1; }, "the status -1");
  refused([](Report& r) { r.status = processors_changed + 1; }, "the status 102");
  refused([](Report& r) { r.cause = 4; }, "the cause 4");
  refused([](Report& r) { r.counters = UINT32_MAX; }, "4294967295 counters");
  refused([](Report& r) { r.counters = 0; }, "0 counters");
  refused([](Report& r) { r.losses = 4; }, "4 losses");
  refused([](Report& r) { r.losses = UINT32_MAX; }, "4294967295 losses");
}

TEST(Reports, OfAnotherProcessHaveASentenceWithAnEndAndWithoutControls) {
  Report report = bad(NP_FAILED, Cause::none, "");
  std::memset(report.sentence, 'x', sizeof report.sentence);
  std::memcpy(report.sentence, "a\x1b[2J\nb", 7);
  ASSERT_TRUE(accept_report(report, 0, 1));
  EXPECT_EQ(std::string(report.sentence, 10), "a?[2J bxxx");
  EXPECT_EQ(std::strlen(report.sentence), sizeof report.sentence - 1);
}

}  // namespace
}  // namespace netpipe
