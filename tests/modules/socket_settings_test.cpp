// SPDX-License-Identifier: Apache-2.0
// pipe, unix and tcp: that settings reach the kernel, that what cannot be is refused with a sentence, and that only the
// other rank gets in.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <chrono>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "modules/tcp/tcp_ledger.h"
#include "netpipe/module.h"
#include "two_ranks.h"

namespace {

using namespace two_ranks;

// What rank 0 says of a setting once it is connected, or why it could not be connected.
std::string setting(const std::string& variant, const std::string& name, const std::string& address = "127.0.0.1") {
  const auto tell = [&](Rank& rank) { return rank.context.rank == 0 ? rank.settings()[name] : ""; };
  return run_connected(variant, tell, address).said[0];
}

std::string refusal(const std::string& variant, int number, np_status wanted, const char* words,
                    const std::string& address = "127.0.0.1") {
  Rank rank(variant, number, -1, address);
  return expect(rank, rank.open(), wanted, words);
}

// A TCP connection of nobody that the module knows.
int stranger(uint16_t port, const Bytes& says) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(port);
  if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) return -1;
  if (!says.empty() && send(fd, says.data(), says.size(), MSG_NOSIGNAL) < 0) return -1;
  return fd;
}

// What rank 0 would say first, but for the proof: 32 bytes of it, a generation of 0, rank 0, lane 0.
Bytes false_hello(uint64_t salt) {
  Bytes said = pattern(41, salt);
  std::fill(said.begin() + 32, said.end(), 0);
  return said;
}

// A port that was free a moment ago.
uint16_t free_port(int& holder) {
  holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof at;
  if (holder < 0 || bind(holder, reinterpret_cast<sockaddr*>(&at), bytes) != 0) return 0;
  getsockname(holder, reinterpret_cast<sockaddr*>(&at), &bytes);
  return ntohs(at.sin_port);
}

TEST(Tcp, SettingsReachTheKernel) {
  EXPECT_EQ("yes", setting("tcp", "nodelay"));
  EXPECT_EQ("no", setting("tcp:nodelay=no", "nodelay"));
  EXPECT_EQ("reno", setting("tcp:congestion=reno", "congestion"));
  EXPECT_EQ("131072", setting("tcp:sndbuf=64k", "sndbuf_kernel_bytes"));  // socket(7): the kernel doubles it
  EXPECT_EQ("131072", setting("tcp:rcvbuf=64k", "rcvbuf_kernel_bytes"));
  EXPECT_EQ("no", setting("tcp:rcvbuf=64k", "rcvbuf_autotuned"));
  EXPECT_EQ("yes", setting("tcp", "rcvbuf_autotuned"));
  EXPECT_EQ("7", setting("tcp:streams=7", "streams"));
  EXPECT_EQ("poll", setting("tcp:wait=poll", "wait"));
  EXPECT_EQ("lo", setting("tcp", "interface"));
  EXPECT_LE(std::stoi(setting("tcp:mss=1000", "snd_mss_bytes")), 1000);
}

TEST(Tcp, RankOneHasTheSameSettingsOnWhatItAccepts) {
  const auto tell = [](Rank& rank) {
    Texts s = rank.settings();
    return s["nodelay"] + " " + s["congestion"] + " " + s["sndbuf_kernel_bytes"] + " " + s["rcvbuf_kernel_bytes"];
  };
  const Outcome outcome = run_connected("tcp:congestion=reno,sndbuf=64k,rcvbuf=128k", tell);
  EXPECT_EQ("yes reno 131072 262144", outcome.said[0]);
  EXPECT_EQ("yes reno 131072 262144", outcome.said[1]);
}

TEST(Tcp, SpeaksBothVersionsOfIp) {
  EXPECT_EQ("4", setting("tcp", "ip"));
  EXPECT_EQ("4", setting("tcp", "ip", "::ffff:127.0.0.1"));
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 here";
  EXPECT_EQ("6", setting("tcp", "ip", "::1"));
  EXPECT_EQ("6", setting("tcp:ip=6", "ip"));
  EXPECT_EQ("4", setting("tcp:ip=4", "ip", "::1"));
}

TEST(Tcp, WhatCannotBeIsRefusedOnBothRanksBeforeAnyoneWaits) {
  for (const int rank : {0, 1}) {
    EXPECT_EQ("", refusal("tcp:congestion=nosuch", rank, NP_UNAVAILABLE, "this kernel has: "));
    EXPECT_EQ("", refusal("tcp:mss=1", rank, NP_USAGE, "mss=1"));
    EXPECT_EQ("", refusal("tcp", rank, NP_USAGE, "not a numeric IP address", "localhost"));
    EXPECT_EQ("", refusal("tcp", rank, NP_USAGE, "no rank can connect to", "0.0.0.0"));
    EXPECT_EQ("", refusal("tcp", rank, NP_USAGE, "no rank can connect to", "::"));
    EXPECT_EQ("",
              refusal("tcp:ip=6", rank, NP_USAGE, "ip=6, but the ranks reach each other at 192.0.2.1", "192.0.2.1"));
  }
}

TEST(Tcp, APortInUseIsNamed) {
  int holder = -1;
  const uint16_t port = free_port(holder);
  ASSERT_GE(holder, 0);
  ASSERT_EQ(0, listen(holder, 1));
  const std::string words = "127.0.0.1 port " + std::to_string(port) + ": Address already in use; give another port";
  EXPECT_EQ("", refusal("tcp:port=" + std::to_string(port), 1, NP_UNAVAILABLE, words.c_str()));
  close(holder);
  EXPECT_EQ("127.0.0.1 port " + std::to_string(port), setting("tcp:port=" + std::to_string(port), "peer"));
}

TEST(Tcp, MultipathTcpSaysThatItFellBack) {
  const auto body = [](int number, int control) -> std::string {
    Rank rank(number == 0 ? "tcp:protocol=mptcp" : "tcp", number, control);
    if (const np_status s = rank.open(); s != NP_OK) return s == NP_UNAVAILABLE ? "skip" : failed(rank, "open", s);
    if (const np_status s = rank.connect(); s != NP_OK) return failed(rank, "connect", s);
    if (number == 0 && rank.settings()["mptcp_fell_back"] != "yes") return "it does not say so";
    return bounce(rank, {1, 100'000});
  };
  const Outcome outcome = run_ranks(body);
  if (outcome.said[0] == "skip") GTEST_SKIP() << "no Multipath TCP here";
  EXPECT_EQ("", outcome.both());
}

// As containers do, for this process and for good.
bool forbid_io_uring() {
  sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{static_cast<unsigned short>(std::size(steps)), steps};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(Tcp, WhereIoUringIsForbiddenThatIsSaid) {
  for (const char* variant : {"tcp:path=uring", "tcp:path=uring_zc,wait=poll"}) {
    const auto body = [variant](int number, int control) -> std::string {
      if (!forbid_io_uring()) return "no filter";
      Rank rank(variant, number, control);
      return expect(rank, rank.open(), NP_UNAVAILABLE, "kernel.io_uring_disabled, or the filter of a container");
    };
    EXPECT_EQ("", run_ranks(body).both());
  }
}

TEST(TcpLedger, ASendHasSettledWhenAllBeforeItHave) {
  netpipe::tcp::Ledger ledger;
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(i, ledger.issue());
  EXPECT_TRUE(ledger.settled(0));
  ledger.settle(1);
  ledger.settle(3);
  EXPECT_FALSE(ledger.settled(1));
  ledger.settle(0);
  EXPECT_TRUE(ledger.settled(2));
  EXPECT_FALSE(ledger.settled(3));
  ledger.settle(4);  // nobody sent it
  ledger.settle(2);
  EXPECT_TRUE(ledger.settled(4));
  EXPECT_TRUE(ledger.empty());
  EXPECT_FALSE(ledger.settled(5));
}

TEST(TcpLedger, IsFullUntilTheOldestSettles) {
  netpipe::tcp::Ledger ledger;
  while (!ledger.full()) ledger.issue();
  EXPECT_EQ(netpipe::tcp::Ledger::kMost, ledger.issued());
  ledger.settle(1);
  EXPECT_TRUE(ledger.full());
  ledger.settle(0);
  EXPECT_FALSE(ledger.full());
  ledger.issue();
  ledger.issue();
  EXPECT_TRUE(ledger.full());
  ledger.settle(netpipe::tcp::Ledger::kMost);  // not those that had its place before
  EXPECT_FALSE(ledger.settled(3));
}

// What was sent has to arrive as it was then: the kernel may still read from the buffer after its call has returned.
TEST(Tcp, ASenderMayWriteToItsBufferWhenSendReturns) {
  for (const char* variant : {"tcp", "tcp:path=zerocopy", "tcp:path=zerocopy,zerocopy_min=1", "tcp:path=uring",
                              "tcp:path=uring_zc,zerocopy_min=1", "tcp:path=uring_zc,wait=poll", "tcp:wait=sigio"}) {
    const auto body = [](Rank& rank) -> std::string {
      constexpr size_t kBytes = 100'000, kMessages = 50;
      Bytes room(kBytes);
      for (uint64_t i = 0; i < kMessages; ++i) {
        const Bytes wanted = pattern(kBytes, i);
        if (rank.context.rank == 0) {
          room = wanted;
          np_request request{};
          np_status s = i % 2 == 0 ? rank.send(room.data(), kBytes) : rank.isend(room, request);
          if (s == NP_OK && i % 2 != 0) s = rank.wait(request);
          if (s != NP_OK) return failed(rank, "send", s);
          std::fill(room.begin(), room.end(), 0xee);
        } else {
          if (i % 10 == 0) usleep(2'000);
          if (const np_status s = rank.recv(room.data(), kBytes); s != NP_OK) return failed(rank, "recv", s);
          if (std::string wrong = expect_same(room, wanted, "message"); !wrong.empty()) return wrong;
        }
      }
      return "";
    };
    EXPECT_EQ("", run_connected(variant, body).both()) << variant;
  }
}

TEST(Tcp, BothEndsNeedAsManyRails) {
  const auto body = [](int number, int control) -> std::string {
    Rank rank(number == 0 ? "tcp:rails=127.0.0.1+127.0.0.2" : "tcp:rails=127.0.0.1", number, control);
    if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
    const char* words = number == 0 ? "rank 1 has 1 rail and rank 0 has 2" : "rank 0 has 2 rails and rank 1 has 1";
    return expect(rank, rank.connect(), NP_USAGE, words);
  };
  EXPECT_EQ("", run_ranks(body).both());
}

TEST(Tcp, RailsNeedOneVersionOfIpAtBothEnds) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 here";
  const auto body = [](int number, int control) -> std::string {
    Rank rank(number == 0 ? "tcp:rails=::1" : "tcp:rails=127.0.0.1", number, control);
    if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
    return expect(rank, rank.connect(), NP_USAGE, "both need addresses of one IP version");
  };
  EXPECT_EQ("", run_ranks(body).both());
}

// A stream that says it belongs to one rail and comes by another would not be where it is said to be.
TEST(Tcp, EachStreamComesByItsOwnRail) {
  const auto body = [](Rank& rank) -> std::string {
    const Texts said = rank.settings();
    for (const int i : {1, 2}) {
      const std::string own = said.at("rail_" + std::to_string(i) + "_local");
      const std::string wanted = "127.0.0." + std::to_string(i) + " port ";
      if (!own.starts_with(wanted)) return own + " instead of " + wanted;
    }
    return "";
  };
  EXPECT_EQ("", run_connected("tcp:rails=127.0.0.1+127.0.0.2,streams=4", body).both());
}

TEST(Tcp, StrangersAtThePortChangeNothing) {
  int holder = -1;
  const uint16_t port = free_port(holder);
  close(holder);
  const auto body = [port](int number, int control) -> std::string {
    Rank rank("tcp:streams=3,port=" + std::to_string(port), number, control);
    if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
    rank.meet();  // rank 1 listens
    std::vector<int> strangers;
    if (number == 0) {  // they all stand before rank 0 in the queue
      strangers.push_back(stranger(port, {}));
      strangers.push_back(stranger(port, pattern(5, 1)));
      for (uint64_t salt = 0; salt < 20; ++salt) strangers.push_back(stranger(port, false_hello(salt)));
      strangers.push_back(stranger(port, pattern(100'000, 2)));
      const int gone = stranger(port, {});
      close(gone);
      if (std::count(strangers.begin(), strangers.end(), -1) > 0) return "a stranger could not even connect";
    }
    if (const np_status s = rank.connect(); s != NP_OK) return failed(rank, "connect", s);
    if (std::string wrong = bounce(rank, {1, 500'000}); !wrong.empty()) return wrong;
    rank.meet();
    for (size_t i = 2; i < strangers.size(); ++i) {  // those that said enough to be judged were turned away
      pollfd ready = {strangers[i], POLLIN, 0};
      char byte = 0;
      if (poll(&ready, 1, 5000) != 1 || recv(strangers[i], &byte, 1, MSG_DONTWAIT) > 0) return "a stranger was let in";
    }
    for (const int fd : strangers) close(fd);
    return "";
  };
  EXPECT_EQ("", run_ranks(body).both());
}

TEST(Tcp, ASilentStrangerIsDroppedWhileTheRealOneIsAwaited) {
  int holder = -1;
  const uint16_t port = free_port(holder);
  close(holder);
  const auto body = [port](Rank& rank) -> std::string {
    if (rank.context.rank == 0) {
      const int silent = stranger(port, {});
      pollfd ready = {silent, POLLIN, 0};
      if (poll(&ready, 1, 8000) != 1) return "the silent stranger was not dropped";
      close(silent);
    }
    if (const np_status s = rank.module->reset(rank.endpoint); s != NP_OK) return failed(rank, "reset", s);
    return bounce(rank, {1, 5000});
  };
  EXPECT_EQ("", run_connected("tcp:port=" + std::to_string(port), body).both());
}

TEST(Tcp, AConnectionThatCameForAnEarlierResetIsAStranger) {
  const auto body = [](Rank& rank) -> std::string {
    const int64_t patience = rank.context.timeout_ns;
    if (rank.context.rank == 0) {
      rank.context.timeout_ns = 100'000'000;  // nobody welcomes it
      const np_status s = rank.module->reset(rank.endpoint);
      if (std::string wrong = expect(rank, s, NP_FAILED, "is rank 1 alive"); !wrong.empty()) return wrong;
    }
    rank.meet();
    if (rank.context.rank == 1) {
      rank.context.timeout_ns = 0;  // gives up before it takes what waits
      const np_status s = rank.module->reset(rank.endpoint);
      if (std::string wrong = expect(rank, s, NP_FAILED, "is rank 0 alive"); !wrong.empty()) return wrong;
    }
    rank.context.timeout_ns = patience;
    if (const np_status s = rank.module->reset(rank.endpoint); s != NP_OK) return failed(rank, "reset", s);
    return bounce(rank, {1, 5000});
  };
  EXPECT_EQ("", run_connected("tcp", body).both());
}

TEST(Tcp, ResetsAgainAndAgain) {
  const auto body = [](Rank& rank) -> std::string {
    const std::string before = rank.settings()["local"];
    for (int i = 0; i < 200; ++i) {
      if (const np_status s = rank.module->reset(rank.endpoint); s != NP_OK) return failed(rank, "reset", s);
      if (std::string wrong = bounce(rank, {1, 20'000}); !wrong.empty()) return wrong;
    }
    if (rank.context.rank == 0 && rank.settings()["local"] == before) return "it is still the same connection";
    Texts counted = rank.counted();
    if (counted["connections"] != "402") return "it counts " + counted["connections"] + " connections";
    return std::stoll(counted["bytes_sent"]) < 200 * 20'001 ? "closed connections are not counted" : "";
  };
  EXPECT_EQ("", run_connected("tcp:streams=2", body).both());
}

np_status prepare(const Rank& rank, size_t bytes) {
  np_visit visit{};
  visit.size = sizeof visit;
  visit.bytes = bytes;
  return rank.module->prepare(rank.endpoint, &visit);
}

TEST(Tcp, WithOneConnectionThatIsKeptNothingListens) {
  const auto body = [](Rank& rank) -> std::string {
    const std::string before = rank.settings()["local"];
    if (const np_status s = rank.module->reset(rank.endpoint); s != NP_OK) return failed(rank, "reset", s);
    if (rank.settings()["local"] != before) return "it is another connection";
    if (const np_status s = prepare(rank, 1 << 20); s != NP_OK) return failed(rank, "prepare", s);
    if (rank.settings()["local"] != before) return "it is another connection for another size";
    rank.meet();  // rank 1 has come back from connect
    if (rank.context.rank == 0) {
      const std::string peer = rank.settings()["peer"];
      const int fd = stranger(static_cast<uint16_t>(std::stoi(peer.substr(peer.rfind(' ')))), {});
      if (fd >= 0) return "somebody still listens";
    }
    return bounce(rank, {1, 20'000});
  };
  EXPECT_EQ("", run_connected("tcp:reopen=no,connections=one", body).both());
}

TEST(Tcp, SizesHaveConnectionsOfTheirOwn) {
  const auto body = [](Rank& rank) -> std::string {
    std::set<std::string> seen;
    for (const size_t bytes :
         {size_t{1}, size_t{4096}, size_t{4097}, size_t{1} << 20, (size_t{1} << 20) - 3, size_t{8}}) {
      if (const np_status s = prepare(rank, bytes); s != NP_OK) return failed(rank, "prepare", s);
      seen.insert(rank.settings()["local"] + rank.settings()["peer"]);
      if (std::string said = bounce(rank, {bytes}); !said.empty()) return said;
    }
    if (seen.size() != 3) return std::to_string(seen.size()) + " connections";
    const std::string counted = rank.counted()["connections"];
    return counted == "3" ? "" : "it counts " + counted;
  };
  EXPECT_EQ("", run_connected("tcp", body).both());
}

TEST(Tcp, CountsHowItWaitedOverTheConnectionsOfAllSizes) {
  const auto body = [](Rank& rank) -> std::string {
    if (rank.context.rank == 0) usleep(50'000);  // meanwhile rank 1 looks
    if (std::string said = bounce(rank, {8}); !said.empty()) return said;
    const int64_t before = std::stoll(rank.counted()["empty_polls"]);
    if (rank.context.rank == 1 && before == 0) return "it counts no looks";
    if (const np_status s = prepare(rank, 1 << 20); s != NP_OK) return failed(rank, "prepare", s);
    const int64_t after = std::stoll(rank.counted()["empty_polls"]);
    return after >= before ? "" : std::to_string(before) + " looks became " + std::to_string(after);
  };
  EXPECT_EQ("", run_connected("tcp:wait=poll", body).both());
}

TEST(Unix, SettingsReachTheKernel) {
  EXPECT_EQ("131072", setting("unix:sndbuf=64k", "sndbuf_kernel_bytes"));
  EXPECT_EQ("131072", setting("unix:rcvbuf=64k", "rcvbuf_kernel_bytes"));
  EXPECT_EQ("seqpacket", setting("unix:type=seqpacket", "type"));
  EXPECT_EQ("5000", setting("unix:type=seqpacket,packet=5000", "packet_bytes"));
  EXPECT_EQ("16352", setting("unix:type=seqpacket,sndbuf=8k", "packet_bytes"));  // what the kernel gave, less 32
}

TEST(Unix, APacketThatTheBufferCannotHoldIsRefused) {
  const std::string said = setting("unix:type=seqpacket,sndbuf=8k,packet=64k", "type");
  EXPECT_NE(std::string::npos,
            said.find("packet=65536 does not fit the send buffer, which takes packets of 16352 bytes"))
      << said;
}

// Takes all descriptors that a process may still have.
std::vector<int> take_all_descriptors() {
  std::vector<int> taken;
  for (int fd = dup(0); fd >= 0; fd = dup(0)) taken.push_back(fd);
  return taken;
}

TEST(Pipe, ARankWithoutDescriptorsForThePipesSaysSoAndKeepsNone) {
  const auto body = [](int number, int control) -> std::string {
    Rank rank("pipe", number, control);
    if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
    if (number == 0) {
      const np_status status = rank.connect();
      rank.meet();
      return status == NP_OK ? "" : failed(rank, "connect", status);
    }
    const rlimit few{256, 256};  // poll(2) wants as many as it is given to look at
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) return "no limit";
    close(take_all_descriptors().back());
    // Room for the connection; then the listening socket closes, so one of the two pipes finds room and the other not.
    const np_status status = rank.connect();
    std::string wrong = expect(rank, status, NP_FAILED, "no file descriptors are left");
    rank.close();
    const size_t free = take_all_descriptors().size();  // those of the listening socket and the connection
    if (wrong.empty() && free != 2) wrong = std::to_string(free) + " descriptors are free";
    rank.meet();
    return wrong;
  };
  EXPECT_EQ("", run_ranks(body).both());
}

TEST(Pipe, CapacityReachesTheKernel) {
  EXPECT_EQ(std::to_string(sysconf(_SC_PAGESIZE)), setting("pipe:capacity=1", "capacity_kernel_bytes"));
  EXPECT_EQ("131072", setting("pipe:capacity=100k", "capacity_kernel_bytes"));  // fcntl(2): rounded up
}

// What listens for unix and pipe has a name that everybody can read in /proc/net/unix.
TEST(LocalMeeting, AStrangerThatKnowsTheNameIsTurnedAway) {
  for (const char* variant : {"unix", "unix:type=seqpacket", "pipe"}) {
    const bool packets = std::string(variant).find("seqpacket") != std::string::npos;
    const auto body = [variant, packets](int number, int control) -> std::string {
      Rank rank(variant, number, control);
      if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
      Bytes name(512);
      size_t bytes = name.size();
      if (const np_status s = rank.module->address(rank.endpoint, name.data(), &bytes); s != NP_OK)
        return failed(rank, "address", s);
      name.resize(bytes);
      name = rank.exchange(name);
      int intruder = -1;
      if (number == 0) {
        sockaddr_un at{};
        at.sun_family = AF_UNIX;
        std::memcpy(at.sun_path, name.data(), name.size());
        intruder = socket(AF_UNIX, (packets ? SOCK_SEQPACKET : SOCK_STREAM) | SOCK_CLOEXEC, 0);
        const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
        if (intruder < 0 || connect(intruder, reinterpret_cast<sockaddr*>(&at), length) != 0)
          return "the stranger could not even connect";
        if (send(intruder, false_hello(3).data(), 41, MSG_NOSIGNAL) != 41) return "the stranger could not speak";
      }
      if (const np_status s = rank.connect(); s != NP_OK) return failed(rank, "connect", s);
      if (std::string wrong = bounce(rank, {1, 100'000}); !wrong.empty()) return wrong;
      char byte = 0;
      if (number == 0 && recv(intruder, &byte, 1, MSG_DONTWAIT) > 0) return "the stranger was let in";
      if (intruder >= 0) close(intruder);
      return "";
    };
    EXPECT_EQ("", run_ranks(body).both()) << variant;
  }
}

TEST(LocalMeeting, AnotherUserIsTurnedAwayEvenWithTheProof) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  for (const char* variant : {"unix", "pipe"}) {
    const auto body = [variant](int number, int control) -> std::string {
      Rank rank(variant, number, control);
      rank.context.timeout_ns = 1'500'000'000;
      if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
      if (number == 0 && seteuid(65534) != 0) return "seteuid";
      const np_status status = rank.connect();
      // "refused" it, or "closed" it, when that was seen while the proof was being sent.
      if (number == 0) return expect(rank, status, NP_PEER_LOST, "d the connection");
      return expect(rank, status, NP_FAILED, "is rank 0 alive");
    };
    EXPECT_EQ("", run_ranks(body).both()) << variant;
  }
}

// Both ranks look at memory alone meanwhile, so only the signal's handler can move the rest of a message that is longer
// than the buffers of both sockets.
TEST(Tcp, WaitSigioMovesBytesWhileTheRankDoesSomethingElse) {
  const auto body = [](Rank& rank) -> std::string {
    constexpr size_t kBytes = 8U << 20U;
    const auto me = static_cast<uint64_t>(rank.context.rank);
    const Bytes out = pattern(kBytes, me), wanted = pattern(kBytes, 1 - me);
    Bytes in(kBytes);
    in.back() = static_cast<unsigned char>(~wanted.back());
    np_request sending{}, receiving{};
    if (const np_status s = rank.irecv(in, receiving); s != NP_OK) return failed(rank, "irecv", s);
    if (const np_status s = rank.isend(out, sending); s != NP_OK) return failed(rank, "isend", s);
    const volatile unsigned char& last = in.back();
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (last != wanted.back()) {
      if (std::chrono::steady_clock::now() > give_up) return "nothing moved meanwhile";
    }
    for (np_request* request : {&sending, &receiving}) {
      if (const np_status s = rank.wait(*request); s != NP_OK) return failed(rank, "wait", s);
    }
    return expect_same(in, wanted, "what came");
  };
  EXPECT_EQ("", run_connected("tcp:wait=sigio,sndbuf=64k,rcvbuf=64k", body).both());
  EXPECT_EQ("", run_connected("tcp:wait=sigio,streams=3,stripe=1000", body).both());
}

}  // namespace
