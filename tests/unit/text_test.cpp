// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace netpipe {
namespace {

constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();

// A number whose length in bits is drawn first, so that small and large ones come equally often.
std::uint64_t any_number(std::mt19937_64& random) { return (random() >> 1) >> (random() % 63); }

TEST(ParseSize, ReadsBytesAndBothKindsOfMultiples) {
  const std::vector<std::pair<std::string, std::uint64_t>> sizes = {
      {"8", 8},
      {"0", 0},
      {"0064", 64},
      {" 8\t", 8},
      {"8B", 8},
      {"64k", 65536},
      {"64K", 65536},
      {"64KiB", 65536},
      {"64kiB", 65536},
      {"64kB", 64000},
      {"64KB", 64000},
      {"1M", 1U << 20},
      {"1m", 1U << 20},
      {"1MiB", 1U << 20},
      {"1MB", 1'000'000},
      {"1.5M", 3U << 19},
      {".5k", 512},
      {"2.k", 2048},
      {"1.024kB", 1024},
      {"2G", 1ULL << 31},
      {"2g", 1ULL << 31},
      {"3T", 3ULL << 40},
      {"3t", 3ULL << 40},
      {"3TB", 3'000'000'000'000},
      {"8388607T", 8388607ULL << 40},
      {"9223372036854775807", most},
      {"9007199254740993", 9007199254740993},  // a double cannot hold it
      {"9007199254740991k", 9007199254740991ULL * 1024},
  };
  for (const auto& [text, bytes] : sizes) {
    const Result<std::uint64_t> size = parse_size(text);
    ASSERT_TRUE(size) << size.failure().sentence;
    EXPECT_EQ(*size, bytes) << text;
  }
}

TEST(ParseSize, RefusesWhatIsNoSizeAndQuotesIt) {
  for (const std::string text :
       {"",    " ",   "k",     ".",   "8Q",   "-1", "+1",  "- 1", "1e3", "0x10", "1..2", "1.2.3", "1kk",      "64 k",
        "KiB", "1iB", "1KiBs", "1kb", "1KIB", "1b", "8k8", "8,9", "inf", "nan",  "ten",  "1\n2",  "8\xc2\xb5"}) {
    const Result<std::uint64_t> size = parse_size(text);
    ASSERT_FALSE(size) << text << " was taken for " << *size;
    EXPECT_EQ(size.failure().exit, Exit::usage);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "'" + text + "' is not a size", size.failure().sentence);
  }
}

TEST(ParseSize, RefusesMoreThanA64BitSizeCanCount) {
  for (const std::string text : {"9223372036854775808", "18446744073709551616", "99999999999999999999999", "8388608T",
                                 "9007199254740992k", "9300000TB", "18446744073709551615k"}) {
    const Result<std::uint64_t> size = parse_size(text);
    ASSERT_FALSE(size) << text << " was taken for " << *size;
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "more bytes than a 64-bit size can count", size.failure().sentence);
  }
  EXPECT_FALSE(parse_size(std::string(400, '9')));
}

TEST(ParseSize, RefusesPartsOfAByte) {
  for (const std::string text : {"0.3", "0.3k", "1.0001k", "1.5", "0.0001kB"}) {
    const Result<std::uint64_t> size = parse_size(text);
    ASSERT_FALSE(size) << text << " was taken for " << *size;
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "not a whole number of bytes", size.failure().sentence);
  }
}

TEST(ParseSize, ReadsEveryWholeNumberExactly) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t number = any_number(random);
    ASSERT_EQ(*parse_size(std::to_string(number)), number);
  }
}

TEST(SizeText, IsReadBackAsTheSameNumberAndIsNoLonger) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t number = any_number(random) >> (i % 3 == 0 ? 0 : 41) << (i % 3 == 1 ? 10 * (i % 5) : 0);
    const std::string text = size_text(number);
    ASSERT_EQ(*parse_size(text), number) << text;
    ASSERT_LE(text.size(), std::to_string(number).size());
  }
}

TEST(SizeText, UsesTheLargestMultipleThatIsWhole) {
  EXPECT_EQ(size_text(0), "0");
  EXPECT_EQ(size_text(1023), "1023");
  EXPECT_EQ(size_text(1024), "1k");
  EXPECT_EQ(size_text(65536), "64k");
  EXPECT_EQ(size_text(1025 * 1024), "1025k");
  EXPECT_EQ(size_text(8U << 20), "8M");
  EXPECT_EQ(size_text((8U << 20) + 3), "8388611");
  EXPECT_EQ(size_text(1ULL << 62), "4194304T");
}

TEST(ParseInteger, ReadsTheWholeRangeAndNothingElse) {
  EXPECT_EQ(*parse_integer("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(*parse_integer(" 9223372036854775807 "), std::numeric_limits<std::int64_t>::max());
  for (const std::string text : {"", "-", "1.0", "1k", "0x1", "9223372036854775808", "--1", "1 2"}) {
    ASSERT_FALSE(parse_integer(text)) << text;
    EXPECT_EQ(parse_integer(text).failure().sentence, "'" + text + "' is not a whole number");
  }
}

TEST(ParseReal, ReadsNumbersAndPercents) {
  EXPECT_EQ(*parse_real("0.01"), 0.01);
  EXPECT_EQ(*parse_real("1%"), 0.01);
  EXPECT_EQ(*parse_real(" 2.5e-3 "), 0.0025);
  EXPECT_EQ(*parse_real("-3"), -3);
  for (const std::string text : {"", "%", "1%%", "nan", "inf", "-inf", "1e999", "1,5", "one", "0x10"}) {
    EXPECT_FALSE(parse_real(text)) << text;
  }
}

TEST(ParseYesNo, ReadsTheUsualWordsAndRefusesOthers) {
  for (const std::string text : {"yes", "true", "on", "1", " yes "}) EXPECT_TRUE(*parse_yes_no(text)) << text;
  for (const std::string text : {"no", "false", "off", "0"}) EXPECT_FALSE(*parse_yes_no(text)) << text;
  for (const std::string text : {"", "Yes", "2", "maybe", "y"}) EXPECT_FALSE(parse_yes_no(text)) << text;
}

TEST(Trim, TakesBlanksFromBothEndsOnly) {
  EXPECT_EQ(trim("  a b \r\n"), "a b");
  EXPECT_EQ(trim(" \t\r\n"), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Split, KeepsEmptyPartsAndTrimsEach) {
  EXPECT_EQ(split("a, b ,,c", ','), (std::vector<std::string>{"a", "b", "", "c"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
  EXPECT_EQ(split(",", ','), (std::vector<std::string>{"", ""}));
}

TEST(Nearest, IsTheCandidateWithTheFewestSlips) {
  const std::vector<std::string> names = {"grpc", "tcp", "shm", "pipe", "unix", "memcpy"};
  EXPECT_EQ(nearest("tpc", names), "tcp");
  EXPECT_EQ(nearest("pip", names), "pipe");
  EXPECT_EQ(nearest("memcopy", names), "memcpy");
  EXPECT_EQ(nearest("unix", names), "unix");
  EXPECT_EQ(nearest("infiniband", names), "");
  EXPECT_EQ(nearest("rndv", {"env"}), "") << "half of a short word differs";
  EXPECT_EQ(nearest("transprot", {"transport"}), "transport");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest("tcp", {}), "");
  EXPECT_EQ(nearest("zz", {"ab"}), "") << "every letter differs: no slip of the pen";
}

TEST(DidYouMean, SuggestsOrListsWhatThereIs) {
  EXPECT_EQ(did_you_mean("tpc", {"tcp", "shm"}), "; did you mean 'tcp'?");
  EXPECT_EQ(did_you_mean("infiniband", {"tcp", "shm"}), "; there are tcp, shm");
  EXPECT_EQ(did_you_mean("tcp", {}), "");
}

TEST(Counted, IsAWordInTheNumberThatItNeeds) {
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(16, "rank"), "16 ranks");
  EXPECT_EQ(counted(1, "process", "processes"), "1 process");
  EXPECT_EQ(counted(2, "process", "processes"), "2 processes");
}

TEST(Text, OfOthersLosesItsControlCharacters) {
  EXPECT_EQ(without_controls("plain, \u00e9 and \u20ac"), "plain, \u00e9 and \u20ac");
  EXPECT_EQ(without_controls("a\x1b]0;x\x07"), "a?]0;x?");
  EXPECT_EQ(without_controls("a\nb\rc\td"), "a b c d");
  EXPECT_EQ(without_controls("\x7f\xc2\x9b"
                             "31m\xc2\xa9"),
            "??31m\xc2\xa9");
  EXPECT_EQ(without_controls(std::string("\0\xc2", 2)), "?\xc2");
}

}  // namespace
}  // namespace netpipe
