// SPDX-License-Identifier: Apache-2.0
// That every module says how it waits, in one of the words of netpipe/waiting.h, and says what is in force.
#include "netpipe/waiting.h"

#include <gtest/gtest.h>

#include <string>

#include "netpipe/module.h"
#include "two_ranks.h"

namespace {

using namespace two_ranks;

// What one rank says once it is open; nobody has to be connected for that.
std::string waits(const std::string& variant, bool oversubscribed) {
  Rank rank(variant, 0, -1);
  rank.context.oversubscribed = oversubscribed ? 1 : 0;
  if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
  return rank.settings()["wait"];
}

class EveryModuleOfTwo : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Waiting, EveryModuleOfTwo, testing::Values("shm", "pipe", "unix", "tcp"));

TEST_P(EveryModuleOfTwo, SaysWhatWasChosen) {
  const std::string variant = std::string(GetParam()) + ":wait=";
  for (const char* word : {"block", "poll", "hybrid"}) EXPECT_EQ(word, waits(variant + word, false));
}

TEST_P(EveryModuleOfTwo, SaysThatItYieldsWhereItWouldPollAndRanksShareAProcessor) {
  const std::string variant = std::string(GetParam()) + ":wait=";
  EXPECT_EQ("yield", waits(variant + "poll", true));
  for (const char* word : {"block", "hybrid"}) EXPECT_EQ(word, waits(variant + word, true));
}

TEST(Waiting, TheChoicesAreTheFirstWords) {
  EXPECT_STREQ(NP_WAIT_CHOICES, (std::string(np_waiting_word(NP_WAIT_BLOCK)) + "|" + np_waiting_word(NP_WAIT_POLL) +
                                 "|" + np_waiting_word(NP_WAIT_HYBRID))
                                    .c_str());
}

TEST(Waiting, AModuleOfOneProcessNeverWaits) {
  for (const char* variant : {"null", "memcpy", "memcpy:op=fill"}) EXPECT_EQ("none", waits(variant, true)) << variant;
}

}  // namespace
