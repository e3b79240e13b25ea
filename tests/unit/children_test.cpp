// SPDX-License-Identifier: Apache-2.0
// The processes that netpipe forks for its ranks.
#include "worker/workers/children.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace netpipe {
namespace {

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(Children, HaveTheirConnectionAndNothingElseThatTheirParentHasNot) {
  const std::size_t before = open_descriptors();
  Children children;
  auto group = children.fork_ranks(3, [](Group& own, int) {
    const std::string count = std::to_string(open_descriptors());
    return own.gather_text(count) ? 0 : 1;
  });
  ASSERT_TRUE(group);
  const auto counted = (*group)->gather_text("");
  ASSERT_TRUE(counted);
  for (const int rank : {1, 2}) EXPECT_EQ(std::to_string(before + 1), (*counted)[static_cast<std::size_t>(rank)]);
}

// As many as would take longer than a test may, were each given its time after the other.
TEST(Children, ThatHangAreGivenTheirTimeTogether) {
  Children children;
  auto group = children.fork_ranks(61, [](Group&, int) -> int {
    for (;;) pause();
  });
  ASSERT_TRUE(group);
  group->reset();
  children.reap();
}

}  // namespace
}  // namespace netpipe
