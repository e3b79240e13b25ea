// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "catalog/registry.h"

namespace netpipe {
namespace {

const Registry& registry() {
  static const Result<Registry> loaded = Registry::load({NETPIPE_OPTION_MODULES, NETPIPE_TEST_MODULES}, {});
  return *loaded;
}

const std::string head = "netpipe-plan 1\n";
const std::string minimal = head + "variant many_options\n";

Plan parsed(const std::string& text) {
  const Result<Plan> plan = parse_plan(text);
  if (plan) return *plan;
  ADD_FAILURE() << plan.failure().sentence;
  return {};
}

// The first reason against this plan, of parsing or of resolving it; "" when there is none.
std::string refusal(const std::string& text) {
  const Result<Plan> plan = parse_plan(text);
  if (!plan) {
    EXPECT_EQ(plan.failure().exit, Exit::usage);
    return plan.failure().sentence;
  }
  const Result<Resolved> resolved = resolve(*plan, registry());
  if (resolved) return {};
  EXPECT_EQ(resolved.failure().exit, Exit::usage);
  return resolved.failure().sentence;
}

std::string canonical_of(const std::string& text) {
  const Plan plan = parsed(text);
  const Result<Resolved> resolved = resolve(plan, registry());
  if (resolved) return canonical_text(plan, *resolved);
  ADD_FAILURE() << resolved.failure().sentence;
  return {};
}

TEST(Plan, PinsTwoRanksByHowNearTheyAre) {
  for (const std::string name : {"smt", "cache", "socket", "sockets"}) {
    const std::string text = minimal + "pin " + name + "\n";
    EXPECT_EQ(parsed(text).pin.kind, Pinning::Kind::nearness);
    EXPECT_EQ(pin_text(parsed(text).pin), name);
    EXPECT_EQ(refusal(text), "");
    EXPECT_NE(refusal(text + "host far.example\n").find("two processors of one host"), std::string::npos);
  }
  EXPECT_NE(refusal(minimal + "pin socke\n").find("write auto, none, smt, cache, socket, sockets"), std::string::npos);
}

TEST(Plan, WithPatternNoneOnlyOpensItsVariants) {
  const std::string text = minimal + "pattern none\n";
  const Result<Resolved> resolved = resolve(parsed(text), registry());
  ASSERT_TRUE(resolved);
  EXPECT_TRUE(resolved->patterns.empty());
  const std::string canonical = canonical_of(text);
  EXPECT_NE(canonical.find("\npattern none\n"), std::string::npos);
  EXPECT_EQ(canonical_of(canonical), canonical);
  EXPECT_NE(refusal(text + "pattern pingpong\n").find("it cannot be combined with another pattern"), std::string::npos);
  EXPECT_NE(refusal(text + "pattern none\n").find("it cannot be combined with another pattern"), std::string::npos);
}

TEST(Plan, HasTheDefaultsOfTheReference) {
  const Plan plan = parsed(minimal);
  EXPECT_EQ(plan.record, "-");
  EXPECT_EQ(plan.launch, 0);
  EXPECT_EQ(plan.variants, (std::vector<std::string>{"many_options"}));
  EXPECT_EQ(plan.patterns, (std::vector<std::string>{"pingpong"}));
  EXPECT_TRUE(plan.module_files.empty());
  EXPECT_EQ(plan.schedule.kind, Schedule::Kind::classic);
  EXPECT_EQ(plan.schedule.start_bytes, 1U);
  EXPECT_EQ(plan.schedule.end_bytes, 8U << 20);
  EXPECT_EQ(plan.schedule.perturbation_bytes, 3U);
  EXPECT_EQ(plan.buffers.kind, Buffers::warm);
  EXPECT_EQ(plan.buffers.send_offset_bytes, 0U);
  EXPECT_EQ(plan.buffers.recv_offset_bytes, 0U);
  EXPECT_EQ(plan.target, 0.01);
  EXPECT_EQ(plan.budget_s, 3);
  EXPECT_EQ(plan.timeout_s, 10);
  EXPECT_FALSE(plan.verify);
  EXPECT_FALSE(plan.paced);
  EXPECT_EQ(plan.seed, 1U);
  EXPECT_EQ(plan.pin.kind, Pinning::Kind::automatic);
  EXPECT_EQ(plan.host, "");
}

TEST(Plan, TakesEveryKeyOfTheReference) {
  const Plan plan = parsed(head +
                           "record some run.jsonl\nlaunch 3\nvariant many_options:depth=5\nvariant  silent \n"
                           "pattern pingpong\npattern stream\nmodule-file ./mine.so\nschedule list\nstart 64k\n"
                           "end-size 1M\nsizes 8, 64k,1M\nperturbation 0\nbuffers cold\nsend-offset 64\n"
                           "recv-offset 128\ntarget 2%\nbudget 0.5\nverify yes\ntimeout 2.5\nseed 9\npin 3,1\n"
                           "paced yes\nhost far.example\nport 5003\ntoken-file token\n\r\n");
  EXPECT_EQ(plan.record, "some run.jsonl");
  EXPECT_EQ(plan.launch, 3);
  EXPECT_EQ(plan.variants, (std::vector<std::string>{"many_options:depth=5", "silent"}));
  EXPECT_EQ(plan.patterns, (std::vector<std::string>{"pingpong", "stream"}));
  EXPECT_EQ(plan.module_files, (std::vector<std::string>{"./mine.so"}));
  EXPECT_EQ(plan.schedule.kind, Schedule::Kind::list);
  EXPECT_EQ(plan.schedule.start_bytes, 65536U);
  EXPECT_EQ(plan.schedule.end_bytes, 1U << 20);
  EXPECT_EQ(plan.schedule.list, (std::vector<std::uint64_t>{8, 65536, 1U << 20}));
  EXPECT_EQ(plan.schedule.perturbation_bytes, 0U);
  EXPECT_EQ(plan.buffers.kind, Buffers::cold);
  EXPECT_EQ(plan.buffers.send_offset_bytes, 64U);
  EXPECT_EQ(plan.buffers.recv_offset_bytes, 128U);
  EXPECT_EQ(plan.target, 0.02);
  EXPECT_EQ(plan.budget_s, 0.5);
  EXPECT_TRUE(plan.verify);
  EXPECT_EQ(plan.timeout_s, 2.5);
  EXPECT_EQ(plan.seed, 9U);
  EXPECT_EQ(plan.pin.kind, Pinning::Kind::list);
  EXPECT_EQ(plan.pin.cpus, (std::vector<int>{3, 1}));
  EXPECT_TRUE(plan.paced);
  EXPECT_EQ(plan.host, "far.example");
  EXPECT_EQ(plan.port, 5003);
  EXPECT_EQ(plan.token_file, "token");
}

TEST(Plan, EndsAtTheLineEnd) {
  const Plan plan = parsed(minimal + "end\nseed nonsense\n");
  EXPECT_EQ(plan.seed, 1U);
}

TEST(Plan, RefusesWhatItDoesNotUnderstandAndNamesTheKey) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "the plan is empty"},
      {"\n\n", "the plan is empty"},
      {"variant tcp\n", "begins with 'variant tcp' instead of 'netpipe-plan 1'"},
      {"netpipe-plan 2\n", "begins with 'netpipe-plan 2'"},
      {"netpipe-plan\n", "begins with 'netpipe-plan'"},
      {head, "names no variant"},
      {minimal + "budgte 1\n", "unknown key 'budgte'; did you mean 'budget'?"},
      {minimal + "colour red\n", "unknown key 'colour'"},
      {minimal + "Seed 1\n", "unknown key 'Seed'; did you mean 'seed'?"},
      {minimal + "netpipe-plan 1\n", "unknown key 'netpipe-plan'"},
      {minimal + "seed\n", "seed: '' is not a whole number"},
      {minimal + "seed -1\n", "seed: -1 is below 0"},
      {minimal + "seed 9223372036854775808\n", "seed: '9223372036854775808' is not"},
      {minimal + "launch -1\n", "launch: -1 is outside 0 to 1000000"},
      {minimal + "port 0\n", "port: 0 is outside 1 to 65535"},
      {minimal + "port 65536\n", "port: 65536 is outside 1 to 65535"},
      {minimal + "start 8Q\n", "start: '8Q' is not a size"},
      {minimal + "end-size -1\n", "end-size: '-1' is not a size"},
      {minimal + "perturbation x\n", "perturbation: 'x' is not a size"},
      {minimal + "sizes 8,,9\n", "sizes: '' is not a size"},
      {minimal + "schedule clasic\n", "schedule: 'clasic' is not one of its choices; did you mean 'classic'?"},
      {minimal + "buffers hot\n", "buffers: 'hot' is not one of its choices; there are warm, apart, cold, fresh"},
      {minimal + "send-offset 2G\n", "send-offset: 2G is outside 0 to 1G"},
      {minimal + "recv-offset 9223372036854775807\n", "recv-offset: 9223372036854775807 is outside 0 to 1G"},
      {minimal + "target 0\n", "target: 0 is outside 1e-05 to 1"},
      {minimal + "target 200%\n", "target: 200% is outside"},
      {minimal + "target nan\n", "target: 'nan' is not a number"},
      {minimal + "budget 0\n", "budget: 0 is outside 0.01 to 86400"},
      {minimal + "budget 1e9\n", "budget: 1e9 is outside"},
      {minimal + "timeout 0\n", "timeout: 0 is outside 0.1 to 3600"},
      {minimal + "verify perhaps\n", "verify: 'perhaps' is neither yes nor no"},
      {minimal + "paced 2\n", "paced: '2' is neither yes nor no"},
      {minimal + "pin 0,x\n", "pin: '0,x' names no processors"},
      {minimal + "pin -1,0\n", "pin: '-1,0' names no processors"},
      {minimal + "pin \n", "pin: '' names no processors"},
      {minimal + "pin 0\n", "pin 0 names 1 processor for 2 ranks"},
      {minimal + "pattern pingpung\n", "there is no pattern 'pingpung'; did you mean 'pingpong'?"},
      {head + "variant\n", "a variant begins with the name of its module"},
      {head + "variant tcpx\n", "there is no module 'tcpx'"},
      {minimal + "variant many_options:buffer=64k\n", "variant many_options is named twice"},
      {minimal + "variant many_options#2\nvariant many_options#2\n", "variant many_options#2 is named twice"},
      {minimal + "start 64k\nend-size 8\n", "ends at 8 bytes, below its start at 64k"},
      {minimal + "schedule list\n", "the list is empty"},
  };
  for (const auto& [text, said] : bad) EXPECT_PRED_FORMAT2(testing::IsSubstring, said, refusal(text)) << text;
}

TEST(Plan, TakesAPatternOnceHoweverOftenItIsNamed) {
  const Plan plan = parsed(minimal + "pattern stream\npattern pingpong\npattern stream\n");
  const Result<Resolved> resolved = resolve(plan, registry());
  ASSERT_TRUE(resolved);
  ASSERT_EQ(resolved->patterns.size(), 2U);
  EXPECT_EQ(resolved->patterns[0].name, "stream");
  EXPECT_EQ(resolved->nranks, 2);
}

TEST(Plan, TakesAPatternOnceForEachOfItsSettings) {
  const Plan plan = parsed(minimal + "pattern window\npattern window:in_flight=64\npattern window:in_flight=16\n");
  const Result<Resolved> resolved = resolve(plan, registry());
  ASSERT_TRUE(resolved);
  ASSERT_EQ(resolved->patterns.size(), 2U) << "16 is what it is by itself";
  EXPECT_EQ(resolved->patterns[0].name, "window");
  EXPECT_EQ(resolved->patterns[1].name, "window:in_flight=64");
  const std::string canonical = canonical_text(plan, *resolved);
  EXPECT_PRED_FORMAT2(
      testing::IsSubstring,
      "\npattern "
      "window:in_flight=64,directions=one,completion=acknowledged,places=receives,buffers=warm,reuse=100,send_offset=0,"
      "recv_offset=0\n",
      canonical);
}

TEST(Plan, HasRoomForWhatItsPatternsHaveUnderWay) {
  const auto half = [](const std::string& lines) {
    const Plan plan = parsed(minimal + "schedule list\nsizes 8,1M\n" + lines);
    const Result<Resolved> resolved = resolve(plan, registry());
    EXPECT_TRUE(resolved) << resolved.failure().sentence;
    return resolved ? half_bytes(resolved->pool) >> 20 : 0;
  };
  EXPECT_EQ(half("pattern pingpong\n"), 1U);
  EXPECT_EQ(half("pattern window:in_flight=64\n"), 64U);
  EXPECT_EQ(half("pattern window:in_flight=64\npattern pingpong\n"), 64U);
  EXPECT_EQ(half("pattern window:in_flight=64\nverify yes\n"), 128U) << "its shortest visit has two windows";
  EXPECT_EQ(half("pattern pingpong\nverify yes\n"), 16U);
}

TEST(Plan, ThatNeedsMoreMemoryThanThereIsNamesThePatternAndBothNumbers) {
  const Plan plan = parsed(minimal + "schedule list\nsizes 1M\npattern pingpong\npattern window:in_flight=65536\n");
  const Result<Resolved> resolved = resolve(plan, registry());
  ASSERT_TRUE(resolved);
  EXPECT_TRUE(fits_here(plan, *resolved, 1ULL << 40U));
  const Outcome refused = fits_here(plan, *resolved, 16ULL << 30U);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.failure().exit, Exit::usage);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "pattern window:in_flight=65536 with messages up to 1M needs ",
                      refused.failure().sentence);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "this host has 16G available", refused.failure().sentence);
}

TEST(Plan, RefusesWhatCannotBeInForceTogether) {
  const std::string list = minimal + "schedule list\nsizes 8\n";
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"pattern pingpong:buffers=fresh,reuse=50\n", "fresh buffers are never reused"},
      {"pattern pingpong:reuse=50\nverify yes\n", "a buffer that is used again holds its last message only"},
      {"pattern window:places=one\nverify yes\n", "its messages land on each other"},
      {"pattern window:places=one\nbuffers cold\n", "which cannot be cold or fresh for each of them"},
      {"pattern window:places=one,reuse=0\n", "which cannot be cold or fresh for each of them"},
  };
  for (const auto& [lines, said] : bad) EXPECT_PRED_FORMAT2(testing::IsSubstring, said, refusal(list + lines)) << lines;
  for (const char* lines : {"pattern pingpong:reuse=0\nverify yes\n", "pattern window:places=one\nbuffers apart\n",
                            "pattern window:places=all\nverify yes\n", "buffers fresh\nverify yes\n"}) {
    EXPECT_EQ(refusal(list + lines), "") << lines;
  }
}

TEST(Plan, HasRoomForTheSendsOfAWindowThatStartApart) {
  const auto half = [](const std::string& places) {
    const Plan plan = parsed(minimal + "schedule list\nsizes 1M\npattern window:in_flight=64,places=" + places + "\n");
    return half_bytes(resolve(plan, registry())->pool);
  };
  EXPECT_LT(half("one"), 2U << 20U);
  EXPECT_GT(half("receives"), 64U << 20U);
  EXPECT_EQ(half("all"), half("receives"));
}

TEST(FreshRounds, AreThoseWhoseMessagesHavePagesEach) {
  const Plan plan = parsed(minimal +
                           "schedule list\nsizes 8,1M\nbuffers fresh\n"
                           "pattern pingpong\npattern window:in_flight=64\npattern pingpong:buffers=warm,reuse=90\n");
  const Result<Resolved> resolved = resolve(plan, registry());
  ASSERT_TRUE(resolved) << resolved.failure().sentence;
  const std::vector<ChosenPattern>& patterns = resolved->patterns;
  const std::uint64_t rounds = most_rounds(resolved->pool, patterns[0], 2, 8);
  EXPECT_EQ(rounds, (64U << 20U) / 4096 - 1) << "a page for each message, and one more";
  EXPECT_GE(most_rounds(resolved->pool, patterns[2], 2, 8), 9 * rounds) << "most of its messages need no pages";
  EXPECT_EQ(most_rounds(resolved->pool, patterns[1], 2, 1U << 20U), 2U)
      << "the shortest visit, however much that takes";
  EXPECT_GT(resolved->pool.fresh_bytes, 128U << 20U);
  EXPECT_FALSE(fits_here(plan, *resolved, 256U << 20U));
}

TEST(VerifiedRounds, AreThoseWhoseMessagesHaveAPlaceEach) {
  const Plan plan = parsed(minimal +
                           "schedule list\nsizes 8,1M\nverify yes\n"
                           "pattern pingpong\npattern window:in_flight=64\npattern burst\n");
  const Result<Resolved> resolved = resolve(plan, registry());
  ASSERT_TRUE(resolved);
  const std::uint64_t places = verified_places(resolved->pool, 1U << 20);
  EXPECT_EQ(most_rounds(resolved->pool, resolved->patterns[0], 2, 1U << 20), places);
  EXPECT_EQ(most_rounds(resolved->pool, resolved->patterns[1], 2, 1U << 20), places / 64);
  EXPECT_EQ(most_rounds(resolved->pool, resolved->patterns[2], 2, 1U << 20), places / 2) << "each sample has one more";
}

TEST(PoolNeed, OfAJobIsWhatItsOwnVariantsNeed) {
  // The processes of a job know no others: what they have room for does not grow with the ranks of another variant.
  const Plan plan = parsed(head +
                           "variant crowd:ranks=2\nvariant crowd:ranks=8\npattern incast\nverify yes\n"
                           "schedule list\nsizes 8M\n");
  const Result<Resolved> resolved = resolve(plan, registry());
  ASSERT_TRUE(resolved) << resolved.failure().sentence;
  const std::string text = canonical_text(plan, *resolved, {0});
  const Plan there = parsed(text);
  const Result<Resolved> alone = resolve(there, registry());
  ASSERT_TRUE(alone) << alone.failure().sentence;
  EXPECT_LT(half_bytes(pool_need(plan, *resolved, line_bytes, {0})),
            half_bytes(pool_need(plan, *resolved, line_bytes)));
  EXPECT_EQ(half_bytes(pool_need(plan, *resolved, line_bytes, {0})), half_bytes(alone->pool));
}

TEST(Plan, MeasuresItsOwnLayersTogetherOnHosts) {
  const auto together = [](const std::string& lines) {
    const Plan plan = parsed(head + "variant crowd\nvariant silent\n" + lines);
    return measured_with(plan, *resolve(plan, registry()), 1);
  };
  EXPECT_EQ(together(""), (std::vector<std::uint32_t>{}));
  EXPECT_EQ(together("hosts a,b\n"), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(together("hosts a,b\nhost far.example\n"), (std::vector<std::uint32_t>{})) << "a server is rank 1";
  EXPECT_EQ(together("hosts a,b\nvariant crowd:ranks=4\nvariant silent#2\n"), (std::vector<std::uint32_t>{0, 1, 3}))
      << "a job for each number of ranks";
}

TEST(Plan, ForksTwoRanksHereForTheYardsticksWhereAllOthersAreOnHosts) {
  const auto here = [](const std::string& lines) {
    return resolve(parsed(head + "variant crowd\nranks 4\n" + lines), registry())->nranks;
  };
  EXPECT_EQ(here(""), 4);
  EXPECT_EQ(here("hosts a,b\n"), 2);
}

TEST(Plan, NeedsAProcessorPerRankOfThisHostOnly) {
  EXPECT_EQ(refusal(minimal + "pin 0,1\n"), "");
  EXPECT_EQ(refusal(minimal + "pin 0\nhost far.example\n"), "") << "the other rank is on the other host";
}

TEST(CanonicalText, WritesEveryDefaultOut) {
  EXPECT_EQ(canonical_of(minimal + "schedule powers\nend-size 4\n"),
            "netpipe-plan 1\n"
            "launch 0\n"
            "launches 1\n"
            "variant many_options:poll=no,depth=4,buffer=64k,wait=block,device=,ranks=2,pages=auto,node=-1\n"
            "pattern pingpong:buffers=warm,reuse=100,send_offset=0,recv_offset=0\n"
            "schedule list\n"
            "sizes 1,2,4\n"
            "buffers warm\n"
            "send-offset 0\n"
            "recv-offset 0\n"
            "target 1%\n"
            "budget 3\n"
            "timeout 10\n"
            "verify no\n"
            "seed 1\n"
            "ranks 2\n");
}

// Both ends of a run over two hosts must do the same, so nothing that changes what they do may be missing.
TEST(CanonicalText, ChangesWithEverythingThatBothEndsMustAgreeOn) {
  const std::string plain = canonical_of(minimal);
  for (const std::string line : {"launch 1", "variant silent", "pattern stream", "schedule powers", "start 2",
                                 "end-size 1M", "perturbation 0", "buffers cold", "send-offset 1", "recv-offset 1",
                                 "target 2%", "budget 1", "verify yes", "timeout 1", "seed 2"}) {
    EXPECT_NE(canonical_of(minimal + line + "\n"), plain) << line;
  }
  EXPECT_NE(canonical_of(head + "variant crowd\nranks 4\n"), canonical_of(head + "variant crowd\n"));
  for (const std::string line : {"record run.jsonl", "pin none", "paced yes", "start 1", "seed 1", "joining 9"}) {
    EXPECT_EQ(canonical_of(minimal + line + "\n"), plain) << line;
  }
}

std::string any_plan(std::mt19937_64& random) {
  const auto one_of = [&](const std::vector<std::string>& words) { return words[random() % words.size()]; };
  const auto number = [&](std::uint64_t least, std::uint64_t most) {
    return std::to_string(least + random() % (most - least + 1));
  };
  const auto real = [&](double least, double most) {
    return std::to_string(std::uniform_real_distribution<>(least, most)(random));
  };
  std::vector<std::string> lines = {
      "launch " + number(0, 1'000'000),
      "variant many_options:depth=" + number(0, 64) + ",device=" + one_of({"", "eth0", "a=b", "x:y"}),
      "variant " + one_of({"silent", "faulty:period=" + number(1, 1U << 30), "stuck", "hung:how=spin"}),
      "schedule " + one_of({"classic", "powers", "list"}),
      "start " + number(0, 1000),
      "end-size " + number(1024, 1ULL << 40),
      "sizes " + number(1, 100) + "," + number(1, 1ULL << 50) + "," + one_of({"64k", "1.5M", "3kB"}),
      "perturbation " + number(0, 100),
      "buffers " + one_of({"warm", "apart", "cold", "fresh"}),
      "send-offset " + number(0, 4096),
      "recv-offset " + number(0, 4096),
      "target " + real(0.0001, 1),
      "budget " + real(0.01, 1000),
      "timeout " + real(0.1, 3600),
      "verify " + one_of({"yes", "no", "on", "0"}),
      "seed " + number(0, INT64_MAX),
      "pin " + one_of({"auto", "none", "0,1"}),
      "pattern " + one_of({"pingpong", "stream"}),
  };
  std::string text = head;
  std::shuffle(lines.begin(), lines.end(), random);
  for (const std::string& line : lines) {
    if (line.starts_with("variant") || line.starts_with("sizes") || random() % 2 == 0) text += line + "\n";
  }
  return text + "end\n";
}

TEST(CanonicalText, IsAPlanThatComesToItself) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::string text = any_plan(random);
    const std::string first = canonical_of(text);
    const std::string second = canonical_of(first);
    ASSERT_EQ(first, second) << text;
    ASSERT_EQ(plan_hash(first), plan_hash(second));
  }
}

TEST(PlanHash, IsTheSha256OfTheText) {
  EXPECT_EQ(plan_hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_NE(plan_hash(canonical_of(minimal)), plan_hash(canonical_of(minimal + "seed 2\n")));
}

TEST(PlanRecord, SaysWhatIsMeasured) {
  const Plan plan = parsed(minimal + "schedule powers\nstart 4\nend-size 16\nsend-offset 8\nverify yes\n");
  const Result<Resolved> resolved = resolve(plan, registry());
  ASSERT_TRUE(resolved);
  const std::string record = plan_record(plan, *resolved, "abc", {3, -1});
  for (
      const std::string part :
      {R"({"type":"plan","launch":0,"hash":"abc","variants":[{"variant":"many_options","module":"many_options",)",
       R"("options":{"poll":"no","depth":"4","buffer":"64k","wait":"block","device":"","ranks":"2","pages":"auto","node":"-1"},"tunable":["buffer"],"copy_of":null}],"patterns":["pingpong"],)",
       R"("modes":[{"pattern":"pingpong","name":"pingpong","options":{"buffers":"warm","reuse":"100",)",
       R"("recv_offset":"0"},"tunable":["buffers","reuse","send_offset","recv_offset"]}],)",
       R"("schedule":{"kind":"powers","start_bytes":4,"end_bytes":16,"perturbation_bytes":0},"sizes":[4,8,16],)",
       R"("buffers":{"policy":"warm","send_offset_bytes":8,"recv_offset_bytes":0,"pool_bytes":)",
       R"("target":0.01,"confidence":0.95,"budget_s":3,"launches":1,"verify":true,"timeout_s":10,"seed":1,"placement":"auto","pin":[3,null],)",
       R"("stack":{)", R"("state_tolerances":{"bounce":1.4,"copy":1.8}})"}) {
    EXPECT_PRED_FORMAT2(testing::IsSubstring, part, record);
  }
  EXPECT_EQ(record.find('\n'), std::string::npos);
}

TEST(PlanRecord, GivesTheBoundsOfAListAsItsSmallestAndLargestSize) {
  const Plan plan = parsed(minimal + "schedule list\nsizes 64,8\n");
  const Result<Resolved> resolved = resolve(plan, registry());
  ASSERT_TRUE(resolved);
  EXPECT_PRED_FORMAT2(
      testing::IsSubstring,
      R"("schedule":{"kind":"list","start_bytes":8,"end_bytes":64,"perturbation_bytes":0},"sizes":[8,64])",
      plan_record(plan, *resolved, "", {}));
}

Layer module_of_ranks(std::int32_t least, std::int32_t most) {
  Layer m;
  m.name = "some";
  m.min_ranks = least;
  m.max_ranks = most;
  return m;
}

TEST(Ranks, AreTwoUnlessTheModuleWantsOneOrMore) {
  EXPECT_EQ(possible_ranks(module_of_ranks(1, 1), 2), 1);
  EXPECT_EQ(possible_ranks(module_of_ranks(1, 8), 2), 2);
  EXPECT_EQ(possible_ranks(module_of_ranks(2, 2), 2), 2);
  EXPECT_EQ(possible_ranks(module_of_ranks(2, INT32_MAX), 2), 2);
  EXPECT_EQ(possible_ranks(module_of_ranks(4, INT32_MAX), 2), 4);
  EXPECT_EQ(possible_ranks(module_of_ranks(2, INT32_MAX), 64), 64);
  EXPECT_EQ(possible_ranks(module_of_ranks(2, 8), 64), 8);
}

TEST(Ranks, AreThePlansUnlessAVariantChoosesItsOwn) {
  const auto ranks = [](const std::string& lines) {
    const Result<Resolved> resolved = resolve(parsed(head + lines), registry());
    EXPECT_TRUE(resolved) << resolved.failure().sentence;
    std::vector<int> all;
    for (const Variant& variant : resolved->variants) all.push_back(variant.ranks);
    return all;
  };
  EXPECT_EQ(ranks("variant crowd\nvariant silent\n"), (std::vector<int>{2, 2}));
  EXPECT_EQ(ranks("ranks 3\nvariant crowd\nvariant silent:ranks=2\n"), (std::vector<int>{3, 2}));
  EXPECT_EQ(refusal(head + "ranks 3\nvariant crowd\nvariant silent\n"),
            "module silent takes 2 ranks, and --ranks asks for 3; write silent:ranks=2 to measure it with 2, or leave "
            "it out");
  EXPECT_EQ(ranks("ranks 3\nvariant crowd\nvariant crowd:ranks=5\n"), (std::vector<int>{3, 5}));
  EXPECT_EQ(refusal(head + "variant silent:ranks=4\n"),
            "option 'ranks' of module silent: 4 is not possible; it has to be 2");
}

TEST(Ranks, OfAVariantAreInThePlanRecordAndInWhatBothEndsAgreeOn) {
  const Plan plan = parsed(head + "variant crowd:ranks=4\nvariant silent\n");
  const Result<Resolved> resolved = resolve(plan, registry());
  ASSERT_TRUE(resolved) << resolved.failure().sentence;
  EXPECT_EQ(resolved->nranks, 4);
  EXPECT_PRED_FORMAT2(
      testing::IsSubstring,
      R"({"variant":"crowd:ranks=4","module":"crowd","options":{"slow":"-1","mates":"any","ranks":"4","pages":"auto","node":"-1"},"tunable":[],"copy_of":null})",
      plan_record(plan, *resolved, "", {}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "\nvariant crowd:slow=-1,mates=any,ranks=4,pages=auto,node=-1\n",
                      canonical_text(plan, *resolved));
  const std::string only = canonical_text(plan, *resolved, {0});
  EXPECT_EQ(only.find("silent"), std::string::npos);
  EXPECT_EQ(resolve(parsed(only), registry())->variants[0].ranks, 4);
}

TEST(PlanRecord, SaysWhichLayerStandsOnWhichAlsoOfThoseThatAreNotMeasured) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("netpipe-stack-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "mpi@one.module") << "netpipe-module 1\nname mpi@one\nfile /no/such.so\nsummary s\n"
                                              "version v\nbelow tcp\nranks 2 8\ncrosses-hosts yes\n"
                                              "operations open close bootstrap send recv\n";
  const Result<Registry> modules = Registry::load({NETPIPE_TEST_MODULES, folder.string()}, {});
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(modules);
  ASSERT_NE(modules->find("mpi@one"), nullptr) << modules->refused().front().why.sentence;
  const Plan plan = parsed(head + "variant silent\n");
  const Result<Resolved> resolved = resolve(plan, *modules);
  ASSERT_TRUE(resolved);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, R"("stack":{"idles":"memcpy","mpi@one":"tcp"})",
                      plan_record(plan, *resolved, "", {}));
}

TEST(SkipReason, NamesThePatternAndWhatTheModuleLacks) {
  const Plan plan = parsed(minimal + "pattern stream\npattern pingpong\n");
  const Result<Resolved> resolved = resolve(plan, registry());
  ASSERT_TRUE(resolved);
  const Pattern& stream = *resolved->patterns[0].pattern;
  const Pattern& pingpong = *resolved->patterns[1].pattern;
  EXPECT_EQ(skip_reason(stream, *resolved->variants[0].module), "");
  EXPECT_EQ(skip_reason(stream, module_of_ranks(1, 1)), "pattern stream needs 2 ranks, module some has 1");
  EXPECT_EQ(skip_reason(stream, module_of_ranks(1, 8), 1), "pattern stream needs 2 ranks, there are 1 (--ranks)");
  EXPECT_EQ(skip_reason(pingpong, module_of_ranks(2, 2)),
            "module some has no send and recv, which pattern pingpong needs");
}

TEST(SkipReason, NamesASettingThatThePatternDoesNotObey) {
  const Plan plan = parsed(head + "variant many_options\nvariant many_options:poll=yes\npattern pingpong\n");
  Result<Resolved> resolved = resolve(plan, registry());
  ASSERT_TRUE(resolved);
  const auto reason = [&](std::size_t variant, std::uint32_t obeyed_by) {
    resolved->variants[variant].options[0].applies_to = obeyed_by;
    return skip_reason(resolved->patterns[0], resolved->variants[variant]);
  };
  EXPECT_EQ(reason(1, NP_USES_ONE_SIDED | NP_USES_COLLECTIVES),
            "pattern pingpong does not obey poll=yes of module many_options: measure it without that setting");
  EXPECT_EQ(reason(1, NP_USES_ONE_SIDED | NP_USES_MESSAGES), "");
  EXPECT_EQ(reason(1, NP_USES_REQUESTS),
            "pattern pingpong does not obey poll=yes of module many_options: measure it without that setting");
  EXPECT_EQ(reason(1, 0), "") << "0: everything obeys it";
  EXPECT_EQ(reason(0, NP_USES_ONE_SIDED), "") << "the default is in force everywhere";
}

TEST(SkipReason, NamesAnOffsetOfMessagesWhereNoneStartsInABuffer) {
  const Plan plan = parsed(minimal + "pattern atomic\npattern atomic:send_offset=8\npattern atomic:recv_offset=8\n");
  const Result<Resolved> resolved = resolve(plan, registry());
  ASSERT_TRUE(resolved);
  Layer layer = module_of_ranks(2, 2);
  layer.atomic = [](np_endpoint*, np_atomic) -> np_atomic_call { return nullptr; };
  layer.barrier = [](np_endpoint*) { return NP_OK; };
  Variant variant;
  variant.module = &layer;
  EXPECT_EQ(skip_reason(resolved->patterns[0], variant), "");
  EXPECT_EQ(skip_reason(resolved->patterns[1], variant),
            "pattern atomic does not obey send_offset=8: nothing that it moves starts in a buffer");
  EXPECT_EQ(skip_reason(resolved->patterns[2], variant), "") << "words lie where messages land";
  const Plan of_run = parsed(minimal + "send-offset 8\npattern atomic\n");
  const Result<Resolved> whole = resolve(of_run, registry());
  ASSERT_TRUE(whole);
  EXPECT_NE(skip_reason(whole->patterns[0], variant), "") << "the default of a run is in force, or it is not measured";
}

TEST(SkipReason, OfCastsNamesWhatTheModuleLacksAndHowToDoWithout) {
  const Plan plan = parsed(minimal + "pattern cast\npattern cast:by=sends\n");
  const Result<Resolved> resolved = resolve(plan, registry());
  ASSERT_TRUE(resolved);
  const Variant& variant = resolved->variants[0];
  const std::string module = variant.module->name;
  EXPECT_EQ(skip_reason(resolved->patterns[0], variant),
            "pattern cast needs cast and recv_cast, which module " + module + " lacks; by=sends needs neither");
  EXPECT_EQ(skip_reason(resolved->patterns[1], variant), "");
}

TEST(SkipReason, NamesASettingOfCastsThatAPatternWithoutThemDoesNotObey) {
  const Plan plan = parsed(head + "variant many_options:poll=yes\npattern cast:by=sends\n");
  Result<Resolved> resolved = resolve(plan, registry());
  ASSERT_TRUE(resolved);
  Variant& variant = resolved->variants[0];
  variant.options[0].applies_to = NP_USES_CAST;
  EXPECT_EQ(skip_reason(resolved->patterns[0], variant),
            "pattern cast does not obey poll=yes of module many_options: measure it without that setting");
  const Result<ChosenPattern> casts = parse_pattern("cast");
  ASSERT_TRUE(casts);
  EXPECT_NE(groups_of(*casts->pattern, casts->part(0, 2, 8)) & NP_USES_CAST, 0U);
}

}  // namespace
}  // namespace netpipe
