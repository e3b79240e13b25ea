// SPDX-License-Identifier: Apache-2.0
// shm: atomic operations and sums on the same words from both processes at once, and values behind puts.
#include <gtest/gtest.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "netpipe/module.h"
#include "two_ranks.h"

namespace {

using namespace two_ranks;

constexpr size_t kBytes = 65536;

// Memory of both ranks, each attached to the other's and to its own.
struct Shared {
  explicit Shared(Rank& of) : rank(of) {
    const netpipe::Layer& m = *rank.module;
    void* base = nullptr;
    if (m.own_memory()->alloc(rank.endpoint, kBytes, &base) != NP_OK) throw std::runtime_error(rank.said());
    own = static_cast<unsigned char*>(base);
    std::memset(own, 0, kBytes);
    if (m.expose(rank.endpoint, own, kBytes, &mine) != NP_OK) throw std::runtime_error(rank.said());
    const Bytes key = rank.exchange(Bytes(mine.key, mine.key + mine.key_bytes));
    theirs.key_bytes = static_cast<uint32_t>(key.size());
    std::memcpy(theirs.key, key.data(), key.size());
    if (m.attach(rank.endpoint, peer(), &theirs) != NP_OK) throw std::runtime_error(rank.said());
  }
  [[nodiscard]] int peer() const { return 1 - rank.context.rank; }
  [[nodiscard]] uint64_t word(size_t offset) const {
    uint64_t value = 0;
    std::memcpy(&value, own + offset, sizeof value);
    return value;
  }

  Rank& rank;
  unsigned char* own = nullptr;
  np_region mine{}, theirs{};
};

TEST(ShmWords, EachOperationIsWhatItsNameSays) {
  const auto body = [](Rank& rank) -> std::string {
    const Shared memory(rank);
    const auto ask = [&](np_atomic what, uint64_t operand, uint64_t compare = 0) {
      uint64_t before = 99;
      const np_atomic_call call = rank.module->atomic(rank.endpoint, what);
      const np_status s = call(rank.endpoint, memory.peer(), &memory.theirs, 8, operand, compare, &before);
      return s == NP_OK ? before : 1000 + static_cast<uint64_t>(s);
    };
    const std::vector<uint64_t> got = {
        ask(NP_ATOMIC_SET, 5),
        ask(NP_ATOMIC_FETCH, 0),
        ask(NP_ATOMIC_ADD, 2),
        ask(NP_ATOMIC_FETCH_ADD, 3),
        ask(NP_ATOMIC_SWAP, 20),
        ask(NP_ATOMIC_COMPARE_SWAP, 30, 21),
        ask(NP_ATOMIC_COMPARE_SWAP, 30, 20),
        ask(NP_ATOMIC_FETCH, 0),
    };
    rank.meet();
    if (got != std::vector<uint64_t>{99, 5, 99, 7, 10, 20, 20, 30}) return "an operation fetched something else";
    if (memory.word(8) != 30 || memory.word(0) != 0 || memory.word(16) != 0) return "the wrong word changed";
    return "";
  };
  EXPECT_EQ("", run_connected("shm", body).both());
}

// Rank 0 adds to words of rank 1 through the module, and rank 1 to the same words by instructions of its own.
TEST(ShmWords, NoOperationIsLostWhereBothOperateOnOneWord) {
  constexpr uint64_t kTimes = 200'000;
  const auto body = [](Rank& rank) -> std::string {
    const Shared memory(rank);
    const auto fetch_add = rank.module->atomic(rank.endpoint, NP_ATOMIC_FETCH_ADD);
    const auto add = rank.module->atomic(rank.endpoint, NP_ATOMIC_ADD);
    const double one = 1;
    uint64_t before = 0, last = 0;
    rank.meet();
    for (uint64_t i = 0; i < kTimes; ++i) {
      if (rank.context.rank == 0) {
        np_status s = fetch_add(rank.endpoint, 1, &memory.theirs, 64, 1, 0, &before);
        if (s == NP_OK) s = add(rank.endpoint, 1, &memory.theirs, 128, 1, 0, nullptr);
        if (s == NP_OK) s = rank.module->accumulate(rank.endpoint, 1, &one, &memory.theirs, 192, 1);
        if (s != NP_OK) return failed(rank, "adding", s);
        if (i > 0 && before <= last) return "what was fetched went back";
        last = before;
        continue;
      }
      for (const size_t at : {64, 128}) {
        __atomic_fetch_add(reinterpret_cast<uint64_t*>(memory.own + at), 1, __ATOMIC_SEQ_CST);
      }
      std::atomic_ref(*reinterpret_cast<double*>(memory.own + 192)).fetch_add(1);
    }
    rank.meet();
    if (rank.context.rank == 0) return "";
    double sum = 0;
    std::memcpy(&sum, memory.own + 192, sizeof sum);
    return memory.word(64) == 2 * kTimes && memory.word(128) == 2 * kTimes && sum == 2.0 * kTimes ? "" : "one was lost";
  };
  EXPECT_EQ("", run_connected("shm", body).both());
}

// In memory that is mapped, and (as rank 1 sees it) in memory that only the kernel reaches.
TEST(ShmWords, BlocksThatLieApartAreMovedAndNothingElse) {
  const auto body = [](Rank& rank) -> std::string {
    Shared memory(rank);
    const netpipe::Layer& m = *rank.module;
    std::memset(memory.own, 0xEE, kBytes);
    if (rank.context.rank == 1) memory.theirs.word[0] = 0;  // kRegionLocal: as if it could not be mapped
    rank.meet();
    for (const size_t block : {4, 8, 24}) {
      const np_strided shape = {block, 50, block + 8, 3 * block};
      const Bytes near = pattern(50 * shape.near_stride, 5);
      Bytes back(near.size(), 0x11), wanted(near.size(), 0x11);
      for (size_t i = 0; i < 50; ++i) {
        std::memcpy(wanted.data() + i * shape.near_stride, near.data() + i * shape.near_stride, block);
      }
      np_status s = m.put_strided(rank.endpoint, memory.peer(), near.data(), &memory.theirs, 8, &shape);
      if (s == NP_OK) s = m.get_strided(rank.endpoint, memory.peer(), back.data(), &memory.theirs, 8, &shape);
      if (s != NP_OK) return failed(rank, "blocks", s);
      if (back != wanted) return "blocks of " + std::to_string(block) + " came back wrong";
      rank.meet();
      for (size_t i = 0; i < 50 * shape.far_stride + 8; ++i) {
        const bool inside = i >= 8 && (i - 8) % shape.far_stride < block;
        const size_t from = inside ? (i - 8) / shape.far_stride * shape.near_stride + (i - 8) % shape.far_stride : 0;
        if (memory.own[i] != (inside ? near[from] : 0xEE)) return "byte " + std::to_string(i) + " was put wrong";
      }
      rank.meet();
      std::memset(memory.own, 0xEE, kBytes);
      rank.meet();
    }
    const np_strided large = {8, kBytes / 16 + 1, 8, 16};
    const Bytes near(kBytes);
    return expect(rank, m.put_strided(rank.endpoint, memory.peer(), near.data(), &memory.theirs, 0, &large), NP_USAGE,
                  "are not within the");
  };
  EXPECT_EQ("", run_connected("shm", body).both());
}

TEST(ShmWords, NumbersAreAddedUp) {
  const auto body = [](Rank& rank) -> std::string {
    const Shared memory(rank);
    const std::vector<double> more = {1.5, -2.0, 1e300};
    for (int i = 0; i < 4; ++i) {
      const np_status s = rank.module->accumulate(rank.endpoint, memory.peer(), more.data(), &memory.theirs, 40, 3);
      if (s != NP_OK) return failed(rank, "accumulate", s);
    }
    rank.meet();
    std::vector<double> sums(5);
    std::memcpy(sums.data(), memory.own + 32, 5 * sizeof(double));
    return sums == std::vector<double>{0, 6, -8, 4e300, 0} ? "" : "the sums are wrong";
  };
  EXPECT_EQ("", run_connected("shm", body).both());
}

TEST(ShmWords, NumbersAreFetchedBeforeTheyAreAddedTo) {
  const auto body = [](Rank& rank) -> std::string {
    const Shared memory(rank);
    const std::vector<double> more = {1.5, -2.0, 1e300};
    std::vector<double> before(4, 7.0);
    for (int i = 0; i < 4; ++i) {
      const np_status s = rank.module->fetch_accumulate(rank.endpoint, memory.peer(), more.data(), before.data(),
                                                        &memory.theirs, 40, 3);
      if (s != NP_OK) return failed(rank, "fetch_accumulate", s);
      if (before != std::vector<double>{i * 1.5, i * -2.0, i * 1e300, 7}) return "other numbers were fetched";
    }
    rank.meet();
    std::vector<double> sums(5);
    std::memcpy(sums.data(), memory.own + 32, 5 * sizeof(double));
    return sums == std::vector<double>{0, 6, -8, 4e300, 0} ? "" : "the sums are wrong";
  };
  EXPECT_EQ("", run_connected("shm", body).both());
}

TEST(ShmWords, WordsThatAreNoneAreRefused) {
  const auto body = [](Rank& rank) -> std::string {
    const Shared memory(rank);
    const auto add = rank.module->atomic(rank.endpoint, NP_ATOMIC_ADD);
    const auto at = [&](size_t offset) {
      return add(rank.endpoint, memory.peer(), &memory.theirs, offset, 1, 0, nullptr);
    };
    std::string wrong = expect(rank, at(12), NP_USAGE, "no multiple of 8");
    wrong += expect(rank, at(kBytes), NP_USAGE, "not within");
    wrong += expect(rank, at(SIZE_MAX - 7), NP_USAGE, "not within");
    const double one = 1;
    wrong += expect(rank, rank.module->accumulate(rank.endpoint, memory.peer(), &one, &memory.theirs, kBytes - 8, 2),
                    NP_USAGE, "not within");
    double before = 7;
    wrong += expect(
        rank, rank.module->fetch_accumulate(rank.endpoint, memory.peer(), &one, &before, &memory.theirs, kBytes, 1),
        NP_USAGE, "not within");
    if (before != 7) wrong += "; something was fetched";
    rank.meet();
    return wrong;
  };
  EXPECT_EQ("", run_connected("shm", body).both());
}

// ------------------------------------------------------------------------------------------------- values behind puts

class Signals : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Shm, Signals,
                         testing::Values("shm", "shm:wait=block", "shm:wait=hybrid,spin_us=5", "shm:copy=cma"),
                         [](const auto& param) { return test_name(param.param); });

// More of them than there are slots, so the sender has to wait for a receiver that is late.
TEST_P(Signals, EveryValueComesInItsOrderAndBehindItsBytes) {
  constexpr uint64_t kTimes = 5000;
  const auto body = [](Rank& rank) -> std::string {
    const Shared memory(rank);
    const netpipe::Layer& m = *rank.module;
    for (uint64_t i = 0; i < kTimes; ++i) {
      if (rank.context.rank == 0) {
        const size_t place = 8 * (i % (kBytes / 8));
        const np_status s = m.put_signal(rank.endpoint, 1, &i, &memory.theirs, place, sizeof i, i * 7 + 1);
        if (s != NP_OK) return failed(rank, "put_signal", s);
        continue;
      }
      if (i == 0) usleep(20'000);
      uint64_t value = 0;
      if (const np_status s = m.await_signal(rank.endpoint, 0, &value); s != NP_OK) return failed(rank, "await", s);
      if (value != i * 7 + 1) return "value " + std::to_string(value) + " came as number " + std::to_string(i);
      if (memory.word(8 * (i % (kBytes / 8))) != i) return "a signal overtook its bytes";
    }
    rank.meet();
    return "";
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

// full: the sender waits for room; else a receiver for a value.
std::string wait_for_what_never_comes(Rank& rank, bool full, np_status wanted, const char* words) {
  const Shared memory(rank);
  const netpipe::Layer& m = *rank.module;
  rank.meet();
  if (rank.context.rank == 1) {
    if (wanted == NP_PEER_LOST) raise(SIGKILL);
    rank.meet();
    return "";
  }
  uint64_t value = 0;
  np_status status = NP_OK;
  if (!full) status = m.await_signal(rank.endpoint, 1, &value);
  for (int i = 0; i < 1000 && full && status == NP_OK; ++i) {
    status = m.put_signal(rank.endpoint, 1, &value, &memory.theirs, 0, sizeof value, 1);
  }
  if (wanted != NP_PEER_LOST) rank.meet();
  return expect(rank, status, wanted, words);
}

TEST_P(Signals, AKilledPeerEndsBothWaits) {
  for (const bool full : {false, true}) {
    const auto body = [full](Rank& rank) {
      return wait_for_what_never_comes(rank, full, NP_PEER_LOST, "rank 1 (process ");
    };
    const Outcome outcome = run_connected(GetParam(), body);
    EXPECT_EQ("", outcome.said[0]) << full;
    EXPECT_EQ("killed", outcome.said[1]);
  }
}

TEST_P(Signals, AbortEndsBothWaits) {
  for (const bool full : {false, true}) {
    const auto body = [full](Rank& rank) {
      struct sigaction action{};  // as the core's watchdog
      action.sa_handler = [](int) { abort_flag = 1; };
      sigaction(SIGALRM, &action, nullptr);
      const itimerval every = {{0, 50'000}, {0, 50'000}};
      if (rank.context.rank == 0) setitimer(ITIMER_REAL, &every, nullptr);
      return wait_for_what_never_comes(rank, full, NP_ABORTED, "gave up");
    };
    EXPECT_EQ("", run_connected(GetParam(), body).both()) << full;
  }
}

}  // namespace
