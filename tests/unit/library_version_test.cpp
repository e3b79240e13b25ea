// SPDX-License-Identifier: Apache-2.0
// Which version of a library may answer a module that was built with another one.
#include "modules/kit/libraries/library_version.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace netpipe {
namespace {

LibraryVersion versions(const std::string& built, const std::string& found, bool exactly = false) {
  return {.library = "UCX", .built = built, .found = found, .exactly = exactly};
}

TEST(LibraryVersion, TakesTheFirstTwoNumbers) {
  using Numbers = std::array<int, 2>;
  EXPECT_EQ(version_numbers("1.13.1"), (Numbers{1, 13}));
  EXPECT_EQ(version_numbers("1.5.2dev"), (Numbers{1, 5}));
  EXPECT_EQ(version_numbers("2"), (Numbers{2, 0}));
  EXPECT_EQ(version_numbers("10.x"), (Numbers{10, 0}));
  EXPECT_EQ(version_numbers(""), (Numbers{0, 0}));
  EXPECT_EQ(dotted(4, 3U, 4), "4.3.4");
}

TEST(LibraryVersion, LaterOnesOfTheSameMajorNumberServe) {
  for (const char* found : {"1.13", "1.13.0", "1.13.1", "1.20.1"}) {
    EXPECT_EQ(versions("1.13", found).mismatch(), "") << found;
  }
  for (const char* found : {"1.12.1", "1.2", "2.0.0", "2.13.1", "0.13", ""}) {
    EXPECT_EQ(versions("1.13", found).mismatch(), "this module was built with UCX 1.13, and UCX " + std::string(found) +
                                                      " is installed; build netpipe again");
  }
}

TEST(LibraryVersion, WhereStructuresChangeWithTheMinorNumberOnlyThisOneServes) {
  EXPECT_EQ(versions("1.17", "1.17", true).mismatch(), "");
  for (const char* found : {"1.16", "1.18", "2.17"}) EXPECT_NE(versions("1.17", found, true).mismatch(), "") << found;
}

TEST(LibraryVersion, IsSaidByTheProbe) {
  std::array<char, 200> message{};
  EXPECT_EQ(versions("1.13", "1.14").probe(message.data(), message.size()), NP_OK);
  EXPECT_STREQ(message.data(), "");
  EXPECT_EQ(versions("1.13", "2.0").probe(message.data(), message.size()), NP_UNAVAILABLE);
  EXPECT_EQ(message.data(), versions("1.13", "2.0").mismatch());
}

}  // namespace
}  // namespace netpipe
