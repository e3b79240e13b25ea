// SPDX-License-Identifier: Apache-2.0
// That an endpoint leaves nothing behind in its process: no descriptor, no shared mapping, however far it came.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "netpipe/module.h"
#include "two_ranks.h"

namespace {

using namespace two_ranks;

// Open descriptors, and mappings that are shared with other processes.
std::string held() {
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // that of the iteration itself
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone && target.string().find("/proc/") == std::string::npos) all += target.string() + " ";
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" rw-s ") != std::string::npos) all += line + " ";
  }
  return all;
}

class EveryLayer : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Leaks, EveryLayer,
                         testing::Values("shm", "shm:copy=cma", "shm:wait=block", "pipe", "unix", "unix:type=seqpacket",
                                         "tcp", "tcp:streams=5", "tcp:reopen=no,connections=one"),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryLayer, LeavesNothingBehindAfterMessages) {
  const auto body = [](int number, int control) -> std::string {
    std::string before;
    for (int round = 0; round < 3; ++round) {  // the first may open what the C library keeps
      Rank rank(GetParam(), number, control);
      if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
      if (const np_status s = rank.connect(); s != NP_OK) return failed(rank, "connect", s);
      if (std::string wrong = bounce(rank, {1, 100, 70'000, kMiB}); !wrong.empty()) return wrong;
      if (rank.module->reset != nullptr) {
        if (const np_status s = rank.module->reset(rank.endpoint); s != NP_OK) return failed(rank, "reset", s);
      }
      if (const np_memory* own = rank.module->own_memory(); own != nullptr) {
        void* memory = nullptr;
        if (const np_status s = own->alloc(rank.endpoint, kMiB, &memory); s != NP_OK) return failed(rank, "alloc", s);
      }
      rank.meet();
      rank.close();
      if (round == 0) before = held();
    }
    return held() == before ? "" : held() + "instead of " + before;
  };
  EXPECT_EQ("", run_ranks(body).both());
}

TEST_P(EveryLayer, LeavesNothingBehindWhereNobodyConnects) {
  const auto body = [](int number, int control) -> std::string {
    std::string before;
    for (int round = 0; round < 2; ++round) {
      Rank rank(GetParam(), number, control);
      rank.context.timeout_ns = 100'000'000;
      if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
      if (std::string wrong = wait_for_nobody(rank, "rank 0"); !wrong.empty()) return wrong;
      rank.close();
      if (round == 0) before = held();
    }
    return held() == before ? "" : held() + "instead of " + before;
  };
  EXPECT_EQ("", run_ranks(body).both());
}

}  // namespace
