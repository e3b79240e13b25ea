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

TEST(Unsupported, AReasonMayHaveAColon) {
  EXPECT_EQ(why("not here: install libucx", nullptr, "ucx", "0"), "transport=ucx: not here: install libucx");
  EXPECT_EQ(why(nullptr, "with transport: odd", "shm", "8k"), "sndbuf=8k: with transport: odd");
}

}  // namespace
}  // namespace netpipe
