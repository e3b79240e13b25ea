// SPDX-License-Identifier: Apache-2.0
// shm: what it promises under all its ways to wait and to copy, in memory of its own and in any other.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/time.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "netpipe/module.h"
#include "two_ranks.h"

namespace {

using namespace two_ranks;

// Small rings are full and come round after a few messages; eager=0 sends all above no bytes as large messages.
const char* const kVariants[] = {
    "shm",
    "shm:wait=block",
    "shm:wait=hybrid,spin_us=0",
    "shm:wait=hybrid,spin_us=20",
    "shm:handover=no",
    "shm:handover=no,slots=8,ring=16k,chunk=1k,eager=1000",
    "shm:slots=8,ring=16k,chunk=1k,eager=64k",
    "shm:wait=block,slots=8,ring=16k,chunk=1k",
    "shm:eager=0",
    "shm:eager=0,wait=block",
    "shm:copy=pipeline",
    "shm:copy=pipeline,chunk=1025,wait=hybrid,spin_us=5",
    "shm:copy=cma",
    "shm:copy=cma,eager=100,wait=block",
    "shm:cma_min=0,eager=64",
    "shm:cooperate=no",
    "shm:cooperate=no,copy=cma",
    "shm:poll_gap=0,demote=no",
};

const std::vector<size_t> kSizes = {
    0,    1,    2,    3,     4,     7,     8,     9,     15,    16,     17,     31,     32,       33,          55,
    56,   57,   63,   64,    65,    127,   128,   129,   511,   1000,   1023,   1024,   1025,     4095,        4096,
    4097, 8191, 8193, 12289, 16383, 16385, 32771, 49151, 65536, 100003, 131075, 262141, kMiB + 3, 5 * kMiB - 1};

// Message memory of the module, which the peer can map.
class Mapped {
 public:
  Mapped(Rank& rank, size_t bytes) : rank_(rank), bytes_(bytes) {
    if (rank.module->own_memory()->alloc(rank.endpoint, bytes, &base_) != NP_OK) throw std::runtime_error(rank.said());
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() { rank_.module->own_memory()->free(rank_.endpoint, base_, bytes_); }
  [[nodiscard]] unsigned char* at(size_t offset) const { return static_cast<unsigned char*>(base_) + offset; }

 private:
  Rank& rank_;
  size_t bytes_;
  void* base_ = nullptr;
};

std::string told(Rank& rank, const char* name) { return rank.counted()[name]; }

class EveryVariant : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Shm, EveryVariant, testing::ValuesIn(kVariants),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryVariant, BouncesEveryByteOfEverySize) {
  const auto body = [](Rank& rank) -> std::string { return bounce(rank, kSizes); };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

TEST_P(EveryVariant, BouncesMessagesInItsOwnMemoryAtAnyOffset) {
  const auto body = [](Rank& rank) -> std::string {
    const Mapped out(rank, 6 * kMiB), in(rank, 6 * kMiB);
    const bool first = rank.context.rank == 0;
    for (size_t i = 0; i < kSizes.size(); ++i) {
      const size_t bytes = kSizes[i], offset = i * 37 % 300;
      const Bytes there = pattern(bytes, i), back = pattern(bytes, i + 1000);
      if (bytes != 0) std::copy_n((first ? there : back).begin(), bytes, out.at(offset));  // an empty one has no place
      std::memset(in.at(0), 0xEE, bytes + 1000);
      if (first) {
        if (const np_status s = rank.send(out.at(offset), bytes); s != NP_OK) return failed(rank, "send", s);
      }
      if (const np_status s = rank.recv(in.at(2 * offset), bytes); s != NP_OK) return failed(rank, "recv", s);
      if (!first) {
        if (const np_status s = rank.send(out.at(offset), bytes); s != NP_OK) return failed(rank, "send", s);
      }
      const Bytes got(in.at(2 * offset), in.at(2 * offset + bytes));
      if (std::string wrong = expect_same(got, first ? back : there, "message"); !wrong.empty()) return wrong;
      if (*in.at(2 * offset + bytes) != 0xEE)
        return "a byte behind the message of " + std::to_string(bytes) + " was written";
      if (offset > 0 && *in.at(2 * offset - 1) != 0xEE) return "a byte before the message was written";
    }
    return "";
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

TEST_P(EveryVariant, AStreamOfMixedSizesArrivesInOrder) {
  const auto body = [](Rank& rank) -> std::string {
    for (size_t i = 0; i < 6000; ++i) {
      const size_t bytes = i % 97 == 0 ? 5000 + i : i * 7 % 200;
      const Bytes wanted = pattern(bytes, i);
      if (rank.context.rank == 0) {
        if (const np_status s = rank.send(wanted.data(), bytes); s != NP_OK) return failed(rank, "send", s);
        continue;
      }
      Bytes got(bytes);
      if (const np_status s = rank.recv(got.data(), bytes); s != NP_OK) return failed(rank, "recv", s);
      if (std::string wrong = expect_same(got, wanted, "message " + std::to_string(i)); !wrong.empty()) return wrong;
    }
    return bounce(rank, {8, 100, 8});  // and an answer finds its way after a stream
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

TEST_P(EveryVariant, BothDirectionsAtOnceWithLargeMessages) {
  const auto body = [](Rank& rank) -> std::string {
    for (const bool mapped : {false, true}) {
      const Mapped own_out(rank, 3 * kMiB), own_in(rank, 3 * kMiB);
      Bytes other_in(3 * kMiB);
      for (const size_t bytes : {size_t{100}, size_t{9000}, 3 * kMiB}) {
        const auto rank_of = static_cast<uint64_t>(rank.context.rank);
        Bytes mine = pattern(bytes, rank_of);
        const Bytes wanted = pattern(bytes, 1 - rank_of);
        std::memcpy(own_out.at(0), mine.data(), bytes);
        void* in = mapped ? own_in.at(0) : other_in.data();
        np_request sending, receiving;
        const netpipe::Layer& m = *rank.module;
        const int peer = 1 - rank.context.rank;
        // The send is started first and waited for first: it must bring the receive on as well.
        if (const np_status s =
                m.isend(rank.endpoint, peer, mapped ? own_out.at(0) : mine.data(), 0, bytes, &sending, 1))
          return failed(rank, "isend", s);
        if (const np_status s = m.irecv(rank.endpoint, peer, in, 0, bytes, &receiving, 1))
          return failed(rank, "irecv", s);
        if (const np_status s = rank.wait(sending)) return failed(rank, "wait for the send", s);
        if (const np_status s = rank.wait(receiving)) return failed(rank, "wait for the receive", s);
        const auto* got = static_cast<const unsigned char*>(in);
        if (std::string wrong = expect_same(Bytes(got, got + bytes), wanted, "message"); !wrong.empty()) return wrong;
      }
    }
    return "";
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

TEST_P(EveryVariant, ManyRequestsInFlightCompleteUnderTest) {
  const auto body = [](Rank& rank) -> std::string {
    constexpr size_t kRequests = 200;
    const auto size_of = [](size_t i) { return i % 20 == 0 ? 30000 + i : i * 13 % 700; };
    std::vector<Bytes> out, in;
    std::vector<np_request> sends(kRequests), receives(kRequests);
    const auto own = static_cast<uint64_t>(rank.context.rank);
    for (size_t i = 0; i < kRequests; ++i) {
      out.push_back(pattern(size_of(i), 2 * i + own));
      in.emplace_back(size_of(i));
    }
    for (size_t i = 0; i < kRequests; ++i) {
      if (const np_status s = rank.isend(out[i], sends[i]); s != NP_OK) return failed(rank, "isend", s);
      if (const np_status s = rank.irecv(in[i], receives[i]); s != NP_OK) return failed(rank, "irecv", s);
    }
    // The last receive first: messages arrive in order, so all have arrived when it has.
    np_status status = NP_PENDING;
    while ((status = rank.module->test(rank.endpoint, &receives.back())) == NP_PENDING) sched_yield();
    if (status != NP_OK) return failed(rank, "test", status);
    for (size_t i = 0; i < kRequests; ++i) {
      if (rank.module->test(rank.endpoint, &receives[i]) != NP_OK)
        return "request " + std::to_string(i) + " was overtaken";
      const Bytes wanted = pattern(size_of(i), 2 * i + 1 - own);
      if (std::string wrong = expect_same(in[i], wanted, "message " + std::to_string(i)); !wrong.empty()) return wrong;
      if (const np_status s = rank.wait(sends[i]); s != NP_OK) return failed(rank, "wait", s);
    }
    return "";
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

TEST_P(EveryVariant, BlockingCallsKeepTheirPlaceBehindWhatWasStarted) {
  const auto body = [](Rank& rank) -> std::string {
    const Bytes first = pattern(20000, 1), second = pattern(40, 2);
    if (rank.context.rank == 0) {
      np_request started;
      if (const np_status s = rank.isend(first, started); s != NP_OK) return failed(rank, "isend", s);
      if (const np_status s = rank.send(second.data(), second.size()); s != NP_OK) return failed(rank, "send", s);
      if (const np_status s = rank.wait(started); s != NP_OK) return failed(rank, "wait", s);
      return "";
    }
    Bytes one(first.size()), two(second.size());
    np_request started;
    if (const np_status s = rank.irecv(one, started); s != NP_OK) return failed(rank, "irecv", s);
    if (const np_status s = rank.recv(two.data(), two.size()); s != NP_OK) return failed(rank, "recv", s);
    if (const np_status s = rank.wait(started); s != NP_OK) return failed(rank, "wait", s);
    return expect_same(one, first, "first") + expect_same(two, second, "second");
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

TEST_P(EveryVariant, AMessageOfAnotherSizeIsRefusedWithBothSizes) {
  for (const size_t sent : {size_t{40}, size_t{300}, size_t{70000}}) {
    const auto body = [sent](Rank& rank) -> std::string {
      Bytes room(80000);
      if (rank.context.rank == 0) {
        np_request request;
        room.resize(sent);
        const np_status status = rank.isend(room, request);  // a blocking one might wait for ever
        rank.meet();
        return status == NP_OK ? "" : failed(rank, "isend", status);
      }
      std::string wrong = expect(rank, rank.recv(room.data(), 41), NP_FAILED, std::to_string(sent).c_str());
      wrong += expect(rank, rank.recv(room.data(), sent), NP_FAILED, " 41 bytes");
      rank.meet();
      return wrong;
    };
    EXPECT_EQ("", run_connected(GetParam(), body).both()) << sent;
  }
}

TEST_P(EveryVariant, PutsAndGetsReachMemoryOfEitherKind) {
  const auto body = [](Rank& rank) -> std::string {
    const netpipe::Layer& m = *rank.module;
    const int peer = 1 - rank.context.rank;
    for (const bool mapped : {true, false}) {
      constexpr size_t kBytes = 300'000;
      const Mapped own(rank, kBytes);
      Bytes other(kBytes);
      unsigned char* window = mapped ? own.at(0) : other.data();
      std::memset(window, 0, kBytes);
      np_region mine{}, theirs{};
      if (const np_status s = m.expose(rank.endpoint, window, kBytes, &mine)) return failed(rank, "expose", s);
      const Bytes key = rank.exchange(Bytes(mine.key, mine.key + mine.key_bytes));
      theirs.key_bytes = static_cast<uint32_t>(key.size());
      std::memcpy(theirs.key, key.data(), key.size());
      if (const np_status s = m.attach(rank.endpoint, peer, &theirs)) return failed(rank, "attach", s);
      const Bytes message = pattern(100'001, static_cast<uint64_t>(rank.context.rank));
      const Bytes wanted = pattern(100'001, static_cast<uint64_t>(peer));
      if (const np_status s = m.put(rank.endpoint, peer, message.data(), &theirs, 17, message.size()))
        return failed(rank, "put", s);
      if (const np_status s = m.flush(rank.endpoint, peer)) return failed(rank, "flush", s);
      if (const np_status s = m.fence(rank.endpoint)) return failed(rank, "fence", s);
      if (std::string wrong = expect_same(Bytes(window + 17, window + 17 + wanted.size()), wanted, "put");
          !wrong.empty())
        return wrong;
      Bytes back(message.size());
      if (const np_status s = m.get(rank.endpoint, peer, back.data(), &theirs, 17, back.size()))
        return failed(rank, "get", s);
      if (std::string wrong = expect_same(back, message, "get"); !wrong.empty()) return wrong;
      std::string wrong =
          expect(rank, m.put(rank.endpoint, peer, back.data(), &theirs, kBytes - 1, 2), NP_USAGE, "not within");
      wrong += expect(rank, m.get(rank.endpoint, peer, back.data(), &theirs, SIZE_MAX, 2), NP_USAGE, "not within");
      if (!wrong.empty()) return wrong;
      if (const np_status s = m.barrier(rank.endpoint)) return failed(rank, "barrier", s);
      m.withdraw(rank.endpoint, &theirs);
      m.withdraw(rank.endpoint, &mine);
    }
    return "";
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

// 0: while receiving a small message, 1: a large one, 2: sending more than fits, 3: in a barrier, 4: while testing
TEST_P(EveryVariant, AKilledPeerEndsEveryCall) {
  for (const int call : {0, 1, 2, 3, 4}) {
    const auto body = [call](Rank& rank) -> std::string {
      if (std::string wrong = bounce(rank, {8, 20000}); !wrong.empty()) return wrong;
      if (rank.context.rank == 1) raise(SIGKILL);
      Bytes room(4 * kMiB);
      np_request request;
      np_status status = NP_OK;
      if (call == 0) status = rank.recv(room.data(), 8);
      if (call == 1) status = rank.recv(room.data(), room.size());
      if (call == 2) {
        for (int i = 0; i < 10 && status == NP_OK; ++i) status = rank.send(room.data(), room.size());
      }
      if (call == 3) status = rank.module->barrier(rank.endpoint);
      if (call == 4) {
        status = rank.irecv(room, request);
        while (status == NP_OK && (status = rank.module->test(rank.endpoint, &request)) == NP_PENDING) status = NP_OK;
      }
      return expect(rank, status, NP_PEER_LOST, "rank 1 (process ");
    };
    const Outcome outcome = run_connected(GetParam(), body);
    EXPECT_EQ("", outcome.said[0]) << "call " << call;
    EXPECT_EQ("killed", outcome.said[1]);
  }
}

TEST_P(EveryVariant, AbortEndsEveryWait) {
  for (const int call : {0, 1, 2, 3, 4}) {
    const auto body = [call](Rank& rank) -> std::string {
      struct sigaction action{};  // as the core's watchdog
      action.sa_handler = [](int) { abort_flag = 1; };
      sigaction(SIGALRM, &action, nullptr);
      if (rank.context.rank == 1) {
        rank.meet();  // neither sends nor receives
        return "";
      }
      const itimerval every = {{0, 50'000}, {0, 50'000}};
      setitimer(ITIMER_REAL, &every, nullptr);
      Bytes room(4 * kMiB);
      np_request request;
      np_status status = NP_OK;
      if (call == 0) status = rank.recv(room.data(), 8);
      if (call == 1) status = rank.recv(room.data(), room.size());
      if (call == 2) status = rank.send(room.data(), room.size());
      if (call == 3) status = rank.module->barrier(rank.endpoint);
      if (call == 4) {
        status = rank.irecv(room, request);
        while (status == NP_OK && (status = rank.module->test(rank.endpoint, &request)) == NP_PENDING) status = NP_OK;
      }
      const itimerval never{};
      setitimer(ITIMER_REAL, &never, nullptr);
      rank.meet();
      return expect(rank, status, NP_ABORTED, "gave up");
    };
    EXPECT_EQ("", run_connected(GetParam(), body).both()) << "call " << call;
  }
}

TEST_P(EveryVariant, SharesOneProcessor) {
  const auto body = [](int number, int control) -> std::string {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    Rank rank(GetParam(), number, control);
    sched_setaffinity(0, sizeof one, &one);
    rank.context.oversubscribed = 1;
    if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
    if (const np_status s = rank.connect(); s != NP_OK) return failed(rank, "connect", s);
    return bounce(rank, {8, 100, 5000, 100000, kMiB, 8});
  };
  EXPECT_EQ("", run_ranks(body).both());
}

// ------------------------------------------------------------------------------------------------ one by one

TEST(Shm, AMessageThatWasSentBeforeTheEndStillArrives) {
  const auto body = [](Rank& rank) -> std::string {
    const Bytes last = pattern(1000, 5);
    if (rank.context.rank == 0) {
      const np_status status = rank.send(last.data(), last.size());
      rank.close();
      rank.meet();
      return status == NP_OK ? "" : failed(rank, "send", status);
    }
    rank.meet();
    Bytes got(last.size());
    if (const np_status s = rank.recv(got.data(), got.size()); s != NP_OK) return failed(rank, "recv", s);
    if (std::string wrong = expect_same(got, last, "last message"); !wrong.empty()) return wrong;
    return expect(rank, rank.recv(got.data(), got.size()), NP_PEER_LOST, "has ended or closed");
  };
  EXPECT_EQ("", run_connected("shm", body).both());
}

TEST(Shm, AnswersGoIntoTheLineOfTheQuestion) {
  const auto body = [](Rank& rank) -> std::string {
    if (std::string wrong = bounce(rank, std::vector<size_t>(500, 8)); !wrong.empty()) return wrong;
    return told(rank, "entries_handed_over") == "500" && told(rank, "entries_in_ring") == "0" ? ""
                                                                                              : "some went elsewhere";
  };
  EXPECT_EQ("", run_connected("shm", body).both());
}

TEST(Shm, LargeMessagesTakeTheWayThatIsAskedFor) {
  const auto goes = [](const std::string& variant, bool mapped, const std::string& counter) {
    const auto body = [&](Rank& rank) -> std::string {
      const Mapped own(rank, kMiB);
      Bytes other(kMiB);
      void* memory = mapped ? own.at(0) : other.data();
      const np_status status = rank.context.rank == 0 ? rank.send(memory, kMiB) : rank.recv(memory, kMiB);
      if (status != NP_OK) return failed(rank, "message", status);
      if (rank.context.rank == 0 && told(rank, counter.c_str()) != "1") return "not in " + counter;
      return "";
    };
    return run_connected(variant, body).both();
  };
  EXPECT_EQ("", goes("shm", true, "messages_mapped"));
  EXPECT_EQ("", goes("shm", false, "messages_cma"));
  EXPECT_EQ("", goes("shm:cma_min=2M", false, "messages_through_ring"));
  EXPECT_EQ("", goes("shm:copy=cma", true, "messages_cma"));
  EXPECT_EQ("", goes("shm:copy=pipeline", true, "messages_through_ring"));
}

TEST(Shm, ASleepingReceiverIsWokenAndAPollingOneNeverSleeps) {
  const auto sleeps_of = [](const std::string& variant) {
    const auto body = [](Rank& rank) -> std::string {
      if (rank.context.rank == 1) usleep(20'000);
      if (std::string wrong = bounce(rank, {8}); !wrong.empty()) return wrong;
      return "sleeps " + told(rank, "sleeps");
    };
    return run_connected(variant, body).said[0];
  };
  EXPECT_EQ("sleeps 0", sleeps_of("shm"));
  EXPECT_EQ("sleeps 1", sleeps_of("shm:wait=block"));
}

// One side at least sleeps for every message, whatever its size: while it wakes the other one, that may have answered.
// Two processes that poll for a while keep each other awake, and then what is called blocking has two speeds.
TEST(Shm, WhatBlocksSleepsForEveryMessage) {
  constexpr int kRounds = 200;
  for (const std::size_t size : {8U, 61U, 2051U}) {
    const auto body = [size](Rank& rank) -> std::string {
      if (std::string wrong = bounce(rank, std::vector<std::size_t>(kRounds, size)); !wrong.empty()) return wrong;
      return told(rank, "sleeps");
    };
    int sleeps = 0;
    for (const std::string& said : run_connected("shm:wait=block", body).said) {
      ASSERT_TRUE(!said.empty() && std::isdigit(static_cast<unsigned char>(said[0])) != 0) << said;
      sleeps += std::stoi(said);
    }
    EXPECT_GE(sleeps, kRounds * 3 / 4) << size;
  }
}

TEST(Shm, MemoryComesAndGoes) {
  const auto body = [](Rank& rank) -> std::string {
    for (uint64_t i = 0; i < 20; ++i) {  // the same slots for other memory: the peer must not keep the old
      const Mapped unused(rank, 4096), own(rank, 50'000 + 4096 * i);
      const Bytes wanted = pattern(50'000, i);
      if (rank.context.rank == 0) {
        std::memcpy(own.at(0), wanted.data(), wanted.size());
        if (const np_status s = rank.send(own.at(0), wanted.size()); s != NP_OK) return failed(rank, "send", s);
      } else {
        if (const np_status s = rank.recv(own.at(0), wanted.size()); s != NP_OK) return failed(rank, "recv", s);
        const Bytes got(own.at(0), own.at(wanted.size()));
        if (std::string wrong = expect_same(got, wanted, "message"); !wrong.empty()) return wrong;
      }
    }
    void* memory = nullptr;
    const np_status status = rank.module->own_memory()->alloc(rank.endpoint, SIZE_MAX / 2, &memory);
    return expect(rank, status, NP_NO_MEMORY, "cannot get");
  };
  EXPECT_EQ("", run_connected("shm", body).both());
}

TEST(Shm, EndpointsThatAreOpenAtOnceDoNotMix) {
  const auto body = [](int number, int control) -> std::string {
    Rank first("shm", number, control), second("shm:wait=block", number, control);
    for (Rank* rank : {&first, &second}) {
      if (const np_status s = rank->open(); s != NP_OK) return failed(*rank, "open", s);
      if (const np_status s = rank->connect(); s != NP_OK) return failed(*rank, "connect", s);
    }
    for (int i = 0; i < 20; ++i) {
      for (Rank* rank : {&second, &first}) {
        if (std::string wrong = bounce(*rank, {8, 5000, 100000}); !wrong.empty()) return wrong;
      }
    }
    return "";
  };
  EXPECT_EQ("", run_ranks(body).both());
}

TEST(Shm, RanksWithDifferentOptionsAreRefused) {
  const auto body = [](int number, int control) -> std::string {
    Rank rank(number == 0 ? "shm" : "shm:eager=1k", number, control);
    if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
    return expect(rank, rank.connect(), NP_USAGE, "option eager is");
  };
  EXPECT_EQ("", run_ranks(body).both());
}

TEST(Shm, APeerThatNeverConnectsEndsInASentence) {
  const auto body = [](int number, int control) -> std::string {
    Rank rank("shm", number, control);
    rank.context.timeout_ns = 200'000'000;
    if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
    return wait_for_nobody(rank, "in time");
  };
  EXPECT_EQ("", run_ranks(body).both());
}

TEST(Shm, AMessageOfMoreThanTwoGibArrivesWhole) { EXPECT_EQ("", run_connected("shm", move_more_than_two_gib).both()); }

TEST(Shm, DescribesHowItWaitsAndCountsInNumbers) {
  const auto body = [](Rank& rank) -> std::string {
    const Texts settings = rank.settings();
    if (settings.at("wait") != "hybrid" || settings.at("spin_us") != "7") return "it does not say how it waits";
    for (const auto& [name, value] : rank.counted()) {
      if (value.empty() || value.find_first_not_of("0123456789") != std::string::npos) return name + " is " + value;
    }
    return "";
  };
  EXPECT_EQ("", run_connected("shm:wait=hybrid,spin_us=7", body).both());
}

}  // namespace
