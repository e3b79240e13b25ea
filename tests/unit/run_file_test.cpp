// SPDX-License-Identifier: Apache-2.0
#include "record/run_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace netpipe {
namespace {

std::string fresh_path(const std::string& name) {
  std::string path = testing::TempDir() + "netpipe-run-file-" + std::to_string(getpid()) + "-" + name;
  unlink(path.c_str());
  return path;
}

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(RunFile, GetsOneWholeLineARecordAndAppends) {
  const std::string path = fresh_path("append");
  for (const std::string record : {R"({"launch":0})", R"({"launch":1})"}) {
    Result<RunFile> file = RunFile::open(path);
    ASSERT_TRUE(file) << file.failure().sentence;
    EXPECT_TRUE(file->write(record));
    EXPECT_TRUE(file->write(std::string(100'000, 'x')));
  }
  const std::string big(100'000, 'x');
  EXPECT_EQ(content(path), "{\"launch\":0}\n" + big + "\n{\"launch\":1}\n" + big + "\n");
  unlink(path.c_str());
}

TEST(RunFile, IsWrittenAtOnceAndSurvivesAMove) {
  const std::string path = fresh_path("move");
  Result<RunFile> first = RunFile::open(path);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->write("a"));
  EXPECT_EQ(content(path), "a\n");
  RunFile second(std::move(*first));
  EXPECT_TRUE(second.write("b"));
  EXPECT_EQ(content(path), "a\nb\n");
  unlink(path.c_str());
}

TEST(RunFile, NamedDashGoesNowhere) {
  Result<RunFile> file = RunFile::open("-");
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->write("a"));
  EXPECT_EQ(file->descriptor(), -1);
  EXPECT_NE(access("-", F_OK), 0);
}

TEST(RunFile, ThatCannotBeOpenedIsASentenceThatNamesIt) {
  const std::string path = testing::TempDir() + "no-such-directory/run.jsonl";
  const Result<RunFile> file = RunFile::open(path);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.failure().exit, Exit::failed);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, path, file.failure().sentence);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "No such file or directory", file.failure().sentence);
}

TEST(RunFile, OnAFullDeviceFailsWithASentenceAndThenRefuses) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "this system has no /dev/full";
  Result<RunFile> file = RunFile::open("/dev/full");
  ASSERT_TRUE(file);
  const Outcome first = file->write("a");
  ASSERT_FALSE(first);
  EXPECT_EQ(first.failure().exit, Exit::failed);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "/dev/full cannot be written: No space left on device",
                      first.failure().sentence);
  const Outcome second = file->write("b");
  ASSERT_FALSE(second);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "could not be written any further", second.failure().sentence);
}

// A limit on the size of files cuts a line in the middle; lifting it must not let another line follow the torn one.
TEST(RunFile, WritesNothingBehindATornLine) {
  const std::string path = fresh_path("torn");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 10;
    setrlimit(RLIMIT_FSIZE, &limit);
    Result<RunFile> file = RunFile::open(path);
    const bool whole = file && file->write("1234");
    const bool torn = !file->write("5678901234");
    limit.rlim_cur = before;
    setrlimit(RLIMIT_FSIZE, &limit);
    const bool refused = !file->write("never");
    _exit(whole && torn && refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(content(path), "1234\n56789");
  unlink(path.c_str());
}

}  // namespace
}  // namespace netpipe
