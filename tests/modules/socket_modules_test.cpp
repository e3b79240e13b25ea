// SPDX-License-Identifier: Apache-2.0
// pipe, unix and tcp: what each of them promises under all its ways to wait, to split and to stripe.
#include <gtest/gtest.h>
#include <sys/time.h>

#include <array>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "netpipe/module.h"
#include "two_ranks.h"

namespace {

using namespace two_ranks;

const char* const kVariants[] = {
    "pipe",
    "pipe:wait=poll",
    "pipe:wait=hybrid,spin_us=20",
    "pipe:capacity=4k",
    "pipe:capacity=1M,wait=poll",
    "unix",
    "unix:wait=poll",
    "unix:wait=hybrid,spin_us=0",
    "unix:sndbuf=8k",
    "unix:type=seqpacket",
    "unix:type=seqpacket,wait=poll",
    "unix:type=seqpacket,packet=1000",
    "unix:type=seqpacket,wait=hybrid",
    "tcp",
    "tcp:wait=poll",
    "tcp:wait=hybrid,spin_us=20",
    "tcp:sndbuf=16k,rcvbuf=16k",
    "tcp:quickack=yes",
    "tcp:nodelay=no",
    "tcp:mss=1000",
    "tcp:reopen=no",
    "tcp:ip=6",
    "tcp:streams=2",
    "tcp:streams=3,wait=poll",
    "tcp:streams=7,stripe=1000",
    "tcp:streams=5,stripe=4097,wait=hybrid",
    "tcp:rails=127.0.0.1+127.0.0.2",
    "tcp:path=zerocopy,zerocopy_min=1000",
    "tcp:path=zerocopy,wait=poll,streams=3,stripe=4097,zerocopy_min=1",
    "tcp:wait=sigio",
    "tcp:wait=sigio,streams=3,stripe=1000",
    "tcp:protocol=mptcp",
    "tcp:path=uring",
    "tcp:path=uring,wait=poll",
    "tcp:path=uring,wait=hybrid,streams=3,stripe=4097",
    "tcp:path=uring_zc,zerocopy_min=1000",
    "tcp:path=uring_zc,wait=poll,streams=2,zerocopy_min=1",
};

class EverySocketVariant : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()).find("ip=6") != std::string::npos && !has_ipv6()) GTEST_SKIP() << "no IPv6 here";
  }
};
INSTANTIATE_TEST_SUITE_P(Sockets, EverySocketVariant, testing::ValuesIn(kVariants),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EverySocketVariant, BouncesEveryByteOfEverySize) {
  const std::vector<size_t> sizes = {1,      2,      3,      7,        8,    9,        63,           64,       65,
                                     1000,   1023,   1025,   4095,     4096, 4097,     65535,        65536,    65537,
                                     131072, 208000, 262147, kMiB - 1, kMiB, kMiB + 1, 8 * kMiB - 3, 8 * kMiB, 1};
  EXPECT_EQ("", run_connected(GetParam(), [&](Rank& rank) { return bounce(rank, sizes); }).both());
}

TEST_P(EverySocketVariant, BothDirectionsAtOnceWithFullBuffers) {
  const auto body = [](Rank& rank) -> std::string {
    for (uint64_t round = 0; round < 4; ++round) {
      const size_t bytes = 8 * kMiB - 5 * round;
      const auto me = static_cast<uint64_t>(rank.context.rank);
      const Bytes out = pattern(bytes, 2 * round + me), wanted = pattern(bytes, 2 * round + 1 - me);
      Bytes got(bytes);
      np_request in_flight, coming;
      if (round % 2 == 0) {
        if (const np_status s = rank.irecv(got, coming); s != NP_OK) return failed(rank, "irecv", s);
        if (const np_status s = rank.isend(out, in_flight); s != NP_OK) return failed(rank, "isend", s);
        if (const np_status s = rank.wait(in_flight); s != NP_OK) return failed(rank, "wait", s);
      } else {  // a blocking send has to empty the other's full buffer as well
        if (const np_status s = rank.irecv(got, coming); s != NP_OK) return failed(rank, "irecv", s);
        if (const np_status s = rank.send(out.data(), bytes); s != NP_OK) return failed(rank, "send", s);
      }
      if (const np_status s = rank.wait(coming); s != NP_OK) return failed(rank, "wait", s);
      if (std::string wrong = expect_same(got, wanted, "round " + std::to_string(round)); !wrong.empty()) return wrong;
    }
    return bounce(rank, {1, 100'000});  // and the endpoint is as before
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

TEST_P(EverySocketVariant, ManyRequestsInFlightCompleteInOrder) {
  const auto body = [](Rank& rank) -> std::string {
    const size_t sizes[] = {1, 70'000, 3, 200'001, 64, 1, 300'000, 9, 65'536, 131'072, 17, 5000};
    constexpr size_t kCount = std::size(sizes);
    const auto me = static_cast<uint64_t>(rank.context.rank);
    std::array<Bytes, kCount> out, got;
    std::array<np_request, kCount> leaving{}, coming{};
    for (size_t i = 0; i < kCount; ++i) {
      out[i] = pattern(sizes[i], 100 * me + i);
      got[i].resize(sizes[i]);
      if (const np_status s = rank.irecv(got[i], coming[i]); s != NP_OK) return failed(rank, "irecv", s);
      if (const np_status s = rank.isend(out[i], leaving[i]); s != NP_OK) return failed(rank, "isend", s);
    }
    for (size_t i = 0; i < kCount; ++i) {  // rank 0 asks again and again, rank 1 waits, for the last one first
      np_request& last = coming[kCount - 1 - i];
      np_status s = NP_PENDING;
      while (me == 0 && s == NP_PENDING) s = rank.module->test(rank.endpoint, &last);
      if (me == 1) s = rank.wait(last);
      if (s != NP_OK) return failed(rank, "completing", s);
    }
    for (np_request& request : leaving) {
      if (const np_status s = rank.wait(request); s != NP_OK) return failed(rank, "wait", s);
    }
    for (size_t i = 0; i < kCount; ++i) {
      if (std::string wrong =
              expect_same(got[i], pattern(sizes[i], 100 * (1 - me) + i), "request " + std::to_string(i));
          !wrong.empty())
        return wrong;
    }
    return "";
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

// A receive that is posted early may not hold up one that is waited for: what it waits for is sent only afterwards.
TEST_P(EverySocketVariant, WaitingForOneRequestDoesNotWaitForTheNext) {
  const auto body = [](Rank& rank) -> std::string {
    Bytes first(3000), second(3000);
    np_request a, b;
    if (rank.context.rank == 0) {
      if (const np_status s = rank.irecv(first, a); s != NP_OK) return failed(rank, "irecv", s);
      if (const np_status s = rank.irecv(second, b); s != NP_OK) return failed(rank, "irecv", s);
      if (const np_status s = rank.wait(a); s != NP_OK) return failed(rank, "wait", s);
      if (const np_status s = rank.send(first.data(), 1); s != NP_OK) return failed(rank, "send", s);
      if (const np_status s = rank.wait(b); s != NP_OK) return failed(rank, "wait", s);
      return expect_same(second, pattern(3000, 2), "second");
    }
    if (const np_status s = rank.send(pattern(3000, 1).data(), 3000); s != NP_OK) return failed(rank, "send", s);
    if (const np_status s = rank.recv(first.data(), 1); s != NP_OK) return failed(rank, "recv", s);
    if (const np_status s = rank.send(pattern(3000, 2).data(), 3000); s != NP_OK) return failed(rank, "send", s);
    return "";
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

// All but MPTCP, which waits for the other end of a connection to say goodbye, for minutes if need be: there netpipe's
// own watch over the ranks ends the call (AbortEndsEveryWait).
std::vector<const char*> that_tell_of_a_killed_peer() {
  std::vector<const char*> variants;
  for (const char* one : kVariants) {
    if (std::string(one).find("mptcp") == std::string::npos) variants.push_back(one);
  }
  return variants;
}
class EveryVariantThatTells : public EverySocketVariant {};
INSTANTIATE_TEST_SUITE_P(Sockets, EveryVariantThatTells, testing::ValuesIn(that_tell_of_a_killed_peer()),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryVariantThatTells, AKilledPeerEndsEveryCall) {
  for (const int call : {0, 1, 2}) {
    const auto body = [call](Rank& rank) -> std::string {
      if (std::string wrong = bounce(rank, {1, 70'000}); !wrong.empty()) return wrong;
      if (rank.context.rank == 1) raise(SIGKILL);
      Bytes room(kMiB);
      np_request request;
      np_status status = NP_OK;
      for (int i = 0; i < 1000 && status == NP_OK; ++i) {
        if (call == 0) status = rank.recv(room.data(), room.size());
        if (call == 1) status = rank.send(room.data(), room.size());
        if (call == 2) status = rank.irecv(room, request);
        if (call == 2 && status == NP_OK) status = rank.wait(request);
      }
      if (std::string wrong = expect(rank, status, NP_PEER_LOST, "rank 1 has gone"); !wrong.empty()) return wrong;
      return expect(rank, rank.isend(room, request), NP_PEER_LOST, "rank 1 has gone");
    };
    const Outcome outcome = run_connected(GetParam(), body);
    EXPECT_EQ("", outcome.said[0]) << "call " << call;
    EXPECT_EQ("killed", outcome.said[1]);
  }
}

TEST_P(EverySocketVariant, AbortEndsEveryWait) {
  for (const int call : {0, 1, 2}) {
    const auto body = [call](Rank& rank) -> std::string {
      struct sigaction action{};  // as the core's watchdog: no SA_RESTART once the flag is up, and again and again
      action.sa_handler = [](int) { abort_flag = 1; };
      sigaction(SIGALRM, &action, nullptr);
      if (rank.context.rank == 0) {
        const itimerval every = {{0, 50'000}, {0, 50'000}};
        setitimer(ITIMER_REAL, &every, nullptr);
        Bytes room(64 * kMiB), other(64 * kMiB);  // more than the buffers on the way hold
        np_request out, in;
        np_status status = NP_OK;
        if (call == 0) status = rank.recv(room.data(), room.size());
        if (call == 1) status = rank.send(room.data(), room.size());
        if (call == 2) {
          status = rank.irecv(room, in);
          if (status == NP_OK) status = rank.isend(other, out);
          if (status == NP_OK) status = rank.wait(out);
        }
        const itimerval never{};
        setitimer(ITIMER_REAL, &never, nullptr);
        rank.meet();
        return expect(rank, status, NP_ABORTED, "gave up");
      }
      rank.meet();  // the other rank neither sends nor receives
      return "";
    };
    EXPECT_EQ("", run_connected(GetParam(), body).both()) << "call " << call;
  }
}

TEST_P(EverySocketVariant, AnEmptyMessageIsRefusedWithASentence) {
  const auto body = [](Rank& rank) {
    char byte = 0;
    return expect(rank, rank.send(&byte, 0), NP_UNSUPPORTED, "empty") +
           expect(rank, rank.recv(&byte, 0), NP_UNSUPPORTED, "empty") + bounce(rank, {1});
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

class EveryModule : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Sockets, EveryModule, testing::Values("pipe", "unix", "unix:type=seqpacket", "tcp"),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryModule, EndpointsThatAreOpenAtOnceDoNotMix) {
  const auto body = [](int number, int control) -> std::string {
    Rank first(GetParam(), number, control), second(GetParam(), number, control);
    for (Rank* rank : {&first, &second}) {
      if (const np_status s = rank->open(); s != NP_OK) return failed(*rank, "open", s);
    }
    for (Rank* rank : {&second, &first}) {
      if (const np_status s = rank->connect(); s != NP_OK) return failed(*rank, "connect", s);
    }
    const bool sends = number == 0;
    const Bytes one = pattern(5000, 1), two = pattern(5000, 2);
    Bytes got(5000);
    if (sends) {
      if (const np_status s = first.send(one.data(), one.size()); s != NP_OK) return failed(first, "send", s);
      if (const np_status s = second.send(two.data(), two.size()); s != NP_OK) return failed(second, "send", s);
      return "";
    }
    if (const np_status s = second.recv(got.data(), got.size()); s != NP_OK) return failed(second, "recv", s);
    if (std::string wrong = expect_same(got, two, "second endpoint"); !wrong.empty()) return wrong;
    if (const np_status s = first.recv(got.data(), got.size()); s != NP_OK) return failed(first, "recv", s);
    return expect_same(got, one, "first endpoint");
  };
  EXPECT_EQ("", run_ranks(body).both());
}

TEST_P(EveryModule, APeerThatNeverComesEndsInASentence) {
  const auto body = [](int number, int control) -> std::string {
    Rank rank(GetParam(), number, control);
    rank.context.timeout_ns = 300'000'000;
    if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
    return wait_for_nobody(rank, "is rank 0 alive");
  };
  EXPECT_EQ("", run_ranks(body).both());
}

// The kernel moves at most 2 GiB - 4 KiB in one call (read(2)).
TEST_P(EveryModule, AMessageOfMoreThanTwoGibArrivesWhole) {
  EXPECT_EQ("", run_connected(GetParam(), move_more_than_two_gib).both());
}

TEST_P(EveryModule, DescribesHowItWaitsAndCountsInNumbers) {
  const auto body = [](Rank& rank) -> std::string {
    if (rank.settings()["wait"] != "block") return "it does not say that it blocks";
    const Texts counted = rank.counted();
    for (const auto& [name, value] : counted) {
      if (value.find_first_not_of("0123456789") != std::string::npos) return name + " is " + value;
    }
    return counted.empty() ? "it counts nothing" : "";
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

}  // namespace
