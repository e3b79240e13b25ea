// SPDX-License-Identifier: Apache-2.0
// The reports of all ranks, made one.
#include "worker/reports.h"

#include <gtest/gtest.h>

#include <cstring>
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

TEST(Reports, AreAsBadAsTheFirstBadOne) {
  const Report report =
      joined({good(5), bad(NP_FAILED, Cause::none, "first"), bad(NP_NO_MEMORY, Cause::none, "second")});
  EXPECT_EQ(report.status, NP_FAILED);
  EXPECT_STREQ(report.sentence, "first");
  EXPECT_EQ(report.unanimous, 0U);
  EXPECT_EQ(report.verified_bytes, 5U);
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

}  // namespace
}  // namespace netpipe
