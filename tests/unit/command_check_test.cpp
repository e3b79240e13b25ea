// SPDX-License-Identifier: Apache-2.0
// Every field of a command is held against the plan before it is used.
#include "engine/command_check.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/processes/forked.h"
#include "engine/processes/launched.h"
#include "plan/plan.h"
#include "sampling/sampler.h"

namespace netpipe {
namespace {

// Rank 1 of two, of a plan with a module for two ranks, one for one rank and one that a launcher starts.
class Rank {
 public:
  explicit Rank(const std::string& more = "") : registry_(*Registry::load({NETPIPE_TEST_MODULES}, {})) {
    Result<Plan> plan = parse_plan(
        "netpipe-plan 1\nvariant crowd\nvariant short_put\nvariant troupe\npattern pingpong\npattern burst\npattern "
        "put\n"
        "schedule list\nsizes 8,1k\ntimeout 2\nbudget 1\n" +
        more);
    EXPECT_TRUE(plan) << plan.failure().sentence;
    plan_ = *plan;
    Result<Resolved> resolved = resolve(plan_, registry_);
    EXPECT_TRUE(resolved) << resolved.failure().sentence;
    resolved_ = std::move(*resolved);
    setting.group = group_.get();
    setting.process = &process_;
    setting.plan = &plan_;
    setting.resolved = &resolved_;
  }

  // "" or the sentence.
  [[nodiscard]] std::string refusal(const Command& command) const {
    const Outcome fine = check_command(setting, command.variant == 0 && is_open ? &open : nullptr, command);
    return fine ? "" : fine.failure().sentence;
  }
  void expect_refused(const Command& command, const std::string& why) const {
    EXPECT_EQ(refusal(command), "sent a command that the plan does not have: " + why);
  }

  RankSetting setting;
  OpenHere open{.nranks = 2, .limits = {.delivers = 1}};
  bool is_open = true;

 private:
  static const volatile int never_;
  Registry registry_;
  Plan plan_;
  Resolved resolved_;
  std::unique_ptr<Group> group_ = make_socket_group(1, 2, {-1}, &never_);
  ForkedProcess process_{{.plan = &plan_, .rank = 1, .one_host = false}};
};
const volatile int Rank::never_ = 0;

Command visit() {
  Command command{.verb = Verb::visit, .variant = 0, .pattern = 0};
  command.size_bytes = 8;
  command.samples = 3;
  command.rounds = 10;
  command.deadline_ns = 1'000'000'000;
  return command;
}

TEST(CommandCheck, LetsThePlanPass) {
  const Rank rank;
  EXPECT_EQ(rank.refusal(visit()), "");
  for (const Verb verb : {Verb::abandon, Verb::yardstick, Verb::finish, Verb::close}) {
    EXPECT_EQ(rank.refusal({.verb = verb}), "");
  }
  Rank fresh;
  fresh.is_open = false;
  EXPECT_EQ(fresh.refusal({.verb = Verb::open}), "");
}

TEST(CommandCheck, RefusesVerbsThatThereAreNot) {
  const Rank rank;
  for (const std::int32_t verb : {0, 7, -1, std::numeric_limits<std::int32_t>::min()}) {
    rank.expect_refused({.verb = static_cast<Verb>(verb)}, "verb " + std::to_string(verb));
  }
}

TEST(CommandCheck, RefusesVariantsThatThePlanDoesNotHave) {
  const Rank rank;
  for (const Verb verb : {Verb::open, Verb::visit, Verb::close}) {
    Command command = visit();
    command.verb = verb;
    command.variant = 3;
    rank.expect_refused(command, "variant 3 of 3");
    command.variant = UINT32_MAX;
    rank.expect_refused(command, "variant 4294967295 of 3");
  }
}

TEST(CommandCheck, RefusesWhatIsNotOpenAndOpensNothingTwice) {
  Rank rank;
  rank.expect_refused({.verb = Verb::open}, "variant crowd is open already");
  rank.is_open = false;
  rank.expect_refused(visit(), "variant crowd is not open");
  rank.expect_refused({.verb = Verb::close}, "variant crowd is not open");
}

TEST(CommandCheck, RefusesVariantsInWhichThisRankTakesNoPart) {
  const Rank rank;
  rank.expect_refused({.verb = Verb::open, .variant = 1}, "this rank takes no part in variant short_put");
  rank.expect_refused({.verb = Verb::open, .variant = 2}, "this rank takes no part in variant troupe");
}

TEST(CommandCheck, RefusesPatternsThatThePlanOrTheVariantDoesNotHave) {
  const Rank rank;
  Command command = visit();
  command.pattern = 3;
  rank.expect_refused(command, "pattern 3 of 3");
  command.pattern = UINT32_MAX;
  rank.expect_refused(command, "pattern 4294967295 of 3");
  command.pattern = 2;
  EXPECT_NE(rank.refusal(command).find("which pattern put needs"), std::string::npos) << rank.refusal(command);
}

TEST(CommandCheck, RefusesASizeBeyondThePlan) {
  Rank rank;
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{9}, std::uint64_t{5} << 20, UINT64_MAX}) {
    Command command = visit();
    command.size_bytes = size;
    rank.expect_refused(command, "messages of " + std::to_string(size) + " bytes with pattern pingpong");
  }
  rank.open.limits.max_message_bytes = 100;
  Command command = visit();
  command.size_bytes = 1024;
  EXPECT_NE(rank.refusal(command), "") << "more than the layer can";
}

TEST(CommandCheck, RefusesMoreSamplesAndRoundsThanTheSamplerAsksFor) {
  const Rank rank;
  for (const std::uint64_t samples : {std::uint64_t{0}, std::uint64_t{most_samples_per_visit} + 1, UINT64_MAX}) {
    Command command = visit();
    command.samples = samples;
    EXPECT_NE(rank.refusal(command).find(std::to_string(samples) + " samples in a visit"), std::string::npos);
  }
  for (const std::uint64_t rounds : {std::uint64_t{0}, most_rounds_per_sample + 1, UINT64_MAX}) {
    Command command = visit();
    command.rounds = rounds;
    EXPECT_NE(rank.refusal(command).find(std::to_string(rounds) + " rounds in a sample"), std::string::npos);
  }
  Command command = visit();
  command.samples = most_samples_per_visit;
  command.rounds = most_rounds_per_sample;
  EXPECT_EQ(rank.refusal(command), "");
  command.pattern = 1;  // a burst has a place and a request for each round
  EXPECT_NE(rank.refusal(command).find("rounds in a sample of pattern burst"), std::string::npos)
      << rank.refusal(command);
}

TEST(CommandCheck, RefusesMoreMessagesToVerifyThanThereIsRoomFor) {
  Rank rank("verify yes\n");
  EXPECT_EQ(rank.refusal(visit()), "");
  Command command = visit();
  command.rounds = most_rounds_per_sample;
  EXPECT_NE(rank.refusal(command).find("rounds to verify, and there is room for"), std::string::npos)
      << rank.refusal(command);
  rank.open.limits.delivers = 0;
  EXPECT_EQ(rank.refusal(command), "") << "nothing is verified where nothing arrives";
}

TEST(CommandCheck, RefusesMoreMessagesInFreshBuffersThanThereAreAddressesFor) {
  Rank rank("buffers fresh\n");
  EXPECT_EQ(rank.refusal(visit()), "");
  Command command = visit();
  command.rounds = most_rounds_per_sample;
  EXPECT_NE(rank.refusal(command).find("rounds in fresh buffers, and there is room for"), std::string::npos)
      << rank.refusal(command);
}

TEST(CommandCheck, RefusesEmptyMessagesWhereTheLayerHasNone) {
  Rank rank("sizes 0,8\n");
  Command command = visit();
  command.size_bytes = 0;
  rank.expect_refused(command, "messages of 0 bytes with pattern pingpong");
  rank.open.limits.empty = 1;
  EXPECT_EQ(rank.refusal(command), "");
}

TEST(CommandCheck, RefusesDeadlinesBeyondThoseOfThePlan) {
  const Rank rank;
  const std::int64_t longest = longest_deadline_ns(*rank.setting.plan);
  EXPECT_EQ(longest, 36'000'000'000);
  for (const std::int64_t deadline : {std::int64_t{0}, std::int64_t{-1}, longest + 1, INT64_MAX, INT64_MIN}) {
    Command command = visit();
    command.deadline_ns = deadline;
    rank.expect_refused(command, "a deadline of " + std::to_string(deadline) + " ns");
  }
  Command command = visit();
  command.deadline_ns = longest;
  EXPECT_EQ(rank.refusal(command), "");
}

TEST(CommandCheck, RefusesPatternsThatNeedEveryMessageWhereSomeMayBeLost) {
  Rank rank;
  rank.open.limits.lossy = 1;
  Command command = visit();
  command.pattern = 1;
  const ChosenPattern& burst = rank.setting.resolved->patterns[1];
  EXPECT_EQ(rank.refusal(command).empty(), burst.pattern->loss != Loss::refused);
}

}  // namespace
}  // namespace netpipe
