// SPDX-License-Identifier: Apache-2.0
// cma: messages of every size in both directions, many at once, and blocks that lie apart.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "netpipe/module.h"
#include "two_ranks.h"

namespace {

using namespace two_ranks;

const char* const kVariants[] = {"cma",
                                 "cma:wait=block",
                                 "cma:wait=hybrid,spin_us=20",
                                 "cma:direction=write",
                                 "cma:direction=write,wait=block",
                                 "cma:direction=write,wait=hybrid"};

class EveryCmaVariant : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Cma, EveryCmaVariant, testing::ValuesIn(kVariants),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(EveryCmaVariant, BouncesEveryByteOfEverySize) {
  const std::vector<size_t> sizes = {0, 1, 7, 4095, 4096, 4097, 65536, 300001, kMiB + 1, 8 * kMiB - 3, 1, 0};
  EXPECT_EQ("", run_connected(GetParam(), [&](Rank& rank) { return bounce(rank, sizes); }).both());
}

// More than there are slots, waited for from the last, and both ranks send before they wait.
TEST_P(EveryCmaVariant, ManyRequestsInFlightComplete) {
  const auto body = [](Rank& rank) -> std::string {
    constexpr size_t kCount = 200;
    const auto me = static_cast<uint64_t>(rank.context.rank);
    std::vector<Bytes> out(kCount), got(kCount);
    std::vector<np_request> leaving(kCount), coming(kCount);
    for (size_t i = 0; i < kCount; ++i) {
      out[i] = pattern(i * 37, 1000 * me + i);
      got[i].resize(i * 37);
      if (const np_status s = rank.irecv(got[i], coming[i]); s != NP_OK) return failed(rank, "irecv", s);
      if (const np_status s = rank.isend(out[i], leaving[i]); s != NP_OK) return failed(rank, "isend", s);
    }
    for (size_t i = 0; i < kCount; ++i) {
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
      std::string wrong = expect_same(got[i], pattern(i * 37, 1000 * (1 - me) + i), "request " + std::to_string(i));
      if (!wrong.empty()) return wrong;
    }
    return bounce(rank, {1, 100'000});
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

TEST(Cma, MovesMoreThanTwoGib) { EXPECT_EQ("", run_connected("cma", move_more_than_two_gib).both()); }

// Blocks of a row here and of a column there, more of them than one call takes.
std::string strided(Rank& rank) {
  constexpr size_t kBlock = 24, kBlocks = 2500, kNear = 32, kFar = 104;
  constexpr size_t kFarBytes = (kBlocks - 1) * kFar + kBlock;
  const np_strided shape = {kBlock, kBlocks, kNear, kFar};
  const netpipe::Layer& m = *rank.module;
  const int peer = 1 - rank.context.rank;
  Bytes exposed(kFarBytes + 8, 0xee), near = pattern(kBlocks * kNear, 5);
  np_region mine{}, theirs{};
  if (const np_status s = m.expose(rank.endpoint, exposed.data(), exposed.size(), &mine); s != NP_OK) {
    return failed(rank, "expose", s);
  }
  const auto base = reinterpret_cast<uint64_t>(mine.base);
  const Bytes there = rank.exchange(Bytes(reinterpret_cast<const unsigned char*>(&base),
                                          reinterpret_cast<const unsigned char*>(&base) + sizeof base));
  std::memcpy(&theirs.base, there.data(), sizeof theirs.base);
  theirs.bytes = exposed.size();
  if (const np_status s = m.attach(rank.endpoint, peer, &theirs); s != NP_OK) return failed(rank, "attach", s);
  if (rank.context.rank == 0) {
    const np_status s = m.put_strided(rank.endpoint, peer, near.data(), &theirs, 8, &shape);
    if (s != NP_OK) return failed(rank, "put_strided", s);
    Bytes back(near.size(), 0x11);
    const np_status g = m.get_strided(rank.endpoint, peer, back.data(), &theirs, 8, &shape);
    if (g != NP_OK) return failed(rank, "get_strided", g);
    for (size_t i = 0; i < back.size(); ++i) {
      const unsigned char wanted = i % kNear < kBlock ? near[i] : 0x11;
      if (back[i] != wanted) return "byte " + std::to_string(i) + " came back wrong";
    }
  }
  rank.meet();
  for (size_t i = 0; rank.context.rank == 1 && i < exposed.size(); ++i) {
    const bool inside = i >= 8 && (i - 8) % kFar < kBlock;
    const unsigned char wanted = inside ? near[(i - 8) / kFar * kNear + (i - 8) % kFar] : 0xee;
    if (exposed[i] != wanted) return "byte " + std::to_string(i) + " was put wrong";
  }
  return "";
}
TEST(Cma, BlocksThatLieApart) { EXPECT_EQ("", run_connected("cma", strided).both()); }

TEST(Cma, MemoryThatTheOtherLacksIsASentence) {
  const auto body = [](Rank& rank) -> std::string {
    std::string wrong;
    if (rank.context.rank == 0) {
      np_region nowhere{};
      nowhere.base = reinterpret_cast<void*>(uint64_t{4096});  // NOLINT(performance-no-int-to-ptr)
      char byte = 0;
      const np_status s = rank.module->get(rank.endpoint, 1, &byte, &nowhere, 0, 1);
      wrong = expect(rank, s, NP_FAILED, "Bad address");
    }
    rank.meet();
    return wrong;
  };
  EXPECT_EQ("", run_connected("cma", body).both());
}

TEST(Cma, MessagesOfTwoSizesAreASentence) {
  const auto body = [](Rank& rank) -> std::string {
    Bytes data(rank.context.rank == 0 ? 10 : 11);
    if (rank.context.rank == 0) {
      np_request request;
      const np_status s = rank.isend(data, request);
      rank.meet();
      return s == NP_OK ? "" : failed(rank, "isend", s);
    }
    std::string wrong = expect(rank, rank.recv(data.data(), data.size()), NP_FAILED,
                               "has a message of 10 bytes where rank 1 has one of");
    rank.meet();
    return wrong;
  };
  EXPECT_EQ("", run_connected("cma", body).both());
}

}  // namespace
