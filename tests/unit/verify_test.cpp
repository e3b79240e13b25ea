// SPDX-License-Identifier: Apache-2.0
#include "patterns/kit/verify.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

namespace netpipe {
namespace {

std::vector<char> message(std::size_t bytes, std::uint64_t seed) {
  std::vector<char> data(bytes, 0);
  fill(data.data(), bytes, seed);
  return data;
}

TEST(Verification, PassesWhatWasFilled) {
  for (std::size_t bytes = 1; bytes <= 300; ++bytes) {
    const std::vector<char> data = message(bytes, 7 * bytes);
    EXPECT_FALSE(first_difference(data.data(), bytes, 7 * bytes)) << bytes;
  }
}

TEST(Verification, WritesNotOneByteTooMany) {
  for (std::size_t bytes = 0; bytes <= 40; ++bytes) {
    std::vector<char> data(bytes + 16, 'x');
    fill(data.data(), bytes, 1);
    EXPECT_EQ(std::string(data.begin() + static_cast<std::ptrdiff_t>(bytes), data.end()), std::string(16, 'x'));
    spoil(data.data(), bytes, 1);
    EXPECT_EQ(std::string(data.begin() + static_cast<std::ptrdiff_t>(bytes), data.end()), std::string(16, 'x'));
  }
}

TEST(Verification, FindsEverySingleFlippedBitAtItsByte) {
  for (std::size_t bytes = 1; bytes <= 100; ++bytes) {
    std::vector<char> data = message(bytes, bytes);
    for (std::size_t at = 0; at < bytes; ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        data[at] = static_cast<char>(data[at] ^ (1 << bit));
        ASSERT_EQ(first_difference(data.data(), bytes, bytes), at);
        data[at] = static_cast<char>(data[at] ^ (1 << bit));
      }
    }
  }
}

TEST(Verification, FindsAFlippedByteInALargeMessage) {
  std::mt19937_64 random(1);
  for (const std::size_t bytes : {std::size_t{4096}, std::size_t{65539}, (std::size_t{1} << 20) + 3}) {
    std::vector<char> data = message(bytes, bytes);
    for (int i = 0; i < 50; ++i) {
      const std::size_t at = i == 0 ? bytes - 1 : random() % bytes;
      data[at] = static_cast<char>(~data[at]);
      ASSERT_EQ(first_difference(data.data(), bytes, bytes), at);
      data[at] = static_cast<char>(~data[at]);
    }
  }
}

TEST(Verification, SaysTheFirstOfSeveralWrongBytes) {
  std::vector<char> data = message(1000, 5);
  for (const std::size_t at : {900U, 31U, 500U}) data[at] = static_cast<char>(data[at] + 1);
  EXPECT_EQ(first_difference(data.data(), data.size(), 5), 31U);
}

TEST(Verification, NeverPassesASpoiledBuffer) {
  std::mt19937_64 random(2);
  for (std::size_t bytes = 1; bytes <= 1000; ++bytes) {
    const std::uint64_t seed = random();
    std::vector<char> data(bytes);
    spoil(data.data(), bytes, seed);
    ASSERT_EQ(first_difference(data.data(), bytes, seed), 0U);
    const std::vector<char> right = message(bytes, seed);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_NE(data[i], right[i]) << "a receive of a part would pass";
  }
}

TEST(Verification, FindsAMessageOfAnotherRunVisitSenderOrPlaceInTheOrder) {
  constexpr std::size_t bytes = 64;
  for (std::uint64_t job = 0; job < 4; ++job) {
    for (std::uint64_t visit = 0; visit < 4; ++visit) {
      for (std::uint64_t number = 0; number < 4; ++number) {
        const std::uint64_t seed = message_seed(job, visit, 0, number);
        const std::vector<char> data = message(bytes, seed);
        EXPECT_FALSE(first_difference(data.data(), bytes, message_seed(job, visit, 0, number)));
        EXPECT_TRUE(first_difference(data.data(), bytes, message_seed(job + 1, visit, 0, number)));
        EXPECT_TRUE(first_difference(data.data(), bytes, message_seed(job, visit + 1, 0, number)));
        EXPECT_TRUE(first_difference(data.data(), bytes, message_seed(job, visit, 1, number)));
        EXPECT_TRUE(first_difference(data.data(), bytes, message_seed(job, visit, 0, number + 1)));
      }
    }
  }
}

TEST(Verification, GivesEveryMessageOfARunASeedOfItsOwn) {
  std::set<std::uint64_t> seeds;
  for (std::uint64_t visit = 1; visit <= 100; ++visit) {
    for (const int sender : {0, 1}) {
      for (std::uint64_t number = 0; number < 100; ++number) seeds.insert(message_seed(1, visit, sender, number));
    }
  }
  EXPECT_EQ(seeds.size(), 100U * 2 * 100);
}

TEST(Verification, FindsAMessageThatLiesAFewBytesOff) {
  for (const std::size_t shift : {1U, 4U, 8U, 64U}) {
    const std::vector<char> data = message(256, 9);
    EXPECT_TRUE(first_difference(data.data() + shift, 128, 9)) << shift;
  }
}

}  // namespace
}  // namespace netpipe
