// SPDX-License-Identifier: Apache-2.0
#include "catalog/unsupported.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace netpipe {
namespace {

// transport, sndbuf; the defaults are auto and 0.
std::string why(const char* transport_text, const char* sndbuf_text, const std::string& transport,
                const std::string& sndbuf) {
  np_option options[2] = {};
  options[0].name = "transport";
  options[0].unsupported = transport_text;
  options[1].name = "sndbuf";
  options[1].unsupported = sndbuf_text;
  const std::vector<std::string> texts{transport, sndbuf};
  const std::vector<std::string> defaults{"auto", "0"};
  return why_unsupported(options, texts, defaults);
}

TEST(Unsupported, WithoutAConditionNoValueButTheDefaultCanBeTaken) {
  EXPECT_EQ(why("no transport can be chosen", nullptr, "tcp", "0"), "transport=tcp: no transport can be chosen");
  EXPECT_EQ(why("no transport can be chosen", nullptr, "auto", "0"), "");
  EXPECT_EQ(why(nullptr, "", "tcp", "8k"), "");
}

TEST(Unsupported, AConditionNamesValues) {
  const char* const text = "ucx|ucx_tcp: it was built without UCX; ofi: it was built without libfabric";
  EXPECT_EQ(why(text, nullptr, "ucx_tcp", "0"), "transport=ucx_tcp: it was built without UCX");
  EXPECT_EQ(why(text, nullptr, "ofi", "0"), "transport=ofi: it was built without libfabric");
  EXPECT_EQ(why(text, nullptr, "tcp", "0"), "");
}

TEST(Unsupported, AConditionNamesTheValuesOfAnotherOption) {
  const char* const text = "with transport=shm|ucx_shm: there is no socket; 8k with transport=tcp: it hangs";
  EXPECT_EQ(why(nullptr, text, "shm", "8k"), "sndbuf=8k with transport=shm: there is no socket");
  EXPECT_EQ(why(nullptr, text, "shm", "0"), "");
  EXPECT_EQ(why(nullptr, text, "tcp", "16k"), "");
  EXPECT_EQ(why(nullptr, text, "tcp", "8k"), "sndbuf=8k with transport=tcp: it hangs");
  EXPECT_EQ(why(nullptr, "with missing=yes: never", "tcp", "8k"), "");
}

// qps of type NP_INT and eager of type NP_SIZE, beside op and ranks.
std::string why_number(const char* qps_text, const char* eager_text, const std::string& op, const std::string& qps,
                       const std::string& eager, const std::string& ranks) {
  np_option options[4] = {};
  options[0].name = "op";
  options[1].name = "qps";
  options[1].type = NP_INT;
  options[1].unsupported = qps_text;
  options[2].name = "eager";
  options[2].type = NP_SIZE;
  options[2].unsupported = eager_text;
  options[3].name = "ranks";
  options[3].type = NP_INT;
  const std::vector<std::string> texts{op, qps, eager, ranks};
  const std::vector<std::string> defaults{"send", "-1", "0", "2"};
  return why_unsupported(options, texts, defaults);
}

TEST(Unsupported, AConditionNamesNumbersFromOneToAnother) {
  const char* const size = "1..16383: too small; 1M..: too large";
  EXPECT_EQ(why_number(nullptr, size, "send", "-1", "16383", "2"), "eager=16383: too small");
  EXPECT_EQ(why_number(nullptr, size, "send", "-1", "8k", "2"), "eager=8k: too small");
  EXPECT_EQ(why_number(nullptr, size, "send", "-1", "16k", "2"), "");
  EXPECT_EQ(why_number(nullptr, size, "send", "-1", "1M", "2"), "eager=1M: too large");
  EXPECT_EQ(why_number(nullptr, size, "send", "-1", "1G", "2"), "eager=1G: too large");
  const char* const number = "1..: not so many";
  EXPECT_EQ(why_number(number, nullptr, "send", "1", "0", "2"), "qps=1: not so many");
  EXPECT_EQ(why_number(number, nullptr, "send", "0", "0", "2"), "");
  EXPECT_EQ(why_number(number, nullptr, "send", "-2", "0", "2"), "") << "below all of them";
  EXPECT_EQ(why("a..: no word", nullptr, "a", "0"), "") << "of an option that is no number";
}

TEST(Unsupported, AConditionNamesTheValuesOfSeveralOtherOptions) {
  const char* const text = "2.. with op=write|read and ranks=3..: it is for two ranks";
  EXPECT_EQ(why_number(text, nullptr, "write", "2", "0", "4"), "qps=2 with op=write and ranks=4: it is for two ranks");
  EXPECT_EQ(why_number(text, nullptr, "write", "2", "0", "2"), "");
  EXPECT_EQ(why_number(text, nullptr, "send", "2", "0", "4"), "");
  EXPECT_EQ(why_number(text, nullptr, "write", "1", "0", "4"), "");
}

TEST(Unsupported, AReasonMayHaveAColon) {
  EXPECT_EQ(why("not here: install libucx", nullptr, "ucx", "0"), "transport=ucx: not here: install libucx");
  EXPECT_EQ(why(nullptr, "with transport: odd", "shm", "8k"), "sndbuf=8k: with transport: odd");
}

}  // namespace
}  // namespace netpipe
