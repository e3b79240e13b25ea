// SPDX-License-Identifier: Apache-2.0
// What differs between the process models, as a rank's process and as the catalog see it.
#include "engine/processes/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "engine/processes/forked.h"
#include "engine/processes/launched.h"
#include "engine/simulated/process.h"
#include "plan/plan.h"

namespace netpipe {
namespace {

const Registry& registry() {
  static const Result<Registry> loaded = Registry::load({NETPIPE_TEST_MODULES}, {});
  return *loaded;
}

Variant variant(const std::string& text, int ranks = default_ranks) {
  Result<Variant> parsed = parse_variant(text, registry(), ranks);
  EXPECT_TRUE(parsed) << parsed.failure().sentence;
  return std::move(*parsed);
}

Plan plan_of(int ranks) {
  Plan plan;
  plan.ranks = ranks;
  plan.launch = 3;
  return plan;
}

TEST(ProcessModel, IsForkedUnlessTheLibraryHasALauncherOfItsOwn) {
  EXPECT_FALSE(launched(*variant("crowd").module));
  EXPECT_FALSE(launched(*variant("closed").module));
  EXPECT_TRUE(launched(*variant("troupe").module));
  EXPECT_TRUE(launched(*variant("troupe").module));
  EXPECT_FALSE(launched(*variant("crowd").module));
}

TEST(ForkedProcess, KnowsItsRankBeforeAVariantIsOpen) {
  const Plan plan = plan_of(5);
  const ForkedProcess process({.plan = &plan, .rank = 3});
  EXPECT_EQ(process.identity(variant("crowd", 5)).rank, 3);
  EXPECT_EQ(process.identity(variant("crowd", 5)).nranks, 5);
}

TEST(ForkedProcess, LeavesOutTheRanksThatAModuleCannotTake) {
  const Plan plan = plan_of(5);
  const ForkedProcess process({.plan = &plan, .rank = 0});
  EXPECT_EQ(process.members(variant("crowd", 5), 5), 5);
  EXPECT_EQ(process.members(variant("closed:ranks=2", 5), 5), 2);
  EXPECT_EQ(process.members(variant("short_put", 5), 5), 1);
  EXPECT_EQ(process.members(variant("troupe", 5), 5), 0) << "a launcher starts its ranks";
}

TEST(ForkedProcess, LeavesAnErrorRecordAsItsLastWords) {
  const Plan plan = plan_of(2);
  const ForkedProcess process({.plan = &plan, .rank = 1, .record_fd = 7});
  const std::string line = process.last_words({"tcp", "pingpong", 64, 1}, "it is stuck");
  EXPECT_EQ(line.back(), '\n');
  for (const char* part : {R"("type":"error","launch":3,"variant":"tcp","pattern":"pingpong","size_bytes":64,"rank":1)",
                           R"("code":4,"message":"it is stuck")"}) {
    EXPECT_NE(line.find(part), std::string::npos) << line;
  }
  EXPECT_EQ(process.last_words_fd(), 7);
  const std::string opening = process.last_words({.variant = "tcp", .rank = 1}, "x");
  EXPECT_NE(opening.find(R"("pattern":null,"size_bytes":null)"), std::string::npos) << opening;
}

TEST(LaunchedProcess, LearnsItsRankFromTheLibrary) {
  LaunchedProcess process;
  EXPECT_EQ(process.identity(variant("troupe")).rank, -1);
  EXPECT_EQ(process.identity(variant("troupe")).nranks, 0);
  EXPECT_EQ(process.members(variant("troupe"), 4), 4) << "the conductor and three ranks";
  EXPECT_EQ(process.cpu(), -1) << "not pinned before it knows which ranks share its host";
}

TEST(LaunchedProcess, LeavesALineForItsLauncherAsItsLastWords) {
  LaunchedProcess process;
  EXPECT_EQ(process.last_words({"mpi@x", "pingpong", 64, 2}, "it is stuck"),
            "netpipe-worker: rank 2, 64 bytes: it is stuck\n");
  EXPECT_EQ(process.last_words({.variant = "mpi@x"}, "it is stuck"), "netpipe-worker: a process: it is stuck\n");
  EXPECT_EQ(process.last_words_fd(), STDERR_FILENO);
}

TEST(LaunchedProcess, CountsWhatLoadingTheLibraryCost) {
  LaunchedProcess process;
  Cost loading;
  loading.ns = 42;
  process.prepare({}, loading);
  EXPECT_EQ(process.loading().ns, 42);
}

TEST(SimulatedProcess, KnowsNoCostsAndComputesInNoTime) {
  const SimulatedProcess simulated(1000);
  EXPECT_EQ(simulated.in_process(), 1000);
  EXPECT_FALSE(simulated.computes());
  const LaunchedProcess launched;
  EXPECT_EQ(launched.in_process(), 1);
  EXPECT_TRUE(launched.computes());
}

}  // namespace
}  // namespace netpipe
