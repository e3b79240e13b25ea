// SPDX-License-Identifier: Apache-2.0
// udp: what is cut arrives whole under every way to cut, to wait and to read; and what is lost is found out although
// its sender does something else by then.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
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
  std::string wrong = bounce(rank, {1, 1000, 5000});  // and the next messages are as before
  rank.meet();                                        // neither closes while the other may still have to hear of it
  return wrong;
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

// ------------------------------------------------------------------------------------------------------ in flight

// By wait, or by test again and again.
np_status finish(Rank& rank, np_request& request, bool by_test) {
  if (!by_test) return rank.wait(request);
  for (;;) {
    const np_status s = rank.module->test(rank.endpoint, &request);
    if (s != NP_PENDING) return s;
  }
}

// Messages of several datagrams each way at once, whose receives are ended in another order than they were started in.
std::string in_flight(Rank& rank, const std::vector<size_t>& sizes, bool by_test) {
  constexpr size_t kMessages = 6;
  for (const size_t bytes : sizes) {
    std::array<Bytes, kMessages> sent, got;
    std::array<np_request, kMessages> receives{}, sends{};
    for (size_t i = 0; i < kMessages; ++i) {
      sent[i] = pattern(bytes, i);
      got[i].resize(bytes);
      if (const np_status s = rank.irecv(got[i], receives[i]); s != NP_OK) return failed(rank, "irecv", s);
    }
    for (size_t i = 0; i < kMessages; ++i) {
      if (const np_status s = rank.isend(sent[i], sends[i]); s != NP_OK) return failed(rank, "isend", s);
    }
    for (const size_t i : {size_t{2}, size_t{0}, size_t{5}, size_t{1}, size_t{4}, size_t{3}}) {
      if (const np_status s = finish(rank, receives[i], by_test); s != NP_OK) return failed(rank, "receiving", s);
      if (const np_status s = finish(rank, sends[i], by_test); s != NP_OK) return failed(rank, "sending", s);
    }
    for (size_t i = 0; i < kMessages; ++i) {
      if (std::string wrong = expect_same(got[i], sent[i], "message " + std::to_string(i)); !wrong.empty()) {
        return wrong;
      }
    }
    if (std::string wrong = bounce(rank, {bytes}); !wrong.empty()) return wrong;
  }
  return "";
}

TEST_P(EveryUdpVariant, EndsReceivesInFlightInAnyOrder) {
  const std::vector<size_t> sizes = {0, 8, 1024, 1449, 5000};
  for (const bool by_test : {false, true}) {
    EXPECT_EQ("", run_connected(GetParam(), [&](Rank& rank) { return in_flight(rank, sizes, by_test); }).both());
  }
}

// A receive that was started is ended before another one, which has no request.
std::string receive_behind(Rank& rank) {
  const Bytes first = pattern(5000, 1), second = pattern(8, 2);
  if (rank.context.rank == 0) {
    if (const np_status s = rank.send(first.data(), first.size()); s != NP_OK) return failed(rank, "send", s);
    if (const np_status s = rank.send(second.data(), second.size()); s != NP_OK) return failed(rank, "send", s);
    rank.meet();
    return "";
  }
  Bytes started(first.size()), plain(second.size());
  np_request request{};
  if (const np_status s = rank.irecv(started, request); s != NP_OK) return failed(rank, "irecv", s);
  if (const np_status s = rank.recv(plain.data(), plain.size()); s != NP_OK) return failed(rank, "recv", s);
  if (const np_status s = rank.wait(request); s != NP_OK) return failed(rank, "wait", s);
  rank.meet();
  const std::string wrong = expect_same(plain, second, "the second message");
  return wrong.empty() ? expect_same(started, first, "the first message") : wrong;
}

TEST(UdpRequests, KeepTheOrderOfTheirSender) { EXPECT_EQ("", run_connected("udp", receive_behind).both()); }

// As overrun(). One wait for some of them says that one was lost, and ends all.
std::string overrun_in_flight(Rank& rank, size_t bytes, bool by_test) {
  constexpr size_t kMessages = 300, kTogether = 30;
  std::vector<Bytes> data(kMessages);
  std::vector<np_request> requests(kMessages);
  if (rank.context.rank == 0) {
    for (size_t i = 0; i < kMessages; ++i) {
      data[i] = pattern(bytes, i);
      if (const np_status s = rank.isend(data[i], requests[i]); s != NP_OK) return failed(rank, "isend", s);
    }
    rank.meet();
    rank.meet();
  } else {
    rank.meet();
    for (size_t i = 0; i < kMessages; ++i) {
      data[i].resize(bytes);
      if (const np_status s = rank.irecv(data[i], requests[i]); s != NP_OK) return failed(rank, "irecv", s);
    }
    int whole = 0, lost = 0;
    const auto received = [&](size_t i, np_status s) -> std::string {
      if (s != NP_OK && s != NP_LOST) return failed(rank, "receiving", s);
      ++(s == NP_OK ? whole : lost);
      return s == NP_LOST ? "" : expect_same(data[i], pattern(bytes, i), "message " + std::to_string(i));
    };
    for (size_t i = 0; i + kTogether < kMessages; ++i) {
      if (std::string wrong = received(i, finish(rank, requests[i], by_test)); !wrong.empty()) return wrong;
    }
    // The buffer was full long before them. Some arrive all the same where a busy kernel hands them over late, so each
    // is asked for again.
    np_request* const rest = &requests[kMessages - kTogether];
    const np_status together = rank.module->wait(rank.endpoint, rest, kTogether);
    if (together != NP_LOST) return failed(rank, "waiting for the last", together);
    for (size_t i = kMessages - kTogether; i < kMessages; ++i) {
      if (std::string wrong = received(i, rank.wait(requests[i])); !wrong.empty()) return wrong;
    }
    if (whole == 0 || lost == 0) return std::to_string(whole) + " arrived and " + std::to_string(lost) + " were lost";
    if (rank.counted()["messages_lost"] != std::to_string(lost)) {
      return "messages_lost is " + rank.counted()["messages_lost"] + " and not " + std::to_string(lost);
    }
    rank.meet();
  }
  std::string wrong = bounce(rank, {1, 1000, 5000});
  rank.meet();
  return wrong;
}

TEST(UdpRequests, AreGivenUpWhereTheirMessageWasLost) {
  for (const char* variant :
       {"udp:rcvbuf=20k", "udp:rcvbuf=20k,wait=poll", "udp:rcvbuf=20k,wait=hybrid", "udp:rcvbuf=20k,gro=yes"}) {
    for (const bool by_test : {false, true}) {
      EXPECT_EQ("", run_connected(variant, [&](Rank& rank) { return overrun_in_flight(rank, 8, by_test); }).both())
          << variant;
    }
  }
}

// ---------------------------------------------------------------------------------------------------- to all at once

np_status prepare(Rank& rank, uint32_t uses) {
  np_visit visit{};
  visit.size = sizeof visit;
  visit.uses = uses;
  return rank.module->np_module::prepare(rank.endpoint, &visit);
}

// Linux gives the loopback no route to IPv6 groups by itself (test_udp_groups.py adds it).
bool has_ipv6_groups_on_loopback() {
  std::ifstream routes("/proc/net/ipv6_route");
  for (std::string line; std::getline(routes, line);) {
    const bool to_groups = line.starts_with("ff000000000000000000000000000000 08 ") && line.ends_with(" lo");
    if (to_groups && line.find(" 80200001 ") != std::string::npos) return true;  // RTF_UP, RTF_LOCAL
  }
  return false;
}

// Both ranks cast, in turn, and messages between them go on as before.
std::string cast_each(Rank& rank, const std::vector<size_t>& sizes) {
  if (const np_status s = prepare(rank, NP_USES_MESSAGES | NP_USES_CAST); s != NP_OK) return failed(rank, "prepare", s);
  rank.meet();
  uint64_t salt = 1;
  for (const size_t bytes : sizes) {
    for (int sender = 0; sender < 2; ++sender) {
      const Bytes sent = pattern(bytes, ++salt);
      Bytes got(bytes);
      if (sender == rank.context.rank) {
        const np_status s = rank.module->cast(rank.endpoint, sent.data(), bytes);
        if (s != NP_OK) return failed(rank, "cast", s);
        continue;
      }
      const np_status s = rank.module->recv_cast(rank.endpoint, sender, got.data(), bytes);
      if (s != NP_OK) return failed(rank, "recv_cast", s);
      const std::string wrong = expect_same(got, sent, "cast of " + std::to_string(bytes));
      if (!wrong.empty()) return wrong;
    }
    if (std::string wrong = bounce(rank, {bytes}); !wrong.empty()) return wrong;
  }
  return rank.counted()["strangers"] == "0" ? "" : "it heard " + rank.counted()["strangers"] + " strangers";
}

TEST_P(EveryUdpVariant, CastsEveryByteOfEverySize) {
  const std::string variant = GetParam();
  const bool no_way = variant.find("ip=6") != std::string::npos && !has_ipv6_groups_on_loopback();
  const auto body = [&](Rank& rank) -> std::string {
    if (!no_way) {
      return cast_each(rank, {0, 1, 8, 1023, 1024, 1025, 1448, 1449, 2897, 65483, 65484, 131072, 300001, 8, 0});
    }
    rank.meet();  // both have connected
    return expect(rank, prepare(rank, NP_USES_CAST), NP_UNSUPPORTED,
                  "add the route: ip -6 route add local ff00::/8 dev lo table local");
  };
  EXPECT_EQ("", run_connected(variant, body).both());
}

// As overrun(): rank 0 is elsewhere when rank 1 finds out.
std::string overrun_casts(Rank& rank, size_t bytes) {
  constexpr int kMessages = 300;
  if (const np_status s = prepare(rank, NP_USES_CAST); s != NP_OK) return failed(rank, "prepare", s);
  rank.meet();
  if (rank.context.rank == 0) {
    for (int i = 0; i < kMessages; ++i) {
      const Bytes data = pattern(bytes, static_cast<uint64_t>(i));
      if (const np_status s = rank.module->cast(rank.endpoint, data.data(), bytes); s != NP_OK) {
        return failed(rank, "cast", s);
      }
    }
    rank.meet();
    rank.meet();
  } else {
    rank.meet();
    int whole = 0, lost = 0;
    for (int i = 0; i < kMessages; ++i) {
      Bytes into(bytes);
      const np_status s = rank.module->recv_cast(rank.endpoint, 0, into.data(), bytes);
      if (s != NP_OK && s != NP_LOST) return failed(rank, "recv_cast", s);
      ++(s == NP_OK ? whole : lost);
      if (s != NP_OK) continue;
      const std::string wrong = expect_same(into, pattern(bytes, static_cast<uint64_t>(i)), "cast");
      if (!wrong.empty()) return wrong;
    }
    if (whole == 0 || lost == 0) return std::to_string(whole) + " arrived and " + std::to_string(lost) + " were lost";
    if (rank.counted()["messages_lost"] != std::to_string(lost)) {
      return "messages_lost is " + rank.counted()["messages_lost"];
    }
    rank.meet();
  }
  std::string wrong = cast_each(rank, {1, 1000, 5000});  // and the next are as before
  rank.meet();                                           // as above
  return wrong;
}

TEST(UdpLoss, OfCastsIsFoundOutAtTheirEnd) {
  for (const char* variant : {"udp:rcvbuf=20k", "udp:rcvbuf=20k,wait=poll", "udp:rcvbuf=20k,gro=yes"}) {
    EXPECT_EQ("", run_connected(variant, [](Rank& rank) { return overrun_casts(rank, 8); }).both()) << variant;
  }
}

TEST(Udp, CastsToTheGroupThatWasGiven) {
  const auto group_of = [](const std::string& options) {
    const Outcome outcome = run_connected("udp" + options, [](Rank& rank) {
      rank.meet();  // the other may still be asking
      return rank.settings()["cast_group"];
    });
    EXPECT_EQ(outcome.said[0], outcome.said[1]);
    return outcome.said[0];
  };
  EXPECT_EQ(group_of("").substr(0, 8), "239.255.");
  EXPECT_EQ(group_of(":cast_group=239.7.8.9"), "239.7.8.9");
  EXPECT_EQ(group_of(":connected=no,multicast=239.1.2.3"), "239.1.2.3");
  EXPECT_EQ(group_of(":connected=no,multicast=239.1.2.3,cast_group=239.7.8.9"), "239.7.8.9");
}

TEST(Udp, TheRangeOfAGroupIsRefusedWhereNoDatagramGoesToOne) {
  const auto body = [](Rank& rank) -> std::string {
    std::string wrong =
        expect(rank, prepare(rank, NP_USES_MESSAGES), NP_UNSUPPORTED, "ttl=3 is of datagrams to a group");
    if (wrong.empty()) wrong = cast_each(rank, {8});
    return wrong;
  };
  EXPECT_EQ("", run_connected("udp:ttl=3", body).both());
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
