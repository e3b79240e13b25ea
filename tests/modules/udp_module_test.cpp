// SPDX-License-Identifier: Apache-2.0
// udp: what is cut arrives whole under every way to cut, to wait and to read; and what is lost is found out although
// its sender does something else by then.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "netpipe/module.h"
#include "two_ranks.h"

namespace {

using namespace two_ranks;

const char* const kVariants[] = {
    "udp",
    "udp:wait=poll",
    "udp:wait=hybrid,spin_us=20",
    "udp:connected=no",
    "udp:payload=1472",
    "udp:payload=1472,batch=1",
    "udp:payload=1472,batch=5,connected=no,wait=poll",
    "udp:payload=100",
    "udp:gso=yes",
    "udp:gso=yes,gro=yes",
    "udp:gso=yes,gro=yes,connected=no,payload=9000",
    "udp:gro=yes",
    "udp:reorder=0",
    "udp:rate=20000",
    "udp:ip=6",
};

class EveryUdpVariant : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()).find("ip=6") != std::string::npos && !has_ipv6()) GTEST_SKIP() << "no IPv6 here";
  }
};
INSTANTIATE_TEST_SUITE_P(Udp, EveryUdpVariant, testing::ValuesIn(kVariants),
                         [](const auto& param) { return test_name(param.param); });

// Of one message at a time no buffer drops anything.
TEST_P(EveryUdpVariant, BouncesEveryByteOfEverySize) {
  const std::vector<size_t> sizes = {0,    1,    7,    8,     76,    77,    1000,  1023,  1024,   1025,   1447, 1448,
                                     1449, 2896, 2897, 65482, 65483, 65484, 65535, 65536, 131072, 300001, 8,    0};
  EXPECT_EQ("", run_connected(GetParam(), [&](Rank& rank) { return bounce(rank, sizes); }).both());
}

struct Received {
  int whole = 0, lost = 0;
};
std::string receive(Rank& rank, int messages, size_t bytes, Received& got) {
  for (int i = 0; i < messages; ++i) {
    const Bytes wanted = pattern(bytes, static_cast<uint64_t>(i));
    Bytes into(bytes);
    const np_status s = rank.recv(into.data(), bytes);
    if (s != NP_OK && s != NP_LOST) return failed(rank, "recv", s);
    ++(s == NP_OK ? got.whole : got.lost);
    if (s != NP_OK) continue;
    if (std::string wrong = expect_same(into, wanted, "message " + std::to_string(i)); !wrong.empty()) return wrong;
  }
  return "";
}

// Rank 0 sends more than the buffer of rank 1 holds, and is nowhere in the module when rank 1 begins to receive:
// nothing comes behind the last that arrived, and only the clerk can say that there were more.
std::string overrun(Rank& rank, size_t bytes) {
  constexpr int kMessages = 300;
  if (rank.context.rank == 0) {
    for (int i = 0; i < kMessages; ++i) {
      const Bytes data = pattern(bytes, static_cast<uint64_t>(i));
      if (const np_status s = rank.send(data.data(), bytes); s != NP_OK) return failed(rank, "send", s);
    }
    rank.meet();
    rank.meet();
  } else {
    rank.meet();
    Received got;
    if (std::string wrong = receive(rank, kMessages, bytes, got); !wrong.empty()) return wrong;
    if (got.whole == 0 || got.lost == 0) {
      return std::to_string(got.whole) + " arrived and " + std::to_string(got.lost) + " were lost";
    }
    Texts counted = rank.counted();
    if (counted["messages_lost"] != std::to_string(got.lost)) return "messages_lost is " + counted["messages_lost"];
    // An answer may have been dropped as well.
    if (std::stoi(counted["kernel_drops"]) < std::stoi(counted["datagrams_lost"])) {
      return "kernel_drops is " + counted["kernel_drops"] + " and datagrams_lost " + counted["datagrams_lost"];
    }
    rank.meet();
  }
  return bounce(rank, {1, 1000, 5000});  // and the next messages are as before
}

TEST(UdpLoss, IsFoundOutAtTheEndOfAStream) {
  for (const char* variant :
       {"udp:rcvbuf=20k", "udp:rcvbuf=20k,wait=poll", "udp:rcvbuf=20k,wait=hybrid", "udp:rcvbuf=20k,gro=yes"}) {
    EXPECT_EQ("", run_connected(variant, [](Rank& rank) { return overrun(rank, 8); }).both()) << variant;
  }
}

TEST(UdpLoss, OfAPartIsLossOfTheWhole) {
  const char* const variant = "udp:rcvbuf=100k,payload=1000";
  EXPECT_EQ("", run_connected(variant, [](Rank& rank) { return overrun(rank, 3000); }).both());
}

TEST(Udp, AReceiveThatIsGivenUpReturnsAtOnce) {
  const auto body = [](Rank& rank) -> std::string {
    if (rank.context.rank == 0) {
      rank.meet();
      return "";
    }
    abort_flag = 1;
    char byte = 0;
    std::string wrong = expect(rank, rank.recv(&byte, 1), NP_ABORTED, "gave up message 0 of rank 0");
    rank.meet();
    return wrong;
  };
  for (const char* variant : {"udp", "udp:wait=poll", "udp:wait=hybrid"}) {
    EXPECT_EQ("", run_connected(variant, body).both()) << variant;
  }
}

TEST(Udp, NobodyAnswers) {
  const auto body = [](int number, int control) -> std::string {
    Rank rank("udp", number, control);
    rank.context.timeout_ns = 300'000'000;
    if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
    return wait_for_nobody(rank, "no answer from rank 0 at 127.0.0.1 port");
  };
  EXPECT_EQ("", run_ranks(body).both());
}

}  // namespace
