// SPDX-License-Identifier: Apache-2.0
// Which modules are taken and which are refused. The wrong ones are those of tests/modules.
#include "catalog/registry.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "catalog/probing.h"

namespace netpipe {
namespace {

namespace fs = std::filesystem;

const std::string fault_modules = NETPIPE_TEST_MODULES;
const std::string option_modules = NETPIPE_OPTION_MODULES;
std::string fault(const std::string& name) { return fault_modules + "/" + name + ".so"; }

TEST(ProbeReason, IsTheSentenceOfTheModule) {
  Layer layer;
  EXPECT_EQ(probe_reason(layer), "");
  layer.probe = [](char*, std::size_t) { return NP_OK; };
  EXPECT_EQ(probe_reason(layer), "");
  layer.probe = [](char*, std::size_t) { return NP_UNAVAILABLE; };
  EXPECT_EQ(probe_reason(layer), "the module does not say why");
  const Result<Registry> registry = Registry::load({}, {fault("unavailable")});
  ASSERT_TRUE(registry) << registry.failure().sentence;
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "no teleporter", registry->modules()[0].reason);
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
      {"short_table", Exit::usage, "has 16 bytes, at least 56 are needed"},
      {"old_abi", Exit::usage, "ABI " + std::to_string(NP_ABI - 1) + ", this netpipe has " + std::to_string(NP_ABI)},
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
    EXPECT_GT(one.why.sentence.size(), 20U);
  }
  for (const std::string name :
       {"half", "missing_library", "no_entry", "old_abi", "short_table", "wrong_abi", "wrong_magic"}) {
    EXPECT_EQ(std::count(refused.begin(), refused.end(), name), 1) << name;
    EXPECT_EQ(registry->find(name), nullptr);
  }
  for (const std::string name : {"dies", "faulty", "hung", "newer", "older", "silent", "stuck", "unavailable"}) {
    ASSERT_NE(registry->find(name), nullptr) << name;
    EXPECT_EQ(registry->find(name)->path, fault(name));
    EXPECT_EQ(registry->find(name)->layer->name, name);
  }
  const std::vector<std::string> names = registry->names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end())) << "the order is that of the file names";
}

// Each misbehaves where its name says.
const std::string bad_modules = fault_modules + "/bad";
struct Bad {
  std::string name, what;
};
const std::vector<Bad> every_bad = {
    {"closes_output", "its probe closed or replaced standard output"},
    {"crashes_asked", "netpipe_module() was ended by signal 6"},
    {"crashes_loading", "loading was ended by signal 6"},
    {"exits_probe", "its probe ended the process with exit code 0"},
    {"prints_probe", "its probe printed 'hello' to standard output"},
    {"spins_probe", "its probe did not return within 2 s"},
};

bool is_loaded(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

TEST(Registry, NamesEveryModuleThatMisbehavesWhileItIsLookedAtAndTakesTheOthers) {
  const Result<Registry> registry = Registry::load({bad_modules, option_modules}, {});
  ASSERT_TRUE(registry) << registry.failure().sentence;
  ASSERT_EQ(registry->refused().size(), every_bad.size());
  for (std::size_t i = 0; i < every_bad.size(); ++i) {
    const RefusedModule& refused = registry->refused()[i];
    EXPECT_EQ(refused.path, bad_modules + "/" + every_bad[i].name + ".so");
    EXPECT_EQ(refused.why.exit, Exit::failed);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "module " + refused.path + ": " + every_bad[i].what,
                        refused.why.sentence);
    EXPECT_FALSE(is_loaded(refused.path));
    const Result<const LoadedModule*> wanted = registry->require(every_bad[i].name);
    ASSERT_FALSE(wanted);
    EXPECT_EQ(wanted.failure().exit, Exit::failed);
    EXPECT_EQ(wanted.failure().sentence, refused.why.sentence);
  }
  EXPECT_EQ(registry->names(), (std::vector<std::string>{"many_options"}));
}

TEST(Registry, LoadsTheCodeOfChosenModulesAlone) {
  const std::string mine = option_modules + "/many_options.so";
  Result<Registry> registry = Registry::load({fault_modules, option_modules}, {});
  ASSERT_TRUE(registry);
  ASSERT_NE(registry->find("many_options"), nullptr);
  EXPECT_FALSE(is_loaded(mine));
  const std::uint32_t options = registry->find("many_options")->layer->noptions;
  ASSERT_TRUE(registry->bind({"many_options", "not_there"}));
  EXPECT_TRUE(is_loaded(mine));
  EXPECT_FALSE(is_loaded(fault("silent")));
  EXPECT_EQ(registry->find("many_options")->layer->noptions, options);
  EXPECT_EQ(registry->find("many_options")->path, mine);
}

TEST(ProbeModules, BlamesNoModuleForTheThreadOfAnother) {
  const std::string late = bad_modules + "/threads/crashes_later.so";
  const std::string good = option_modules + "/many_options.so";
  for (int i = 0; i < 20; ++i) {
    std::vector<std::string> paths(40, good);
    paths.insert(paths.begin(), late);
    const std::vector<Result<ProbedModule>> found = probe_modules(paths);
    ASSERT_EQ(found.size(), paths.size());
    for (std::size_t at = 1; at < found.size(); ++at) {
      ASSERT_TRUE(found[at]) << at << ": " << found[at].failure().sentence;
      ASSERT_PRED_FORMAT2(testing::IsSubstring, "name many_options", found[at]->description);
    }
  }
}

TEST(ProbeModules, NeedsNoStandardStreams) {
  const pid_t pid = fork();
  if (pid == 0) {
    for (const int fd : {0, 1, 2}) close(fd);
    const std::vector<Result<ProbedModule>> found = probe_modules({option_modules + "/many_options.so"});
    _exit(found[0] ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(ProbeModules, LeavesNoProcessBehind) {
  const std::string parent = bad_modules + "/threads/leaves_children.so";
  const std::vector<Result<ProbedModule>> found = probe_modules({parent});
  ASSERT_EQ(found.size(), 1U);
  ASSERT_TRUE(found[0]) << found[0].failure().sentence;
  // Its probe says which process it has started.
  const pid_t child = std::stoi(found[0]->reason);
  ASSERT_GT(child, 1);
  const std::int64_t deadline_ns = now_ns() + 5'000'000'000;
  const auto is_alive = [child] {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string pid, name, state;
    return (stat >> pid >> name >> state) && state != "Z" && state != "X";
  };
  while (is_alive() && now_ns() < deadline_ns) usleep(1000);
  EXPECT_FALSE(is_alive());
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
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "cannot be loaded", registry->refused()[0].why.sentence);
  EXPECT_EQ(registry->names(), (std::vector<std::string>{"many_options"}));
}

TEST_F(RegistryDirectory, NamesTheCommandThatInstallsTheLibraryOfAModule) {
  fs::copy_file(fault("missing_library"), directory / "bound.so");
  const auto refused = [&]() -> Failure {
    const Result<Registry> registry = Registry::load({directory.string()}, {});
    return registry->require("bound").failure();
  };
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "; install what is missing, or remove the module", refused().sentence);
  std::ofstream(directory / "bound.needs") << "something else\nget apt install nothing\n";
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "; install what is missing, or remove the module", refused().sentence);
  std::ofstream(directory / "bound.needs") << "netpipe-needs 1\nget apt install libbound-dev\n";
  EXPECT_EQ(refused().exit, Exit::unavailable);
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "; install its library (apt install libbound-dev), and build netpipe again if that is another",
                      refused().sentence);
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

TEST_F(RegistryDirectory, TellsWhatALayerThatWasNotBuiltWouldTake) {
  std::ofstream(directory / "ucx.absent") << "netpipe-absent 1\nname ucx\nsummary messages over UCX\n"
                                             "reason it was not built: its header ucp/api/ucp.h was not found\n";
  std::ofstream(directory / "odd.absent") << "something else\nname odd\nreason none\n";
  const Result<Registry> registry = Registry::load({directory.string()}, {});
  ASSERT_TRUE(registry);
  ASSERT_EQ(registry->absent().size(), 1U) << "a file of another form is left out";
  EXPECT_EQ(registry->absent()[0].summary, "messages over UCX");
  const Result<const LoadedModule*> wanted = registry->require("ucx");
  ASSERT_FALSE(wanted);
  EXPECT_EQ(wanted.failure().exit, Exit::unavailable);
  EXPECT_EQ(wanted.failure().sentence,
            "module ucx is not available: it was not built: its header ucp/api/ucp.h was not found");
  EXPECT_EQ(registry->require("ucy").failure().exit, Exit::usage);
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
