// SPDX-License-Identifier: Apache-2.0
#include "sampling/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace netpipe {
namespace {

using Sizes = std::vector<std::uint64_t>;

Schedule classic(std::uint64_t start, std::uint64_t end, std::uint64_t perturbation = 3) {
  return {Schedule::Kind::classic, start, end, perturbation, {}};
}
Schedule powers(std::uint64_t start, std::uint64_t end) { return {Schedule::Kind::powers, start, end, 3, {}}; }
Schedule list(Sizes sizes) { return {Schedule::Kind::list, 1, 1, 3, std::move(sizes)}; }

Sizes sizes(const Schedule& schedule) {
  const Result<Sizes> result = sizes_of(schedule);
  return result ? *result : Sizes{};
}

std::string refusal(const Schedule& schedule) {
  const Result<Sizes> result = sizes_of(schedule);
  if (result) return "accepted";
  EXPECT_EQ(result.failure().exit, Exit::usage);
  return result.failure().sentence;
}

bool strictly_ascending(const Sizes& s) {
  return std::adjacent_find(s.begin(), s.end(), std::greater_equal<>()) == s.end();
}

TEST(ClassicSchedule, HasThe124SizesOfNetPipeUpTo8MiB) {
  const Sizes expected = {
      1,       2,       3,       4,       6,       8,       12,      13,      16,      19,      21,      24,
      27,      29,      32,      35,      45,      48,      51,      61,      64,      67,      93,      96,
      99,      125,     128,     131,     189,     192,     195,     253,     256,     259,     381,     384,
      387,     509,     512,     515,     765,     768,     771,     1021,    1024,    1027,    1533,    1536,
      1539,    2045,    2048,    2051,    3069,    3072,    3075,    4093,    4096,    4099,    6141,    6144,
      6147,    8189,    8192,    8195,    12285,   12288,   12291,   16381,   16384,   16387,   24573,   24576,
      24579,   32765,   32768,   32771,   49149,   49152,   49155,   65533,   65536,   65539,   98301,   98304,
      98307,   131069,  131072,  131075,  196605,  196608,  196611,  262141,  262144,  262147,  393213,  393216,
      393219,  524285,  524288,  524291,  786429,  786432,  786435,  1048573, 1048576, 1048579, 1572861, 1572864,
      1572867, 2097149, 2097152, 2097155, 3145725, 3145728, 3145731, 4194301, 4194304, 4194307, 6291453, 6291456,
      6291459, 8388605, 8388608, 8388611};
  ASSERT_EQ(expected.size(), 124U);
  EXPECT_EQ(sizes(Schedule{}), expected);
}

TEST(ClassicSchedule, Has46SizesWithoutPerturbation) {
  const Sizes s = sizes(classic(1, 8U << 20, 0));
  EXPECT_EQ(s.size(), 46U);
  EXPECT_EQ(Sizes(s.begin(), s.begin() + 12), (Sizes{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}));
  EXPECT_EQ(s.back(), 8U << 20);
}

// What NPtcp 3.7.2 wrote into its np.out with -l START -u 20000.
TEST(ClassicSchedule, BeginsWithHalfTheStartAsItsIncrementLikeNetPipe) {
  EXPECT_EQ(sizes(classic(1000, 20000)),
            (Sizes{997,  1000, 1003, 1497, 1500, 1503, 1997, 2000,  2003,  2997,  3000,  3003,  3997, 4000,
                   4003, 5997, 6000, 6003, 7997, 8000, 8003, 11997, 12000, 12003, 15997, 16000, 16003}));
  const Sizes from_64 = sizes(classic(64, 20000));
  EXPECT_EQ(Sizes(from_64.begin(), from_64.begin() + 9), (Sizes{61, 64, 67, 93, 96, 99, 125, 128, 131}));
  EXPECT_EQ(from_64.back(), 16387U);
  EXPECT_EQ(from_64.size(), 51U);
  const Sizes from_2 = sizes(classic(2, 20000));
  EXPECT_EQ(Sizes(from_2.begin(), from_2.begin() + 9), (Sizes{2, 3, 4, 6, 8, 12, 13, 16, 19}));
  const Sizes from_3 = sizes(classic(3, 20000));
  EXPECT_EQ(Sizes(from_3.begin(), from_3.begin() + 9), (Sizes{3, 4, 5, 7, 9, 13, 14, 17, 20}));
  const Sizes from_5 = sizes(classic(5, 20000));
  EXPECT_EQ(Sizes(from_5.begin(), from_5.begin() + 9), (Sizes{5, 7, 9, 13, 14, 17, 20, 22, 25}));
  EXPECT_EQ(from_5.back(), 16388U);
}

TEST(ClassicSchedule, AppliesItsBoundsToTheBaseLengthOnly) {
  EXPECT_EQ(sizes(classic(64, 64)), (Sizes{61, 64, 67}));
  EXPECT_EQ(sizes(classic(64, 95)), (Sizes{61, 64, 67}));
  EXPECT_EQ(sizes(classic(1, 1)), (Sizes{1}));
}

TEST(ClassicSchedule, GoesTo64BitSizesWithoutOverflow) {
  const Sizes to_1_tib = sizes(classic(1, 1ULL << 40));
  EXPECT_EQ(to_1_tib.size(), 124U + 6 * 17);
  EXPECT_EQ(to_1_tib.back(), (1ULL << 40) + 3);
  EXPECT_TRUE(strictly_ascending(to_1_tib));
  const Sizes to_the_end = sizes(classic(1, 1ULL << 62, 0));
  EXPECT_EQ(to_the_end.back(), 1ULL << 62);
  EXPECT_TRUE(strictly_ascending(to_the_end));
  EXPECT_EQ(sizes(classic(1ULL << 62, 1ULL << 62, 0)), (Sizes{1ULL << 62}));
}

TEST(ClassicSchedule, NeverGoesBelowOneByteHoweverLargeThePerturbation) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t start = 1 + (random() >> (random() % 44 + 20));
    const std::uint64_t end = start + (random() >> (random() % 44 + 20));
    const Schedule schedule = classic(start, end, random() >> (random() % 44 + 20));
    const Sizes s = sizes(schedule);
    ASSERT_FALSE(s.empty()) << start << " " << end << " " << schedule.perturbation_bytes;
    ASSERT_GE(s.front(), 1U);
    ASSERT_LE(s.back(), end + schedule.perturbation_bytes);
    ASSERT_TRUE(strictly_ascending(s));
    ASSERT_TRUE(std::binary_search(s.begin(), s.end(), start));
  }
}

TEST(Schedules, ThatStartAtNoBytesHaveAnEmptyMessageAndThenGoOnAsFromOneByte) {
  for (const Schedule::Kind kind : {Schedule::Kind::classic, Schedule::Kind::powers, Schedule::Kind::adaptive}) {
    Sizes expected = sizes({kind, 1, 1000, 3, {}});
    expected.insert(expected.begin(), 0);
    EXPECT_EQ(sizes({kind, 0, 1000, 3, {}}), expected);
    EXPECT_EQ(sizes({kind, 0, 0, 3, {}}), Sizes{0});
  }
  EXPECT_TRUE(is_coarse({Schedule::Kind::adaptive, 0, 1000, 0, {}}, 0));
  EXPECT_EQ(sizes(list({8, 0})), (Sizes{0, 8}));
}

TEST(PowersSchedule, HasThePowersOfTwoBetweenItsBounds) {
  const Sizes to_8_mib = sizes(powers(1, 8U << 20));
  EXPECT_EQ(to_8_mib.size(), 24U);
  EXPECT_EQ(to_8_mib.front(), 1U);
  EXPECT_EQ(to_8_mib.back(), 8U << 20);
  EXPECT_EQ(sizes(powers(3, 20)), (Sizes{4, 8, 16}));
  EXPECT_EQ(sizes(powers(1ULL << 61, 1ULL << 62)), (Sizes{1ULL << 61, 1ULL << 62}));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "no power of two from 5 to 7 bytes", refusal(powers(5, 7)));
}

TEST(ListSchedule, SortsItsSizesAndKeepsWhatIsGivenTwice) {
  EXPECT_EQ(sizes(list({64, 8, 1, 8})), (Sizes{1, 8, 8, 64}));
  EXPECT_EQ(sizes(list({1ULL << 62})), (Sizes{1ULL << 62}));
}

TEST(Schedules, ThatMakeNoSenseAreRefusedWithASentence) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "ends at 8 bytes, below its start at 64k", refusal(classic(65536, 8)));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "ends at 8 bytes, below its start at 64k", refusal(powers(65536, 8)));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "the list is empty", refusal(list({})));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "above 4 EiB", refusal(list({(1ULL << 62) + 1})));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "above 4 EiB", refusal(classic(1, (1ULL << 62) + 1)));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "above 4 EiB", refusal(classic(1, 1ULL << 62)));  // its + 3 is
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "perturbation is above 4 EiB", refusal(classic(1, 8, UINT64_MAX)));
}

TEST(AdaptiveSchedule, HasSixteenSizesToAnOctaveAndBothEnds) {
  const Schedule schedule{Schedule::Kind::adaptive, 3, 1000, 0, {}};
  const Sizes found = sizes(schedule);
  EXPECT_TRUE(strictly_ascending(found));
  EXPECT_EQ(found.front(), 3U);
  EXPECT_EQ(found.back(), 1000U);
  Sizes octaves;
  std::copy_if(found.begin(), found.end(), std::back_inserter(octaves),
               [&](std::uint64_t size) { return is_coarse(schedule, size); });
  EXPECT_EQ(octaves, (Sizes{3, 4, 8, 16, 32, 64, 128, 256, 512, 1000}));
  for (std::size_t i = 1; i < found.size(); ++i) {
    EXPECT_LE(static_cast<double>(found[i]), std::exp2(1.0 / 16) * static_cast<double>(found[i - 1]) + 1);
  }
  EXPECT_EQ(sizes({Schedule::Kind::adaptive, 7, 7, 0, {}}), Sizes{7});
}

TEST(AdaptiveSchedule, OfLessThanAnOctaveGoesToTheByte) {
  const Schedule schedule{Schedule::Kind::adaptive, 3922, 4096, 0, {}};
  const Sizes found = sizes(schedule);
  EXPECT_EQ(found.size(), 175U);  // every byte
  EXPECT_EQ(found.front(), 3922U);
  EXPECT_EQ(found.back(), 4096U);
  EXPECT_EQ(std::count_if(found.begin(), found.end(), [&](std::uint64_t size) { return is_coarse(schedule, size); }),
            9);
  EXPECT_TRUE(is_coarse(schedule, 3922) && is_coarse(schedule, 4096));
  EXPECT_EQ(sizes({Schedule::Kind::adaptive, 5, 8, 0, {}}), (Sizes{5, 6, 7, 8}));

  const Schedule large{Schedule::Kind::adaptive, 1ULL << 61, (1ULL << 62) - 1, 0, {}};
  const Sizes of_large = sizes(large);
  EXPECT_EQ(of_large.size(), 257U);
  EXPECT_TRUE(strictly_ascending(of_large));
  EXPECT_EQ(of_large.back(), (1ULL << 62) - 1);
}

}  // namespace
}  // namespace netpipe
