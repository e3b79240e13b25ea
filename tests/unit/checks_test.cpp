// SPDX-License-Identifier: Apache-2.0
#include "worker/checks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/processes/pinning.h"

namespace netpipe {
namespace {

// The modules of the tests, and a library that starts any number of ranks.
const Registry& registry() {
  static const Result<Registry> loaded = [] {
    const std::filesystem::path folder =
        std::filesystem::path(testing::TempDir()) / ("netpipe-checks-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "mpi@many.module") << "netpipe-module 1\nname mpi@many\nfile /no/such.so\nsummary s\n"
                                                 "version v\nranks 1 2147483647\ncrosses-hosts yes\n"
                                                 "operations open close bootstrap send recv\n";
    Result<Registry> modules = Registry::load({NETPIPE_TEST_MODULES, folder.string()}, {});
    std::filesystem::remove_all(folder);
    return modules;
  }();
  return *loaded;
}

const std::string head = "netpipe-plan 1\n";

// The sentence against this plan on a host whose processors these are; "" when there is none.
std::string against(const std::string& text, const std::vector<int>& usable) {
  const Result<Plan> plan = parse_plan(head + text);
  if (!plan) return plan.failure().sentence;
  const Result<Resolved> resolved = resolve(*plan, registry());
  if (!resolved) return resolved.failure().sentence;
  for (const Outcome& outcome :
       {processes_fit(*plan, *resolved, usable.size()), processors_exist(*plan, *resolved, usable)}) {
    if (outcome) continue;
    EXPECT_EQ(outcome.failure().exit, Exit::usage);
    return outcome.failure().sentence;
  }
  return {};
}

TEST(Checks, RefuseAProcessorThatThisProcessCannotUse) {
  EXPECT_EQ(against("variant silent\npin 0,1\n", {0, 1}), "");
  EXPECT_EQ(against("variant silent\npin 0,99\n", {0, 1, 2, 4, 8, 9}),
            "pin 0,99: this process cannot use processor 99; it can use 0-2,4,8-9. Name some of these, or pin none");
  EXPECT_EQ(against("variant silent\npin 0,5,99\n", {0, 5}), "") << "two ranks never use the third";
  EXPECT_EQ(against("variant silent\npin 0,99\nhost far.example\n", {0}), "") << "the second is of the other host";
  EXPECT_EQ(against("variant silent\npin 0,99\n", {}), "") << "a system that does not tell refuses by itself";
}

TEST(Checks, RefuseMoreProcessesThanAnyHostOfThisSizeRuns) {
  EXPECT_EQ(against("variant mpi@many\nranks 99999\n", {0, 1}),
            "variant mpi@many has 99999 ranks, and this host with its 2 processors runs at most 1024; use fewer ranks, "
            "or more hosts (--hosts)");
  EXPECT_EQ(against("variant mpi@many\nranks 99999\n", {0}),
            "variant mpi@many has 99999 ranks, and this host with its 1 processor runs at most 1024; use fewer ranks, "
            "or more hosts (--hosts)");
  EXPECT_EQ(against("variant mpi@many\nranks 99999\nbind 192.0.2.1\n", {0, 1}), "") << "they are on other hosts too";
  EXPECT_EQ(against("variant silent:ranks=2\nranks 99999\n", {0, 1}), "") << "it has its own number";
  EXPECT_EQ(against("variant mpi@many\nranks 1024\n", {0, 1}), "");
  const std::vector<int> many(64, 0);
  EXPECT_EQ(against("variant mpi@many\nranks 4096\n", many), "") << "64 for each processor";
  EXPECT_NE(against("variant mpi@many:ranks=4097\n", many), "");
}

TEST(Checks, WantAProcessorForEachRankOfAVariant) {
  EXPECT_EQ(against("variant mpi@many:ranks=4\npin 0,1\n", {0, 1}),
            "pin 0,1 names 2 processors for the 4 ranks of variant mpi@many:ranks=4; name one for each rank");
  EXPECT_EQ(against("variant mpi@many:ranks=4\npin 0,1,0,1\n", {0, 1}), "");
  EXPECT_EQ(against("variant mpi@many:ranks=4\npin 1,0,1\n", {0, 1}),
            "pin 1,0,1 names 3 processors for the 4 ranks of variant mpi@many:ranks=4; name one for each rank");
  EXPECT_EQ(against("variant mpi@many:ranks=4\npin 0,1\nbind 192.0.2.1\n", {0, 1}), "") << "two on each host";
}

// Why nothing can be measured of the only curve of this plan.
std::string foreseen(const std::string& text) {
  const Result<Plan> plan = parse_plan(head + text);
  const Result<Resolved> resolved = plan ? resolve(*plan, registry()) : plan.failure();
  EXPECT_TRUE(resolved) << resolved.failure().sentence;
  return resolved ? foreseen_obstacle(*plan, resolved->patterns.at(0), resolved->variants.at(0)) : "";
}

TEST(Checks, ForeseeThatAModuleCannotBeUsedHere) {
  const std::string said = foreseen("variant unavailable\n");
  EXPECT_TRUE(said.starts_with("module unavailable is not available: ")) << said;
  EXPECT_EQ(foreseen("variant unavailable\nhosts a,b\n"), "") << "those hosts may have what it needs";
  EXPECT_EQ(foreseen("variant silent\n"), "");
  EXPECT_NE(foreseen("variant silent\npattern put\n"), "") << "its pattern does not fit";
}

// What all ranks of these variants take, in the buffers of one rank of the first plan.
double ranks_of_buffers(const std::string& text) {
  const auto bytes = [](const std::string& lines) {
    const Result<Plan> plan = parse_plan(head + lines + "schedule list\nsizes 1M\n");
    const Result<Resolved> resolved = plan ? resolve(*plan, registry()) : plan.failure();
    EXPECT_TRUE(resolved) << resolved.failure().sentence;
    return resolved ? static_cast<double>(buffer_bytes(*plan, *resolved)) : 0;
  };
  return bytes(text) / bytes("variant mpi@many:ranks=1\n");
}

TEST(Checks, CountTheBuffersOfEveryRankOnce) {
  EXPECT_EQ(ranks_of_buffers("variant silent\n"), 2);
  EXPECT_EQ(ranks_of_buffers("variant silent\nvariant silent#2\n"), 2) << "the same processes, one pool";
  EXPECT_EQ(ranks_of_buffers("variant mpi@many:ranks=4\n"), 4);
  EXPECT_EQ(ranks_of_buffers("variant mpi@many:ranks=4\nvariant mpi@many:ranks=3\n"), 7) << "processes of their own";
  EXPECT_EQ(ranks_of_buffers("variant silent\nvariant mpi@many:ranks=4\n"), 6);
}

std::vector<int> placed(std::string_view pin, int ranks, const std::vector<int>& usable = usable_cpus()) {
  const Result<Pinning> pinning = parse_pinning(pin);
  const Result<std::vector<int>> cpus = pinning ? place_program(*pinning, ranks, usable) : pinning.failure();
  EXPECT_TRUE(cpus) << cpus.failure().sentence;
  return cpus ? *cpus : std::vector<int>{};
}

std::string not_placed(std::string_view pin, int ranks, const std::vector<int>& usable) {
  const Result<Pinning> pinning = parse_pinning(pin);
  const Result<std::vector<int>> cpus = pinning ? place_program(*pinning, ranks, usable) : pinning.failure();
  EXPECT_FALSE(cpus);
  if (cpus) return {};
  EXPECT_EQ(cpus.failure().exit, Exit::usage);
  return cpus.failure().sentence;
}

TEST(Programs, HaveAProcessorForEachRankOrNone) {
  const std::vector<int> usable = usable_cpus();
  const int many = static_cast<int>(usable.size());
  std::vector<int> all = placed("auto", many);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, usable);
  EXPECT_FALSE(ranks_share_a_cpu(all));
  const std::vector<int> none = placed("auto", many + 1);
  EXPECT_EQ(none, std::vector<int>(usable.size() + 1, -1));
  EXPECT_TRUE(ranks_share_a_cpu(none));
  EXPECT_EQ(placed("none", many), std::vector<int>(usable.size(), -1));
}

TEST(Programs, RunOnTheProcessorsThatAreNamed) {
  EXPECT_EQ(placed("1,0", 2, {0, 1}), (std::vector<int>{1, 0}));
  EXPECT_EQ(placed("0,0", 2, {0, 1}), (std::vector<int>{0, 0})) << "who names one twice means it";
  EXPECT_EQ(placed("0,1,2", 2, {0, 1}), (std::vector<int>{0, 1}));
  EXPECT_EQ(not_placed("0,1", 4, {0, 1}), "pin 0,1 names 2 processors for 4 ranks; name one for each rank");
  EXPECT_EQ(not_placed("0,9", 2, {0, 1}),
            "pin 0,9: this process cannot use processor 9; it can use 0-1. Name some of these, or pin none");
  EXPECT_EQ(not_placed("cache", 4, {0, 1}),
            "pin cache selects two processors, for two ranks and not for 4; name one processor for each rank");
  EXPECT_NE(not_placed("near", 2, {0, 1}), "");
}

TEST(Checks, RefuseMoreConnectionsThanTheSystemGivesAProgram) {
  EXPECT_TRUE(room_for_connections(2));
  const Outcome refused = room_for_connections(INT_MAX);
  ASSERT_FALSE(refused) << "no system opens two thousand million files";
  EXPECT_EQ(refused.failure().exit, Exit::unavailable);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "2147483647 processes need more open files than the",
                      refused.failure().sentence);
}

TEST(Severity, IsTheOrderOfTheTable) {
  EXPECT_EQ(worse(Exit::done, Exit::done), Exit::done);
  EXPECT_EQ(worse(Exit::failed, Exit::unavailable), Exit::failed);
  EXPECT_EQ(worse(Exit::usage, Exit::unavailable), Exit::usage);
  EXPECT_EQ(worse(Exit::failed, Exit::gate), Exit::gate) << "a wrong byte is worse than none";
  EXPECT_EQ(worse(Exit::interrupted, Exit::gate), Exit::interrupted);
  for (const ExitCode& code : exit_codes) EXPECT_EQ(worse(code.exit, Exit::done), code.exit) << code.name;
}

}  // namespace
}  // namespace netpipe
