// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other while a variant opens: as text and back, also where the text is damaged.
#include "engine/opening/opening.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "engine/opening/facts.h"
#include "engine/opening/opening_text.h"
#include "engine/processes/placement.h"

namespace netpipe {
namespace {

RankFacts facts_of(int rank) {
  RankFacts facts;
  facts.limits.max_message_bytes = UINT64_MAX;
  facts.limits.delivers = 1;
  facts.limits.idle = 0;
  facts.limits.lossy = 1;
  facts.limits.alignment = 256;
  facts.limits.empty = 1;
  facts.limits.any_memory = 1;
  facts.limits.unordered = 1;
  facts.limits.max_inline_bytes = 220;
  facts.simulated = true;
  facts.version = "Open MPI 5.0.11";
  facts.below = "tcp";
  facts.settings = "{\"rank\":" + std::to_string(rank) + ",\"text\":\"a\\nb c\"}";
  return facts;
}

np_region region_of(std::uintptr_t base, std::uint64_t bytes, std::uint32_t key_bytes) {
  np_region region{};
  region.base = reinterpret_cast<void*>(base);  // NOLINT(performance-no-int-to-ptr): never dereferenced
  region.bytes = bytes;
  region.key_bytes = key_bytes;
  std::memset(region.key, 'k', key_bytes);
  return region;
}

TEST(FactsText, ComesBackAsItWas) {
  const std::optional<RankFacts> back = parse_facts(facts_text(facts_of(3)));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->limits.max_message_bytes, UINT64_MAX);
  EXPECT_EQ(back->limits.delivers, 1U);
  EXPECT_EQ(back->limits.idle, 0U);
  EXPECT_EQ(back->limits.lossy, 1U);
  EXPECT_EQ(back->limits.alignment, 256U);
  EXPECT_EQ(back->limits.empty, 1U);
  EXPECT_EQ(back->limits.any_memory, 1U);
  EXPECT_EQ(back->limits.unordered, 1U);
  EXPECT_EQ(back->limits.max_inline_bytes, 220U);
  EXPECT_TRUE(back->simulated);
  EXPECT_EQ(back->version, "Open MPI 5.0.11");
  EXPECT_EQ(back->below, "tcp");
  EXPECT_EQ(back->settings, facts_of(3).settings);
}

TEST(FactsText, OfALayerBelowThatIsNotKnownIsEmpty) {
  RankFacts facts = facts_of(0);
  facts.below.clear();
  EXPECT_EQ(parse_facts(facts_text(facts))->below, "");
}

TEST(FactsText, OfAVersionWithSeveralLinesIsOneLine) {
  RankFacts facts = facts_of(0);
  facts.version = "some MPI 3\n{with} its \x1b own words\n";
  const std::optional<RankFacts> back = parse_facts(facts_text(facts));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->version, "some MPI 3 {with} its ? own words");
  EXPECT_EQ(back->below, "tcp");
}

TEST(FactsText, IsRefusedWhereItIsMalformed) {
  for (const char* text :
       {"", "\n", "\n\n", "\n\n\n", "1 1 0 0 64 0 0\nv 1\ntcp\n{}", "1 1 0 0 64 0 0 0 0 0 7\nv 1\ntcp\n{}",
        "1 x 0 0 64 0 0 0 0 0\nv 1\ntcp\n{}", "-1 1 0 0 64 0 0 0 0 0\nv 1\ntcp\n{}",
        "1 1 0x 0 64 0 0 0 0 0\nv 1\ntcp\n{}", "1 1 0 0 64 0 0 0 0 0", "1 1 0 0 64 0 0 0 0 0\nv 1\ntcp",
        "99999999999999999999 1 0 0 64 0 0 0 0 0\nv 1\ntcp\n{}", "1 1 0 0 65 0 0 0 0 0\nv 1\ntcp\n{}",
        "1 1 0 0 1099511627776 0 0 0 0 0\nv 1\ntcp\n{}"}) {
    EXPECT_FALSE(parse_facts(text)) << text;
  }
}

TEST(Opening, HasTheFactsByRankAndTheLimitsOfRank0) {
  RankFacts first = facts_of(0);
  first.limits.max_message_bytes = 77;
  RankFacts second = facts_of(1);
  second.below = "other";
  second.version = "Open MPI 4.1.4";
  // Member 0 is the conductor; the library made member 2 its rank 0.
  const Result<Opening> opening = opening_of({"", facts_text(second), facts_text(first)}, {2, 1});
  ASSERT_TRUE(opening);
  EXPECT_EQ(opening->nranks, 2);
  EXPECT_EQ(opening->limits.max_message_bytes, 77U);
  EXPECT_EQ(opening->version, "Open MPI 5.0.11");
  EXPECT_EQ(opening->below, "tcp");
  EXPECT_TRUE(opening->simulated);
  EXPECT_EQ(opening->settings, (std::vector<std::string>{first.settings, second.settings}));
  EXPECT_LT(opening->launch_s, 0) << "not launched";
}

TEST(Opening, NamesTheRankWhoseFactsAreMalformed) {
  const Result<Opening> opening = opening_of({facts_text(facts_of(0)), "nonsense"}, {0, 1});
  ASSERT_FALSE(opening);
  EXPECT_EQ(opening.failure().sentence, "rank 1 sent malformed facts about its endpoint");
}

TEST(KeysText, ComesBackAsItWas) {
  const std::vector<np_region> regions = {region_of(0x1000, 4096, 0), region_of(0xffff'0000, 1U << 20, NP_KEY_BYTES)};
  const std::vector<np_region> back = parse_keys(keys_text(regions));
  ASSERT_EQ(back.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(back[i].base, regions[i].base);
    EXPECT_EQ(back[i].bytes, regions[i].bytes);
    ASSERT_EQ(back[i].key_bytes, regions[i].key_bytes);
    EXPECT_EQ(std::memcmp(back[i].key, regions[i].key, back[i].key_bytes), 0);
  }
  EXPECT_TRUE(parse_keys("").empty());
}

TEST(KeysText, HasNoRegionsWhereItBreaksOff) {
  const std::string whole = keys_text({region_of(1, 2, 5), region_of(3, 4, 6)});
  const std::size_t first = keys_text({region_of(1, 2, 5)}).size();
  for (std::size_t bytes = 1; bytes < whole.size(); ++bytes) {
    const std::size_t expected = bytes == first ? 1 : 0;  // that one is whole
    EXPECT_EQ(parse_keys(whole.substr(0, bytes)).size(), expected) << bytes;
  }
}

TEST(KeysText, HasNoRegionsWhereAKeyIsLongerThanKeysCanBe) {
  std::string text = keys_text({region_of(1, 2, NP_KEY_BYTES)});
  const std::uint32_t too_long = NP_KEY_BYTES + 1;
  std::memcpy(text.data() + 2 * sizeof(std::uint64_t), &too_long, sizeof too_long);
  EXPECT_TRUE(parse_keys(text + "x").empty());
}

TEST(RankPlacement, FollowsTheLibrarysNumbers) {
  const Result<Placement> placed =
      place_ranks({"", process_text(2, 3, "b"), process_text(0, 3, "a"), process_text(1, 3, "b")}, "mpi@x");
  ASSERT_TRUE(placed) << placed.failure().sentence;
  EXPECT_EQ(placed->nranks(), 3);
  EXPECT_EQ(placed->member_of_rank, (std::vector<int>{2, 3, 1}));
  EXPECT_EQ(placed->host_of_rank, (std::vector<std::string>{"a", "b", "b"}));
}

TEST(RankPlacement, CountsTheRanksOfAHost) {
  Placement placed;
  placed.host_of_rank = {"a", "b", "a", "a"};
  const auto expect_local = [&](int rank, const std::string& host, int index, int count) {
    const Placement::Local local = placed.local(rank, host);
    EXPECT_EQ(local.index, index) << rank;
    EXPECT_EQ(local.count, count) << rank;
  };
  expect_local(0, "a", 0, 3);
  expect_local(1, "b", 0, 1);
  expect_local(2, "a", 1, 3);
  expect_local(3, "a", 2, 3);
  expect_local(0, "elsewhere", 0, 0);
}

std::string refusal(const std::vector<std::string>& texts, Exit exit) {
  const Result<Placement> placed = place_ranks(texts, "mpi@x");
  if (placed) return "";
  EXPECT_EQ(placed.failure().exit, exit);
  return placed.failure().sentence;
}

TEST(RankPlacement, OfProcessesThatEachBelieveToBeAloneBlamesTheLauncher) {
  const std::string alone = process_text(0, 1, "a");
  EXPECT_NE(refusal({"", alone, alone}, Exit::usage).find("belongs to another library"), std::string::npos);
  EXPECT_TRUE(place_ranks({"", alone}, "mpi@x")) << "one process is alone indeed";
}

TEST(RankPlacement, OfProcessesThatDoNotFormOneJobIsRefused) {
  const std::string first = process_text(0, 2, "a");
  for (const std::string& second :
       {process_text(0, 2, "a"), process_text(2, 2, "a"), process_text(-1, 2, "a"), process_text(1, 3, "a")}) {
    EXPECT_NE(refusal({"", first, second}, Exit::failed).find("do not form one job"), std::string::npos) << second;
  }
  for (const char* second : {"", "1", "1 2", "one 2 a", "1 two a"}) {
    EXPECT_NE(refusal({"", first, second}, Exit::failed).find("did not say which rank it is"), std::string::npos)
        << second;
  }
}

TEST(Limits, OfAnIdleModuleSayThatItIsIdle) {
  Layer module;
  np_limits limits{};
  EXPECT_EQ(limits_of(module, nullptr, limits), NP_OK);
  EXPECT_EQ(limits.idle, 0U);
  module.idle = 1;
  EXPECT_EQ(limits_of(module, nullptr, limits), NP_OK);
  EXPECT_EQ(limits.idle, 1U) << "it says so once, in its table";
}

}  // namespace
}  // namespace netpipe
