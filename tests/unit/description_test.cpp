// SPDX-License-Identifier: Apache-2.0
#include "catalog/description.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "catalog/contract.h"
#include "catalog/registry.h"

namespace netpipe {
namespace {

const std::string option_modules = NETPIPE_OPTION_MODULES;
const std::string test_modules = NETPIPE_TEST_MODULES;

Result<std::unique_ptr<DescribedModule>> parsed(const std::string& text) {
  return DescribedModule::parse(text, "mpi@x.module");
}

std::string same(const char* a, const char* b) {
  if ((a == nullptr) != (b == nullptr)) return "one is NULL";
  return a == nullptr || std::strcmp(a, b) == 0 ? "" : std::string(a) + " and " + b;
}

void expect_same_table(const Layer& a, const Layer& b) {
  EXPECT_EQ(same(a.summary, b.summary), "");
  EXPECT_EQ(same(a.version, b.version), "");
  EXPECT_EQ(same(a.below, b.below), "");
  EXPECT_EQ(same(a.adds, b.adds), "");
  EXPECT_EQ(a.min_ranks, b.min_ranks);
  EXPECT_EQ(a.max_ranks, b.max_ranks);
  EXPECT_EQ(a.crosses_hosts, b.crosses_hosts);
  EXPECT_EQ(a.idle, b.idle);
  EXPECT_EQ(a.to_itself, b.to_itself);
  EXPECT_EQ(operations(a), operations(b));
  ASSERT_EQ(a.noptions, b.noptions);
  for (std::uint32_t i = 0; i < a.noptions; ++i) {
    const np_option& x = a.options[i];
    const np_option& y = b.options[i];
    EXPECT_EQ(same(x.name, y.name) + same(x.default_value, y.default_value) + same(x.choices, y.choices), "");
    EXPECT_EQ(same(x.unit, y.unit) + same(x.help, y.help) + same(x.unsupported, y.unsupported), "");
    EXPECT_EQ(x.type, y.type);
    EXPECT_EQ(x.min, y.min);
    EXPECT_EQ(x.max, y.max);
    EXPECT_EQ(x.tunable, y.tunable);
    EXPECT_EQ(x.applies_to, y.applies_to);
    EXPECT_EQ(same(x.unsupported, y.unsupported), "");
  }
  EXPECT_EQ(a.process_model, b.process_model);
  ASSERT_EQ(a.ncounters, b.ncounters);
  for (std::uint32_t i = 0; i < a.ncounters; ++i) {
    EXPECT_EQ(same(a.counters[i].name, b.counters[i].name) + same(a.counters[i].unit, b.counters[i].unit), "");
    EXPECT_EQ(a.counters[i].kind, b.counters[i].kind);
  }
  ASSERT_EQ(a.nmeasures, b.nmeasures);
  for (std::uint32_t i = 0; i < a.nmeasures; ++i) {
    const np_measure& x = a.measures[i];
    const np_measure& y = b.measures[i];
    EXPECT_EQ(same(x.name, y.name) + same(x.unit, y.unit) + same(x.help, y.help), "");
    EXPECT_EQ(x.sum, y.sum);
    EXPECT_EQ(x.count, y.count);
  }
}

const std::string counting =
    "netpipe-module 1\nname m\nfile /x.so\nsummary s\nversion v\nranks 2 2\noperations open close bootstrap send "
    "recv read_counters\ncounter\tcame\t1\tup\tthat came\ncounter\tlate_ns\tns\tup\tof these\n";

TEST(Description, SaysWhatTheLayerMeasures) {
  const auto module = parsed(counting + "measure\tlate\tns\tlate_ns\tcame\thow late they come\n");
  ASSERT_TRUE(module) << module.failure().sentence;
  ASSERT_EQ((*module)->layer().nmeasures, 1U);
  EXPECT_STREQ((*module)->layer().measures[0].name, "late");
  EXPECT_EQ((*module)->layer().measures[0].sum, 1U);
  EXPECT_EQ((*module)->layer().measures[0].count, 0U);
  const auto again = parsed(describe_layer((*module)->layer(), "/x.so", ""));
  ASSERT_TRUE(again) << again.failure().sentence;
  expect_same_table((*module)->layer(), (*again)->layer());
}

TEST(Description, RefusesAMeasureOfWhatIsNotCounted) {
  for (const auto& [line, why] : {std::pair{"measure\tlate\tns\tlate_ns\tcame\n", "4 fields instead of 5"},
                                  {"measure\tlate\tns\tlate_ns\tgone\thelp\n", "a counter that is not in the table"},
                                  {"measure\tloss\t1\tlate_ns\tcame\thelp\n", "counts itself"}}) {
    const auto module = parsed(counting + line);
    ASSERT_FALSE(module);
    EXPECT_NE(module.failure().sentence.find(why), std::string::npos) << module.failure().sentence;
  }
}

TEST(Description, SaysAllThatTheTableSays) {
  for (const std::string& file : {option_modules + "/many_options.so", test_modules + "/troupe.so"}) {
    const Result<Registry> registry = Registry::load_as(file, "");
    ASSERT_TRUE(registry) << registry.failure().sentence;
    const LoadedModule& loaded = registry->modules()[0];
    const auto described = parsed(describe_layer(*loaded.layer, loaded.path, "mpi@y"));
    ASSERT_TRUE(described) << described.failure().sentence;
    EXPECT_STREQ((*described)->layer().name, "mpi@y");
    EXPECT_EQ((*described)->file(), loaded.path);
    expect_same_table(*loaded.layer, (*described)->layer());
    const auto again = parsed(describe_layer((*described)->layer(), loaded.path, ""));
    ASSERT_TRUE(again) << again.failure().sentence;
    expect_same_table((*described)->layer(), (*again)->layer());
  }
}

TEST(Description, SaysWhetherTheModuleIsIdle) {
  const std::string busy =
      "netpipe-module 1\nname m\nfile /x.so\nsummary s\nversion v\nranks 2 2\noperations open close bootstrap send "
      "recv\n";
  for (const auto& [text, idle] : {std::pair{busy, 0U}, {busy + "idle no\n", 0U}, {busy + "idle yes\n", 1U}}) {
    const auto module = parsed(text);
    ASSERT_TRUE(module) << module.failure().sentence;
    EXPECT_EQ((*module)->layer().idle, idle);
    const auto again = parsed(describe_layer((*module)->layer(), "/x.so", ""));
    ASSERT_TRUE(again) << again.failure().sentence;
    expect_same_table((*module)->layer(), (*again)->layer());
  }
}

TEST(Description, SaysWhetherARankMaySendToItself) {
  const std::string text =
      "netpipe-module 1\nname m\nfile /x.so\nsummary s\nversion v\nranks 2 2\noperations open close bootstrap send "
      "recv\n";
  for (const auto& [more, can] : {std::pair{"", 0U}, {"to-itself no\n", 0U}, {"to-itself yes\n", 1U}}) {
    const auto module = parsed(text + more);
    ASSERT_TRUE(module) << module.failure().sentence;
    EXPECT_EQ((*module)->layer().to_itself, can);
    const auto again = parsed(describe_layer((*module)->layer(), "/x.so", ""));
    ASSERT_TRUE(again) << again.failure().sentence;
    expect_same_table((*module)->layer(), (*again)->layer());
  }
}

TEST(Description, NamesEveryGroupOfOperations) {
  const std::string line =
      "netpipe-module 1\nname m\nfile /x.so\nsummary s\nversion v\nranks 2 2\noperations open close bootstrap send "
      "recv\n"
      "option\tany\tint\t1\t1\t9\t\t\tno\thelp\tmessages|one_sided|collectives|requests|cast|strided\t\n";
  const auto module = parsed(line);
  ASSERT_TRUE(module) << module.failure().sentence;
  const np_option& option = (*module)->layer().options[0];
  EXPECT_EQ(option.applies_to, unsigned{NP_USES_MESSAGES | NP_USES_ONE_SIDED | NP_USES_COLLECTIVES | NP_USES_REQUESTS |
                                        NP_USES_CAST | NP_USES_STRIDED});
  const auto again = parsed(describe_layer((*module)->layer(), "/x.so", ""));
  ASSERT_TRUE(again) << again.failure().sentence;
  EXPECT_EQ((*again)->layer().options[0].applies_to, option.applies_to);
}

TEST(Description, KeepsWhatAnOptionAppliesToAndWhyItCannotBeSet) {
  const std::string good =
      "netpipe-module 1\nname mpi@x\nfile /x.so\nsummary s\nversion v\nranks 2 2\noperations open close bootstrap "
      "send recv\n";
  const auto module = parsed(good +
                             "option\ttype\tint\t1\t1\t9\t\t\tyes\thelp\tmessages|one_sided\t\n"
                             "option\tpath\tint\t1\t1\t9\t\t\tno\thelp\t\tit has one path\n"
                             "option\told\tint\t1\t1\t9\t\t\tno\thelp\n"
                             "option\twait\tint\t1\t1\t9\t\t\twaiting\thelp\n"
                             "option\top\tint\t1\t1\t9\t\t\tcalling\thelp\n");
  ASSERT_TRUE(module) << module.failure().sentence;
  const np_option* const options = (*module)->layer().options;
  const std::uint32_t tunable[] = {NP_TUNABLE, NP_NOT_TUNABLE, NP_NOT_TUNABLE, NP_TUNABLE_WAITING, NP_TUNABLE_CALLING};
  for (std::size_t i = 0; i < std::size(tunable); ++i) EXPECT_EQ(options[i].tunable, tunable[i]) << i;
  const auto again = parsed(describe_layer((*module)->layer(), "/x.so", ""));
  ASSERT_TRUE(again) << again.failure().sentence;
  expect_same_table((*module)->layer(), (*again)->layer());
  EXPECT_EQ(options[0].applies_to, unsigned{NP_USES_MESSAGES | NP_USES_ONE_SIDED});
  EXPECT_EQ(options[0].unsupported, nullptr);
  EXPECT_EQ(options[1].applies_to, 0U);
  EXPECT_STREQ(options[1].unsupported, "it has one path");
  EXPECT_EQ(options[2].applies_to, 0U);
  EXPECT_EQ(options[2].unsupported, nullptr);
}

TEST(Description, IsRefusedWithTheLineThatIsWrong) {
  const std::string head = "netpipe-module 1\nname mpi@x\nfile /x.so\nsummary s\nversion v\nranks 2 2\n";
  const std::string good = head + "operations open close bootstrap send recv\n";
  ASSERT_TRUE(parsed(good));
  ASSERT_TRUE(parsed(good + "launcher openmpi /usr/bin/mpirun\nenvironment A=B=C\nadded today\n\n"));
  struct Case {
    std::string text;
    const char* expected;
  };
  const std::string option = "option\tname\tint\t1\t1\t9\t\t\tyes\thelp\n";
  ASSERT_TRUE(parsed(good + option));
  const auto newer = parsed(good + "option\tname\tint\t1\t1\t9\t\t\tyes\thelp\t\tit has none\n");
  ASSERT_TRUE(newer);
  EXPECT_EQ(same((*newer)->layer().options[0].unsupported, "it has none"), "");
  for (const Case& one : {
           Case{"", "line 1: it does not begin with"},
           Case{"netpipe-module 2\n", "line 1: it does not begin with"},
           Case{good + "ranks many\n", "line 8: ranks are two numbers"},
           Case{good + "ranks 0 4\n", "line 8: ranks are two numbers"},
           Case{good + "abi 3\n", "line 8: the module was built for module ABI 3, this netpipe has 4"},
           Case{good + "process-model odd\n", "line 8: 'odd' is not a process model"},
           Case{good + "counter\tname\t1\n", "line 8: a counter has 2 fields instead of 4"},
           Case{good + "option\tname\tint\t1\t1\t9\t\t\tyes\thelp\tmagic\t\n", "applies to 'magic'"},
           Case{good + "option\tname\tint\t1\t1\t9\t\t\tperhaps\thelp\n", "is tunable 'perhaps'; the words are"},
           Case{head + "operations open sing\n", "line 7: there is no operation 'sing'"},
           Case{good + "option\tname\tint\n", "line 8: an option has 2 fields instead of 11"},
           Case{good + "option\tname\tword\t1\t1\t9\t\t\tyes\thelp\n", "'word' is not a type"},
           Case{good + "option\tname\tint\t1\tx\t9\t\t\tyes\thelp\n", "not a pair of numbers"},
           Case{good + "option\tName\tint\t1\t1\t9\t\t\tyes\thelp\n", "an option whose name is missing or malformed"},
           Case{head + "operations open close send recv\n", "several ranks need address and connect"},
           Case{"netpipe-module 1\nname mpi@x\nsummary s\nversion v\nranks 2 2\n", "it names no file"},
       }) {
    const auto module = parsed(one.text);
    ASSERT_FALSE(module) << one.text;
    EXPECT_EQ(module.failure().exit, Exit::usage);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, one.expected, module.failure().sentence);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "mpi@x.module", module.failure().sentence);
  }
}

TEST(Description, NeverCrashesWhateverItReads) {
  std::random_device seed;
  std::mt19937_64 random(seed());
  const Result<Registry> registry = Registry::load_as(option_modules + "/many_options.so", "mpi@x");
  ASSERT_TRUE(registry);
  const std::string good = describe_layer(*registry->modules()[0].layer, "/x.so", "");
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (std::uint64_t changes = 1 + random() % 5; changes > 0; --changes) {
      text[random() % text.size()] = "\t\n 0x@"[random() % 6];
    }
    const auto module = parsed(text);
    EXPECT_TRUE(module || !module.failure().sentence.empty());
  }
}

class DescribedDirectory : public testing::Test {
 protected:
  void SetUp() override {
    directory = std::filesystem::path(testing::TempDir()) / ("netpipe-described-" + std::to_string(getpid()));
    std::filesystem::remove_all(directory);
    std::filesystem::create_directory(directory);
  }
  void TearDown() override { std::filesystem::remove_all(directory); }
  void put(const std::string& name, const std::string& text) const { std::ofstream(directory / name) << text; }
  std::filesystem::path directory;
};

TEST_F(DescribedDirectory, HasItsModulesByTheirDescriptionsOnly) {
  put("mpi@x.so", "two of these cannot be in one process\n");
  put("mpi@x.module",
      "netpipe-module 1\nname mpi@x\nfile /x.so\nsummary s\nversion v\nranks 2 9\noperations open close bootstrap send "
      "recv\n");
  put("mpi@bad.module", "netpipe-module 1\n");
  put("plain.module", "not looked at\n");
  const Result<Registry> registry = Registry::load({directory.string()}, {});
  ASSERT_TRUE(registry);
  ASSERT_EQ(registry->modules().size(), 1U);
  const LoadedModule* module = registry->find("mpi@x");
  ASSERT_NE(module, nullptr);
  EXPECT_TRUE(launched(*module->layer));
  EXPECT_EQ(module->path, "/x.so");
  EXPECT_EQ(module->description, (directory / "mpi@x.module").string());
  ASSERT_EQ(registry->refused().size(), 1U);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "mpi@bad.module", registry->refused()[0].path);
}

TEST(LoadAs, GivesTheModuleAnotherName) {
  const Result<Registry> registry = Registry::load_as(test_modules + "/troupe.so", "troupe@two");
  ASSERT_TRUE(registry);
  EXPECT_NE(registry->find("troupe@two"), nullptr);
  EXPECT_EQ(registry->find("troupe"), nullptr);
  EXPECT_FALSE(Registry::load_as(test_modules + "/troupe.so", "Two Words"));
  const auto entry = reinterpret_cast<const np_module* (*)()>(
      dlsym(dlopen((test_modules + "/troupe.so").c_str(), RTLD_NOW | RTLD_LOCAL), NP_ENTRY));
  const Result<Registry> same = Registry::of(entry(), "here.so", "troupe@three");
  ASSERT_TRUE(same);
  ASSERT_NE(same->find("troupe@three"), nullptr);
  EXPECT_EQ(same->find("troupe@three")->path, "here.so");
  const Result<Registry> missing = Registry::load_as("/nowhere.so", "x");
  ASSERT_FALSE(missing);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "/nowhere.so does not exist", missing.failure().sentence);
}

}  // namespace
}  // namespace netpipe
