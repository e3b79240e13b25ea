// SPDX-License-Identifier: Apache-2.0
// null and memcpy: the two modules that stay in one process.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "catalog/unsupported.h"
#include "netpipe/module.h"
#include "two_ranks.h"

namespace {

using namespace two_ranks;

// One rank, alone. open() comes in the tests, because some of them want it refused.
std::unique_ptr<Rank> alone(const std::string& variant) {
  auto rank = std::make_unique<Rank>(variant, 0, -1);
  rank->context.nranks = 1;
  return rank;
}

np_limits limits_of(const Rank& rank) {
  np_limits limits{.size = sizeof limits, .delivers = 1};
  EXPECT_EQ(NP_OK, rank.module->limits(rank.endpoint, &limits));
  return limits;
}

TEST(Null, AnswersEveryOperationAtOnceAndSaysThatNothingArrives) {
  const auto rank = alone("null");
  ASSERT_EQ(NP_OK, rank->open());
  EXPECT_EQ(0U, limits_of(*rank).delivers);
  const netpipe::Layer& m = *rank->module;
  np_endpoint* e = rank->endpoint;
  char here = 1, there = 2;
  np_request request{};
  np_region region{};
  EXPECT_EQ(NP_OK, m.send(e, 0, &here, 1));
  EXPECT_EQ(NP_OK, m.recv(e, 0, &there, 1));
  EXPECT_EQ(NP_OK, m.isend(e, 0, &here, 0, 1, &request, 1));
  EXPECT_EQ(NP_OK, m.test(e, &request));
  EXPECT_EQ(NP_OK, m.irecv(e, 0, &there, 0, 1, &request, 1));
  EXPECT_EQ(NP_OK, m.wait(e, &request, 1));
  EXPECT_EQ(NP_OK, m.expose(e, &there, 1, &region));
  EXPECT_EQ(&there, region.base);
  EXPECT_EQ(NP_OK, m.attach(e, 0, &region));
  EXPECT_EQ(NP_OK, m.put(e, 0, &here, &region, 0, 1));
  EXPECT_EQ(NP_OK, m.get(e, 0, &here, &region, 0, 1));
  EXPECT_EQ(NP_OK, m.flush(e, 0));
  EXPECT_EQ(NP_OK, m.fence(e));
  np_prepared prepared{};
  const np_collective_plan plan{.size = sizeof plan, .what = NP_ALLTOALL, .count = 1};
  ASSERT_EQ(NP_OK, m.np_collectives::prepare(e, &plan, &prepared));
  EXPECT_EQ(NP_OK, prepared.call(e, prepared.state, &here, &there, nullptr));
  m.release(e, &prepared);
  EXPECT_EQ(NP_OK, m.barrier(e));
  m.withdraw(e, &region);
  EXPECT_EQ(1, here);
  EXPECT_EQ(2, there);
}

// ------------------------------------------------------------------------------------------------ memcpy

class EveryRoutine : public testing::TestWithParam<const char*> {
 protected:
  // False where this processor cannot run it, which the module must have said.
  static bool opened(Rank& rank) {
    const np_status status = rank.open();
    if (status == NP_OK) return true;
    EXPECT_EQ(NP_UNAVAILABLE, status);
    EXPECT_NE(std::string::npos, rank.said().find("needs a processor with")) << rank.said();
    return false;
  }
};
INSTANTIATE_TEST_SUITE_P(Memcpy, EveryRoutine,
                         testing::Values("glibc", "byte", "word4", "word4_tail", "movsb", "avx2", "avx512",
                                         "nontemporal"),
                         [](const auto& param) { return test_name(param.param); });

// Sizes around every width that a routine works in, at offsets that no routine likes.
std::vector<size_t> sizes() {
  std::vector<size_t> all;
  for (size_t bytes = 0; bytes <= 300; ++bytes) all.push_back(bytes);
  for (const size_t bytes : {511, 512, 513, 1023, 4095, 4096, 4097, 65535, 65537}) all.push_back(bytes);
  return all;
}
constexpr size_t kOffsets[] = {0, 1, 3, 4, 15, 31, 32, 63};

TEST_P(EveryRoutine, PutAndGetMoveEveryByteAndNoOther) {
  const auto rank = alone(std::string("memcpy:routine=") + GetParam());
  if (!opened(*rank)) GTEST_SKIP() << rank->said();
  EXPECT_EQ(1U, limits_of(*rank).delivers);
  const Bytes source = pattern(70'000, 3), untouched(70'000, 0xEE);
  for (const size_t bytes : sizes()) {
    for (const size_t from : kOffsets) {
      for (const size_t to : kOffsets) {
        if (bytes > 300 && from != to && from != 0) continue;
        Bytes wanted = untouched;
        std::memcpy(wanted.data() + to, source.data() + from, bytes);
        const size_t seen = bytes + 256;
        for (const bool put : {true, false}) {
          Bytes target(untouched.begin(), untouched.begin() + static_cast<std::ptrdiff_t>(seen));
          np_region region{};
          void* exposed = put ? target.data() : const_cast<unsigned char*>(source.data());
          ASSERT_EQ(NP_OK, rank->module->expose(rank->endpoint, exposed, put ? seen : source.size(), &region));
          ASSERT_EQ(NP_OK, rank->module->attach(rank->endpoint, 0, &region));
          const np_status status = put ? rank->module->put(rank->endpoint, 0, source.data() + from, &region, to, bytes)
                                       : rank->module->get(rank->endpoint, 0, target.data() + to, &region, from, bytes);
          ASSERT_EQ(NP_OK, status) << rank->said();
          ASSERT_EQ(0, std::memcmp(target.data(), wanted.data(), seen))
              << bytes << " bytes from offset " << from << " to offset " << to << (put ? ", put" : ", get");
          rank->module->withdraw(rank->endpoint, &region);
        }
      }
    }
  }
}

TEST_P(EveryRoutine, FillWritesEveryByteOfTheMessageAndNoOther) {
  const auto rank = alone(std::string("memcpy:op=fill,routine=") + GetParam());
  if (!opened(*rank)) GTEST_SKIP() << rank->said();
  EXPECT_EQ(0U, limits_of(*rank).delivers);
  const Bytes source(70'000, 0xEE);
  for (const size_t bytes : sizes()) {
    for (const size_t to : kOffsets) {
      Bytes target(bytes + 256, 0xEE), wanted(bytes + 256, 0xEE);
      std::memset(wanted.data() + to, 0x5A, bytes);
      np_region region{};
      ASSERT_EQ(NP_OK, rank->module->expose(rank->endpoint, target.data(), target.size(), &region));
      ASSERT_EQ(NP_OK, rank->module->put(rank->endpoint, 0, source.data(), &region, to, bytes));
      ASSERT_EQ(wanted, target) << bytes << " bytes at offset " << to;
    }
  }
}

TEST_P(EveryRoutine, ReadWritesNothingOrSaysThatItDoesNotExist) {
  const auto rank = alone(std::string("memcpy:op=read,routine=") + GetParam());
  const np_status status = rank->open();
  const std::vector<std::string> texts{GetParam(), "read"}, defaults{"glibc", "copy"};
  const std::string why = netpipe::why_unsupported({rank->module->options, 2}, texts, defaults);
  EXPECT_EQ(status == NP_USAGE, !why.empty()) << "a plan refuses what cannot be opened, and nothing else: " << why;
  if (status == NP_USAGE) return;
  if (status != NP_OK) GTEST_SKIP() << rank->said();
  EXPECT_EQ(0U, limits_of(*rank).delivers);
  const Bytes source = pattern(70'000, 3);
  for (const size_t bytes : sizes()) {
    Bytes target(bytes + 1, 0xEE);
    np_region region{};
    ASSERT_EQ(NP_OK, rank->module->expose(rank->endpoint, target.data(), target.size(), &region));
    ASSERT_EQ(NP_OK, rank->module->put(rank->endpoint, 0, source.data(), &region, 0, bytes));
    ASSERT_EQ(Bytes(bytes + 1, 0xEE), target);
  }
}

TEST(Memcpy, RefusesToCopyABufferOntoItself) {
  const auto rank = alone("memcpy");
  ASSERT_EQ(NP_OK, rank->open());
  Bytes memory(1000);
  np_region region{};
  ASSERT_EQ(NP_OK, rank->module->expose(rank->endpoint, memory.data(), memory.size(), &region));
  const auto put = [&](size_t from, size_t to, size_t bytes) {
    rank->message[0] = 0;
    return rank->module->put(rank->endpoint, 0, memory.data() + from, &region, to, bytes);
  };
  for (const size_t from : {1, 99, 100, 101, 199}) {
    EXPECT_EQ("", expect(*rank, put(from, 100, 100), NP_USAGE, "overlap")) << from;
    EXPECT_EQ("", expect(*rank, put(100, from, 100), NP_USAGE, "overlap")) << from;
  }
  // What only touches is no overlap.
  EXPECT_EQ(NP_OK, put(0, 100, 100));
  EXPECT_EQ(NP_OK, put(100, 0, 100));
}

TEST(Memcpy, RefusesAMessageThatIsNotWithinItsRegion) {
  const auto rank = alone("memcpy");
  ASSERT_EQ(NP_OK, rank->open());
  Bytes memory(1000), other(1000);
  np_region region{};
  ASSERT_EQ(NP_OK, rank->module->expose(rank->endpoint, memory.data(), memory.size(), &region));
  const auto put = [&](size_t offset, size_t bytes) {
    rank->message[0] = 0;
    return rank->module->put(rank->endpoint, 0, other.data(), &region, offset, bytes);
  };
  EXPECT_EQ(NP_OK, put(0, 1000));
  EXPECT_EQ(NP_OK, put(1000, 0));
  EXPECT_EQ("", expect(*rank, put(0, 1001), NP_USAGE, "not within the region"));
  EXPECT_EQ("", expect(*rank, put(1, 1000), NP_USAGE, "not within the region"));
  EXPECT_EQ("", expect(*rank, put(SIZE_MAX, 2), NP_USAGE, "not within the region"));
}

// Blocks of several widths, of a row on one side and of a column on the other; what lies between them stays as it was.
TEST_P(EveryRoutine, BlocksThatLieApartAreMovedAndNothingElse) {
  const auto rank = alone(std::string("memcpy:routine=") + GetParam());
  if (!opened(*rank)) GTEST_SKIP() << rank->said();
  for (const size_t block : {1, 4, 8, 13, 16, 24, 200}) {
    const np_strided shape = {block, 37, block + 8, 3 * block};
    const size_t near_bytes = 37 * shape.near_stride, far_bytes = 36 * shape.far_stride + block;
    const Bytes near = pattern(near_bytes, 5);
    Bytes far(far_bytes + 8, 0xEE), back(near_bytes, 0x11), wanted_far = far, wanted_back = back;
    for (size_t i = 0; i < 37; ++i) {
      std::memcpy(wanted_far.data() + 8 + i * shape.far_stride, near.data() + i * shape.near_stride, block);
      std::memcpy(wanted_back.data() + i * shape.near_stride, near.data() + i * shape.near_stride, block);
    }
    np_region region{};
    ASSERT_EQ(NP_OK, rank->module->expose(rank->endpoint, far.data(), far.size(), &region));
    ASSERT_EQ(NP_OK, rank->module->put_strided(rank->endpoint, 0, near.data(), &region, 8, &shape)) << rank->said();
    EXPECT_EQ(wanted_far, far) << block;
    ASSERT_EQ(NP_OK, rank->module->get_strided(rank->endpoint, 0, back.data(), &region, 8, &shape)) << rank->said();
    EXPECT_EQ(wanted_back, back) << block;
    EXPECT_EQ("", expect(*rank, rank->module->put_strided(rank->endpoint, 0, near.data(), &region, 9, &shape), NP_USAGE,
                         "not within the region"));
    rank->message[0] = 0;
    EXPECT_EQ("", expect(*rank, rank->module->put_strided(rank->endpoint, 0, far.data() + 8, &region, 8, &shape),
                         NP_USAGE, "overlap"));
    rank->message[0] = 0;
  }
}

TEST(Memcpy, SaysWhatItIsMadeOf) {
  const auto rank = alone("memcpy:routine=word4");
  ASSERT_EQ(NP_OK, rank->open());
  Texts said = rank->settings();
  EXPECT_EQ("word4", said["routine"]);
  EXPECT_EQ("copy", said["op"]);
  EXPECT_NE(std::string::npos, said["instructions"].find("4-byte words"));
}

}  // namespace
