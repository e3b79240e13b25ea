// SPDX-License-Identifier: Apache-2.0
// Which modules are taken and which are refused. The wrong ones are those of tests/modules.
#include "catalog/registry.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace netpipe {
namespace {

namespace fs = std::filesystem;

const std::string fault_modules = NETPIPE_TEST_MODULES;
const std::string option_modules = NETPIPE_OPTION_MODULES;
std::string fault(const std::string& name) { return fault_modules + "/" + name + ".so"; }

// A table that fits: every operation is there. None is ever called.
np_module good_table() {
  np_module m{};
  m.magic = NP_MAGIC;
  m.abi = NP_ABI;
  m.size = sizeof m;
  m.name = "good";
  m.summary = "a module that fits";
  m.version = "test";
  m.min_ranks = 2;
  m.max_ranks = 2;
  m.open = [](const np_context*, np_endpoint**) { return NP_OK; };
  m.close = [](np_endpoint*) {};
  m.bootstrap = [](np_endpoint*, np_bootstrap*) { return NP_OK; };
  m.address = [](np_endpoint*, void*, std::size_t*) { return NP_OK; };
  m.connect = [](np_endpoint*, const void* const*, const std::size_t*) { return NP_OK; };
  m.reset = [](np_endpoint*) { return NP_OK; };
  m.alloc = [](np_endpoint*, std::size_t, void**) { return NP_OK; };
  m.free = [](np_endpoint*, void*, std::size_t) {};
  m.send = [](np_endpoint*, int, const void*, std::size_t) { return NP_OK; };
  m.recv = [](np_endpoint*, int, void*, std::size_t) { return NP_OK; };
  m.isend = [](np_endpoint*, int, const void*, std::size_t, std::size_t, np_request*, std::size_t) { return NP_OK; };
  m.irecv = [](np_endpoint*, int, void*, std::size_t, std::size_t, np_request*, std::size_t) { return NP_OK; };
  m.wait = [](np_endpoint*, np_request*, std::size_t) { return NP_OK; };
  m.test = [](np_endpoint*, np_request*) { return NP_OK; };
  m.expose = [](np_endpoint*, void*, std::size_t, np_region*) { return NP_OK; };
  m.attach = [](np_endpoint*, int, np_region*) { return NP_OK; };
  m.withdraw = [](np_endpoint*, np_region*) {};
  m.put = [](np_endpoint*, int, const void*, const np_region*, std::size_t, std::size_t) { return NP_OK; };
  m.get = [](np_endpoint*, int, void*, const np_region*, std::size_t, std::size_t) { return NP_OK; };
  m.fence = [](np_endpoint*) { return NP_OK; };
  m.flush = [](np_endpoint*, int) { return NP_OK; };
  m.collective = [](np_endpoint*, np_collective) -> np_collective_call { return nullptr; };
  m.barrier = [](np_endpoint*) { return NP_OK; };
  return m;
}

np_option good_option() {
  np_option o{};
  o.name = "depth";
  o.type = NP_INT;
  o.default_value = "1";
  o.max = 8;
  o.unit = "";
  o.help = "a number";
  return o;
}

struct Fault {
  std::string name;
  std::function<void(np_module&)> make;
  std::vector<std::string> said;  // all of these are in the sentence
};

std::string refusal(const np_module* table) {
  const Outcome fits = check_table(table, "/opt/some.so");
  if (fits) return "accepted";
  EXPECT_EQ(fits.failure().exit, Exit::usage);
  return fits.failure().sentence;
}

TEST(CheckTable, TakesATableThatFits) {
  const np_module table = good_table();
  EXPECT_EQ(refusal(&table), "accepted");
}

TEST(CheckTable, TakesAModuleThatCanDoOneThingOnly) {
  const np_module whole = good_table();
  np_module least{};
  least.magic = whole.magic, least.abi = whole.abi, least.size = whole.size;
  least.name = "least", least.summary = "", least.version = "";
  least.min_ranks = least.max_ranks = 1;
  least.open = whole.open, least.close = whole.close;
  np_module sender = least;
  sender.send = whole.send, sender.recv = whole.recv;
  EXPECT_EQ(refusal(&sender), "accepted");
  np_module putter = least;
  putter.put = whole.put, putter.expose = whole.expose, putter.attach = whole.attach, putter.withdraw = whole.withdraw;
  EXPECT_EQ(refusal(&putter), "accepted");
  np_module library = sender;
  library.max_ranks = INT32_MAX, library.bootstrap = whole.bootstrap;
  EXPECT_EQ(refusal(&library), "accepted");
}

TEST(CheckTable, RefusesWhatDoesNotFitAndNamesBothSides) {
  const std::string size = std::to_string(sizeof(np_module));
  const std::vector<Fault> faults = {
      {"magic", [](np_module& m) { m.magic = 0xdeadbeef; }, {"0xdeadbeef", "0x314550495054454e"}},
      {"abi",
       [](np_module& m) { m.abi = 7; },
       {"ABI 7", "this netpipe has " + std::to_string(NP_ABI), "build it again"}},
      {"size", [](np_module& m) { m.size = 96; }, {"its table has 96 bytes", "this netpipe's has " + size}},
      {"no name", [](np_module& m) { m.name = nullptr; }, {"its name is missing"}},
      {"empty name", [](np_module& m) { m.name = ""; }, {"its name is missing"}},
      {"name", [](np_module& m) { m.name = "TCP"; }, {"not lower case"}},
      {"name with a colon", [](np_module& m) { m.name = "tcp:fast"; }, {"not lower case"}},
      {"name with a digit first", [](np_module& m) { m.name = "2tcp"; }, {"not lower case"}},
      {"summary", [](np_module& m) { m.summary = nullptr; }, {"no summary"}},
      {"version", [](np_module& m) { m.version = nullptr; }, {"no version"}},
      {"no ranks", [](np_module& m) { m.min_ranks = 0; }, {"from 0 to 2 ranks"}},
      {"ranks", [](np_module& m) { m.min_ranks = 3; }, {"from 3 to 2 ranks"}},
      {"options", [](np_module& m) { m.noptions = 1; }, {"counts options and has no table"}},
      {"open", [](np_module& m) { m.open = nullptr; }, {"open and close"}},
      {"close", [](np_module& m) { m.close = nullptr; }, {"open and close"}},
      {"send", [](np_module& m) { m.send = nullptr; }, {"send and recv belong together"}},
      {"recv", [](np_module& m) { m.recv = nullptr; }, {"send and recv belong together"}},
      {"address", [](np_module& m) { m.address = nullptr; }, {"address and connect belong together"}},
      {"connect", [](np_module& m) { m.connect = nullptr; }, {"address and connect belong together"}},
      {"isend", [](np_module& m) { m.isend = nullptr; }, {"isend and irecv belong together"}},
      {"irecv", [](np_module& m) { m.irecv = nullptr; }, {"isend and irecv belong together"}},
      {"wait", [](np_module& m) { m.wait = nullptr; }, {"isend and irecv need wait and test"}},
      {"test", [](np_module& m) { m.test = nullptr; }, {"isend and irecv need wait and test"}},
      {"expose", [](np_module& m) { m.expose = nullptr; }, {"put and get need expose, attach and withdraw"}},
      {"attach", [](np_module& m) { m.attach = nullptr; }, {"put and get need expose, attach and withdraw"}},
      {"withdraw", [](np_module& m) { m.withdraw = nullptr; }, {"put and get need expose, attach and withdraw"}},
      {"alloc", [](np_module& m) { m.alloc = nullptr; }, {"alloc and free belong together"}},
      {"free", [](np_module& m) { m.free = nullptr; }, {"alloc and free belong together"}},
      {"no way to move",
       [](np_module& m) {
         m.send = nullptr, m.recv = nullptr, m.isend = nullptr, m.irecv = nullptr, m.put = nullptr, m.get = nullptr;
         m.collective = nullptr;
       },
       {"no operation that moves a message"}},
      {"no way to meet",
       [](np_module& m) { m.address = nullptr, m.connect = nullptr, m.bootstrap = nullptr; },
       {"several ranks need address and connect"}},
  };
  for (const Fault& one : faults) {
    np_module table = good_table();
    one.make(table);
    const std::string sentence = refusal(&table);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "module /opt/some.so is refused", sentence) << one.name;
    for (const std::string& part : one.said) EXPECT_PRED_FORMAT2(testing::IsSubstring, part, sentence) << one.name;
  }
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "returned no table", refusal(nullptr));
}

TEST(CheckTable, RefusesAnOptionThatMakesNoSenseAndNamesIt) {
  struct OptionFault {
    std::string name;
    std::function<void(np_option&)> make;
    std::string said;
  };
  const std::vector<OptionFault> faults = {
      {"no name", [](np_option& o) { o.name = nullptr; }, "an option without a good name"},
      {"name with a blank", [](np_option& o) { o.name = "queue depth"; }, "an option without a good name"},
      {"name with an equals sign", [](np_option& o) { o.name = "a=b"; }, "an option without a good name"},
      {"default", [](np_option& o) { o.default_value = nullptr; }, "option 'depth' without a default"},
      {"help", [](np_option& o) { o.help = nullptr; }, "option 'depth' without help or unit"},
      {"unit", [](np_option& o) { o.unit = nullptr; }, "option 'depth' without help or unit"},
      {"type", [](np_option& o) { o.type = static_cast<np_type>(5); }, "option 'depth' of an unknown type"},
      {"no choices", [](np_option& o) { o.type = NP_CHOICE; }, "option 'depth' with nothing to choose from"},
      {"empty choices", [](np_option& o) { o.type = NP_CHOICE, o.choices = ""; }, "nothing to choose from"},
      {"range", [](np_option& o) { o.min = 9; }, "option 'depth' whose smallest value is above its largest"},
      {"size range", [](np_option& o) { o.type = NP_SIZE, o.min = 9; }, "smallest value is above its largest"},
  };
  for (const OptionFault& one : faults) {
    std::vector<np_option> options = {good_option(), good_option()};
    np_module table = good_table();
    table.options = options.data();
    table.noptions = 2;
    EXPECT_EQ(refusal(&table), "accepted");
    one.make(options[1]);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, one.said, refusal(&table)) << one.name;
  }
}

TEST(ProbeReason, IsTheSentenceOfTheModule) {
  np_module table = good_table();
  EXPECT_EQ(probe_reason(table), "");
  table.probe = [](char*, std::size_t) { return NP_OK; };
  EXPECT_EQ(probe_reason(table), "");
  table.probe = [](char*, std::size_t) { return NP_UNAVAILABLE; };
  EXPECT_EQ(probe_reason(table), "the module does not say why");
  const Result<Registry> registry = Registry::load({}, {fault("unavailable")});
  ASSERT_TRUE(registry) << registry.failure().sentence;
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "no teleporter", probe_reason(*registry->modules()[0].table));
}

TEST(Registry, RefusesAWrongModuleThatWasNamedWithItsReason) {
  struct Wrong {
    std::string file;
    Exit exit;
    std::string said;
  };
  const std::vector<Wrong> wrong = {
      {"half", Exit::usage, "send and recv belong together"},
      {"no_entry", Exit::usage, "does not export netpipe_module()"},
      {"short_table", Exit::usage, "this netpipe's has " + std::to_string(sizeof(np_module))},
      {"wrong_abi", Exit::usage, "ABI " + std::to_string(NP_ABI + 1) + ", this netpipe has " + std::to_string(NP_ABI)},
      {"wrong_magic", Exit::usage, "0x4d4f44554c452121"},
      {"missing_library", Exit::unavailable, "libnpabsent.so"},
  };
  for (const Wrong& one : wrong) {
    ASSERT_TRUE(fs::exists(fault(one.file))) << fault(one.file);
    const Result<Registry> registry = Registry::load({}, {fault(one.file)});
    ASSERT_FALSE(registry) << one.file;
    EXPECT_EQ(registry.failure().exit, one.exit) << one.file;
    EXPECT_PRED_FORMAT2(testing::IsSubstring, fault(one.file), registry.failure().sentence);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, one.said, registry.failure().sentence);
  }
}

TEST(Registry, SaysThatANamedFileDoesNotExist) {
  const Result<Registry> registry = Registry::load({}, {"nowhere/mine.so"});
  ASSERT_FALSE(registry);
  EXPECT_EQ(registry.failure().exit, Exit::usage);
  EXPECT_EQ(registry.failure().sentence, "module file nowhere/mine.so does not exist");
}

TEST(Registry, ListsTheWrongModulesOfADirectoryAndTakesTheOthers) {
  const Result<Registry> registry = Registry::load({fault_modules}, {});
  ASSERT_TRUE(registry) << registry.failure().sentence;
  std::vector<std::string> refused;
  for (const RefusedModule& one : registry->refused()) {
    refused.push_back(fs::path(one.path).stem().string());
    EXPECT_GT(one.reason.size(), 20U);
  }
  for (const std::string name : {"half", "missing_library", "no_entry", "short_table", "wrong_abi", "wrong_magic"}) {
    EXPECT_EQ(std::count(refused.begin(), refused.end(), name), 1) << name;
    EXPECT_EQ(registry->find(name), nullptr);
  }
  for (const std::string name : {"dies", "faulty", "hung", "silent", "stuck", "unavailable"}) {
    ASSERT_NE(registry->find(name), nullptr) << name;
    EXPECT_EQ(registry->find(name)->path, fault(name));
    EXPECT_EQ(registry->find(name)->table->name, name);
  }
  const std::vector<std::string> names = registry->names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end())) << "the order is that of the file names";
}

// A directory of this test's own, gone with it.
class RegistryDirectory : public testing::Test {
 protected:
  void SetUp() override {
    directory = fs::path(testing::TempDir()) / ("netpipe-registry-" + std::to_string(getpid()));
    fs::remove_all(directory);
    fs::create_directory(directory);
  }
  void TearDown() override { fs::remove_all(directory); }
  fs::path directory;
};

TEST_F(RegistryDirectory, RefusesAFileThatIsNoLibraryAndLooksAtNothingElse) {
  std::ofstream(directory / "text.so") << "this is no library\n";
  std::ofstream(directory / "notes.txt") << "nor is this\n";
  fs::copy_file(option_modules + "/many_options.so", directory / "mine.so");
  const Result<Registry> registry = Registry::load({directory.string()}, {});
  ASSERT_TRUE(registry);
  ASSERT_EQ(registry->refused().size(), 1U);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "text.so", registry->refused()[0].path);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "cannot be loaded", registry->refused()[0].reason);
  EXPECT_EQ(registry->names(), (std::vector<std::string>{"many_options"}));
}

TEST_F(RegistryDirectory, GivesWayToAFileOfTheSameName) {
  fs::copy_file(option_modules + "/many_options.so", directory / "mine.so");
  const std::string mine = (directory / "mine.so").string();
  const Result<Registry> by_file = Registry::load({option_modules}, {mine});
  ASSERT_TRUE(by_file);
  ASSERT_EQ(by_file->modules().size(), 1U);
  EXPECT_EQ(by_file->modules()[0].path, mine);
  const Result<Registry> by_order = Registry::load({option_modules, directory.string()}, {});
  ASSERT_TRUE(by_order);
  ASSERT_EQ(by_order->modules().size(), 1U);
  EXPECT_EQ(by_order->modules()[0].path, option_modules + "/many_options.so");
}

TEST_F(RegistryDirectory, FindsAFileNamedWithoutASlashInTheWorkingDirectory) {
  fs::copy_file(option_modules + "/many_options.so", directory / "mine.so");
  const fs::path before = fs::current_path();
  fs::current_path(directory);
  const Result<Registry> registry = Registry::load({}, {"mine.so"});
  fs::current_path(before);
  ASSERT_TRUE(registry) << registry.failure().sentence;
  EXPECT_NE(registry->find("many_options"), nullptr);
}

TEST(Registry, IsEmptyWhereThereIsNoDirectory) {
  const Result<Registry> registry = Registry::load({"/nowhere/at/all"}, {});
  ASSERT_TRUE(registry);
  EXPECT_TRUE(registry->modules().empty());
  EXPECT_TRUE(registry->refused().empty());
  EXPECT_EQ(registry->find("tcp"), nullptr);
}

TEST(ModuleDirectories, AreThoseOfTheEnvironmentThenThoseOfTheInstallationThenTheUsersOwn) {
  setenv("HOME", "/home/me", 1);
  unsetenv("XDG_DATA_HOME");
  setenv("NETPIPE_MODULE_PATH", "/a:/b::", 1);
  const std::vector<std::string> with = module_directories();
  unsetenv("NETPIPE_MODULE_PATH");
  const std::vector<std::string> without = module_directories();
  ASSERT_EQ(without.size(), 2U);
  EXPECT_TRUE(without[0].ends_with("/lib/netpipe/modules")) << without[0];
  EXPECT_EQ(without[1], "/home/me/.local/share/netpipe/modules");
  EXPECT_EQ(with, (std::vector<std::string>{"/a", "/b", without[0], without[1]}));
  setenv("XDG_DATA_HOME", "/data", 1);
  EXPECT_EQ(module_directories().back(), "/data/netpipe/modules");
}

}  // namespace
}  // namespace netpipe
