// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/memory/buffer_pool.h"
#include "machine/memory.h"

namespace netpipe {
namespace {

constexpr std::uint64_t mib = 1U << 20;

const Layer& plain_module() {
  static const Layer module = [] {
    Layer m;
    m.name = "plain";
    return m;
  }();
  return module;
}

PoolNeed need_of(const BufferPolicy& policy, std::uint64_t max_bytes, bool verify = false) {
  PoolNeed need;
  need.place_bytes = max_bytes;
  need.offset_bytes = std::max(policy.send_offset_bytes, policy.recv_offset_bytes);
  need.spreads = policy.kind == Buffers::cold;
  need.verify = verify;
  return need;
}

std::unique_ptr<BufferPool> made(const PoolNeed& need) {
  Result<std::unique_ptr<BufferPool>> pool = BufferPool::make(plain_module(), nullptr, need, 1);
  if (pool) return std::move(*pool);
  ADD_FAILURE() << pool.failure().sentence;
  return nullptr;
}

// One half of a pool, as the places in it tell.
struct Half {
  const char* begin;
  const char* end;
};
Half half_of(const Slots& slots, std::uint64_t offset, const BufferPool& pool, std::uint64_t margin = 0) {
  const char* begin = slots.base() - offset - margin;
  return {begin, begin + pool.bytes() / 2};
}

// Every place lies with its guard in its half, keeps the offset from a line, and ends before the next one begins.
// margin: bytes before the first and behind the last that are watched.
void expect_places(const Slots& slots, std::uint64_t size_bytes, std::uint64_t offset, const Half& half,
                   std::uint64_t margin = 0) {
  ASSERT_GE(slots.count(), 1U);
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(half.begin) % 4096, 0U);
  for (std::uint32_t i = 0; i < slots.count(); ++i) {
    const char* place = slots.at(i);
    ASSERT_GE(place, half.begin + margin + offset);
    ASSERT_LE(place + size_bytes + guard_bytes + margin, half.end);
    ASSERT_EQ(static_cast<std::uint64_t>(place - half.begin) % 64, offset % 64);
    if (i == 0) continue;
    ASSERT_GE(place, slots.at(i - 1) + size_bytes + guard_bytes);
  }
}

int filled_by_table = 0;

np_memory kind_of(bool host_access) {
  np_memory memory{};
  memory.size = sizeof memory;
  memory.kind = host_access ? NP_MEMORY_LAYER : NP_MEMORY_DEVICE;
  memory.host_access = host_access ? 1 : 0;
  memory.alloc = [](np_endpoint*, std::size_t bytes, void** memory_of_it) {
    *memory_of_it = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *memory_of_it == nullptr ? NP_NO_MEMORY : NP_OK;
  };
  memory.free = [](np_endpoint*, void* memory_of_it, std::size_t) { std::free(memory_of_it); };
  memory.fill = [](np_endpoint*, void*, int, std::size_t) {
    ++filled_by_table;
    return NP_OK;
  };
  return memory;
}

TEST(Buffers, EachHalfIsOfTheKindThatTheLimitsName) {
  Layer module;
  module.name = "mixed";
  module.memory_kinds = {kind_of(false), kind_of(true)};
  for (const std::uint32_t outgoing : {0U, 1U}) {
    np_limits limits{};
    limits.outgoing_memory = outgoing;
    limits.incoming_memory = 1 - outgoing;
    filled_by_table = 0;
    auto pool = BufferPool::make(module, nullptr, need_of({}, 1000), 1, limits);
    ASSERT_TRUE(pool);
    EXPECT_EQ(filled_by_table, 1);  // of the device, that the processor does not write to
    Memory& memory = (*pool)->memory();
    EXPECT_FALSE(memory.of_host());
    EXPECT_EQ(memory.of_host((*pool)->outgoing_base()), outgoing == 1);
    EXPECT_EQ(memory.of_host((*pool)->incoming_base()), outgoing == 0);
    EXPECT_EQ(memory.of_host((*pool)->token_in()), outgoing == 0);
  }
  EXPECT_FALSE(module.has_memory_at(2));
  EXPECT_TRUE(module.has_memory_at(1));
}

TEST(Buffers, HavePlacesThatNeverOverlapAndKeepTheirOffset) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 60; ++i) {
    BufferPolicy policy;
    policy.send_offset_bytes = random() % (i % 3 == 0 ? 10'000 : 64);
    policy.recv_offset_bytes = random() % (i % 3 == 1 ? 10'000 : 64);
    const std::uint64_t max_bytes = 1 + random() % (i % 2 == 0 ? 200 : 300'000);
    const bool verify = i % 10 == 0;
    const std::unique_ptr<BufferPool> pool = made(need_of(policy, max_bytes, verify));
    ASSERT_TRUE(pool);
    for (const std::uint64_t size : {std::uint64_t{1}, 1 + random() % max_bytes, max_bytes}) {
      const std::uint32_t many = verify ? 5000 : 1 + static_cast<std::uint32_t>(random() % 20);
      const Slots out = pool->outgoing(policy, size, many);
      const Slots in = pool->incoming(policy, size, many);
      const std::uint64_t margin = verify ? watched_bytes : 0;
      const Half out_half = half_of(out, policy.send_offset_bytes, *pool, margin);
      const Half in_half = half_of(in, policy.recv_offset_bytes, *pool, margin);
      EXPECT_EQ(in_half.begin, pool->incoming_base());
      EXPECT_TRUE(out_half.end <= in_half.begin || in_half.end <= out_half.begin);
      ASSERT_NO_FATAL_FAILURE(expect_places(out, size, policy.send_offset_bytes, out_half, margin));
      ASSERT_NO_FATAL_FAILURE(expect_places(in, size, policy.recv_offset_bytes, in_half, margin));
    }
  }
}

TEST(Buffers, AreAlwaysTheSamePlaceWhenWarm) {
  const std::unique_ptr<BufferPool> pool = made(need_of({}, 65536, false));
  ASSERT_TRUE(pool);
  Slots slots = pool->outgoing({}, 8);
  EXPECT_EQ(slots.count(), 1U);
  char* const first = slots.take();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(slots.take(), first);
  EXPECT_EQ(pool->outgoing({}, 8).take(), first) << "also in the next visit";
  EXPECT_EQ(pool->outgoing({}, 65536).take(), first) << "also for another size";
}

TEST(Buffers, GiveAsManyPlacesAsAreAskedForAndFit) {
  const std::unique_ptr<BufferPool> pool = made(need_of({}, 1000, true));
  ASSERT_TRUE(pool);
  EXPECT_EQ(pool->incoming({}, 1000, 100).count(), 100U);
  const std::uint32_t all = pool->incoming({}, 1000, UINT32_MAX).count();
  EXPECT_GE(all, 16U * mib / 1088);  // 1000 and the guard, rounded up to lines
  EXPECT_LE(static_cast<std::uint64_t>(all) * 1088, pool->bytes() / 2);
}

// One message to start the clock and one that is timed, or there and back: no visit has fewer, and each is looked at.
TEST(Buffers, HaveTwoPlacesForTheLargestMessageThatIsVerified) {
  for (const std::uint64_t size : {std::uint64_t{1}, 8 * mib, 8 * mib + 3, 20 * mib}) {
    BufferPolicy policy;
    policy.recv_offset_bytes = 77;
    const std::unique_ptr<BufferPool> pool = made(need_of(policy, size, true));
    ASSERT_TRUE(pool);
    EXPECT_GE(pool->incoming(policy, size, UINT32_MAX).count(), 2U) << size;
    EXPECT_GE(pool->outgoing(policy, size, UINT32_MAX).count(), 2U) << size;
  }
}

// Both hosts of a run have to come to the same number of messages, and the pools of cold places follow each one's
// cache.
TEST(Buffers, HaveAPlaceForEveryMessageThatMayBeVerified) {
  for (const bool cold : {false, true}) {
    for (const std::uint64_t max_bytes : {std::uint64_t{1}, 5 * mib, 8 * mib + 3, 17'000'000UL}) {
      BufferPolicy policy;
      policy.kind = cold ? Buffers::cold : Buffers::warm;
      policy.send_offset_bytes = 13;
      policy.recv_offset_bytes = 4099;
      const std::unique_ptr<BufferPool> pool = made(need_of(policy, max_bytes, true));
      ASSERT_TRUE(pool);
      for (const std::uint64_t size : {std::uint64_t{1}, max_bytes / 2 + 1, max_bytes}) {
        const std::uint64_t places = verified_places(need_of(policy, max_bytes), size);
        EXPECT_GE(places, 2U) << size;
        EXPECT_LE(places, pool->incoming(policy, size, UINT32_MAX).count()) << size;
        EXPECT_LE(places, pool->outgoing(policy, size, UINT32_MAX).count()) << size;
        policy.kind = cold ? Buffers::warm : Buffers::cold;
        EXPECT_EQ(verified_places(need_of(policy, max_bytes), size), places) << size;
        policy.kind = cold ? Buffers::cold : Buffers::warm;
      }
    }
  }
}

TEST(Buffers, HoldWhatIsUnderWayAtOnceAndATokenBesideIt) {
  BufferPolicy policy;
  policy.recv_offset_bytes = 4099;
  PoolNeed need = need_of(policy, 65536);
  need.at_once_bytes = places_bytes(64, 65536);
  const std::unique_ptr<BufferPool> pool = made(need);
  ASSERT_TRUE(pool);
  const Slots places = pool->incoming(policy, 65536, 64);
  EXPECT_EQ(places.count(), 64U);
  for (std::uint64_t i = 1; i < 64; ++i) EXPECT_GE(places.at(i) - places.at(i - 1), 65536 + guard_bytes);
  EXPECT_GE(pool->token_in(), places.at(63) + 65536 + guard_bytes);
  EXPECT_LT(pool->token_in(), pool->incoming_base() + pool->bytes() / 2);
  EXPECT_GE(pool->token_out(), pool->outgoing(policy, 65536, 64).at(63) + 65536 + guard_bytes);
  EXPECT_EQ(pool->incoming(policy, 65536).count(), 1U) << "warm: the same place again";
}

TEST(Slots, AreTakenInTurnAndBeginWhereTheyAreRewoundTo) {
  std::vector<char> memory(256);
  Slots slots(memory.data(), 64, 3);
  for (const int i : {0, 1, 2, 0, 1}) EXPECT_EQ(slots.take(), memory.data() + 64 * i);
  slots.rewind();
  EXPECT_EQ(slots.take(), memory.data());
  slots.rewind(5);
  EXPECT_EQ(slots.next(), 2U);
  EXPECT_EQ(slots.take(), memory.data() + 128);
  EXPECT_EQ(slots.at(7), memory.data() + 64);
}

TEST(Slots, UseOnePlaceAgainAsOftenAsTheyAreTold) {
  std::vector<char> memory(1001);
  char* const again = memory.data() + 1000;
  for (const std::uint32_t percent : {1U, 25U, 50U, 99U}) {
    Slots slots(memory.data(), 1, 1000);
    slots.reuse(percent, again);
    std::vector<int> seen(1001);
    for (int i = 0; i < 400; ++i) ++seen[static_cast<std::size_t>(slots.take() - memory.data())];
    EXPECT_EQ(seen[1000], static_cast<int>(4 * percent));
    EXPECT_EQ(*std::max_element(seen.begin(), seen.end() - 1), 1) << "no other place twice";
    EXPECT_EQ(slots.places().count, 0U) << "a module must not think that it knows the order";
  }
}

// What fresh buffers promise: no byte of a page that a message was in, in this visit or in an earlier one.
TEST(FreshBuffers, LieInPagesOfTheirOwnThatNoMessageWasInBefore) {
  BufferPolicy policy;
  policy.kind = Buffers::fresh;
  policy.send_offset_bytes = 4099;
  const std::unique_ptr<BufferPool> pool = made(need_of(policy, 65536));
  ASSERT_TRUE(pool);
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  std::set<std::uintptr_t> pages;
  for (int visit = 0; visit < 20; ++visit) {
    for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{4096}, std::uint64_t{65536}}) {
      const Result<Slots> slots = pool->fresh(policy, policy.send_offset_bytes, size, 7);
      ASSERT_TRUE(slots) << slots.failure().sentence;
      ASSERT_EQ(slots->count(), 7U);
      EXPECT_EQ(slots->places().count, 0U) << "or the layer would know them beforehand";
      for (std::uint64_t i = 0; i < 7; ++i) {
        char* const place = slots->at(i);
        const auto from = reinterpret_cast<std::uintptr_t>(place);
        EXPECT_EQ(from % page, 4099 % page);
        for (std::uintptr_t at = from / page; at <= (from + size) / page; ++at) {
          EXPECT_TRUE(pages.insert(at).second) << "visit " << visit << ", place " << i;
        }
        // As far as verification looks, on both sides, it can be written to.
        std::fill(place - watched_bytes, place, 'b');
        std::fill(place + size, place + size + guard_bytes, 'a');
      }
      std::fill(slots->at(6) + size, slots->at(6) + size + watched_bytes, 'a');
    }
    pool->release_fresh();
  }
}

TEST(FreshBuffers, AreThereBeforeTheClockRunsAndGoneAfterwards) {
  FreshMemory memory(1ULL << 30U);
  const Result<char*> base = memory.map(64 * 4096, 4096);
  ASSERT_TRUE(base) << base.failure().sentence;
  std::vector<unsigned char> resident(64, 0);
  ASSERT_EQ(mincore(*base, 64UL * 4096, resident.data()), 0);
  for (const unsigned char one : resident) EXPECT_EQ(one & 1, 1);
  memory.unmap();
  EXPECT_DEATH(** base = 1, "");
  const Result<char*> next = memory.map(4096, 2U << 20U);
  ASSERT_TRUE(next);
  EXPECT_GE(*next, *base + 64L * 4096) << "addresses only rise";
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*next) % (2U << 20U), 0U);
}

TEST(FreshBuffers, EndWithASentenceWhenEveryAddressWasUsed) {
  FreshMemory memory(64ULL << 20U);
  int times = 0;
  Result<char*> last = memory.map(10U << 20U, 4096);
  for (; last && times < 100; ++times) {
    memory.unmap();
    last = memory.map(10U << 20U, 4096);
  }
  EXPECT_EQ(times, 6) << "what was given back is never handed out again";
  ASSERT_FALSE(last);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "fresh buffers have used 60M bytes of addresses", last.failure().sentence);
}

TEST(FreshBuffers, OfAVisitAreBoundedUnlessTheShortestVisitNeedsMore) {
  BufferPolicy policy;
  policy.kind = Buffers::fresh;
  for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{65536}, 8 * mib}) {
    const std::uint64_t messages = fresh_messages(policy, size, line_bytes, 2);
    EXPECT_LE(fresh_places(policy, messages) * fresh_stride(policy, size, line_bytes), 64 * mib);
    EXPECT_EQ(fresh_room(policy, size, line_bytes, 2),
              fresh_places(policy, messages) * fresh_stride(policy, size, line_bytes));
    policy = {.reuse_percent = 50};
    EXPECT_EQ(fresh_messages(policy, size, line_bytes, 2), 2 * messages) << "half of them need no pages";
    policy = {.kind = Buffers::fresh};
  }
  EXPECT_EQ(fresh_messages(policy, 64 * mib, line_bytes, 128), 128U);
  EXPECT_GT(fresh_room(policy, 1ULL << 61U, line_bytes, 128), 1ULL << 61U) << "no overflow";
}

TEST(Buffers, AreTouchedBeforeTheyAreUsed) {
  const std::unique_ptr<BufferPool> pool = made(need_of({}, 4 * mib, false));
  ASSERT_TRUE(pool);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (char* half : {pool->outgoing({}, 1).base(), pool->incoming({}, 1).base()}) {
    std::vector<unsigned char> resident(pool->bytes() / 2 / page, 0);
    ASSERT_EQ(mincore(half, resident.size() * page, resident.data()), 0);
    for (std::size_t i = 0; i < resident.size(); ++i) ASSERT_EQ(resident[i] & 1, 1) << "page " << i;
    EXPECT_EQ(half[0], half[pool->bytes() / 2 - 1]) << "written to: a page that was only read is the one zero page";
    EXPECT_NE(half[0], 0);
  }
}

TEST(ColdBuffers, AreLargerThanTwiceTheLastLevelCacheInEachDirection) {
  BufferPolicy policy;
  policy.kind = Buffers::cold;
  const std::uint64_t cache = last_level_cache_bytes();
  EXPECT_GE(cache, 64U << 10);
  for (const std::uint64_t size : {std::uint64_t{1}, mib, 64 * mib, 1024 * mib}) {
    const std::uint64_t half = half_bytes(need_of(policy, size, false));
    EXPECT_GT(half, 2 * cache);
    EXPECT_GE(half, 2 * size) << "so that the next message starts elsewhere";
  }
}

TEST(ColdBuffers, VisitTheWholePoolFromAnotherPlaceEachTime) {
  BufferPolicy policy;
  policy.kind = Buffers::cold;
  policy.send_offset_bytes = 13;
  if (half_bytes(need_of(policy, 65536, false)) > available_memory_bytes() / 8) GTEST_SKIP() << "not enough memory";
  const std::unique_ptr<BufferPool> pool = made(need_of(policy, 65536, false));
  ASSERT_TRUE(pool);
  Slots first = pool->outgoing(policy, 65536);
  const std::uint64_t stride = static_cast<std::uint64_t>(first.at(1) - first.at(0));
  EXPECT_GE(first.count() * stride, 2 * last_level_cache_bytes());
  ASSERT_NO_FATAL_FAILURE(expect_places(first, 65536, 13, half_of(first, 13, *pool)));
  const std::uint32_t began = first.next();
  EXPECT_NE(first.take(), first.take());
  EXPECT_NE(pool->outgoing(policy, 65536).next(), began);
  // What is pushed out of the caches lies within the pool, also where the places begin anew.
  pool->evict(first, 65536, 100);
  first.rewind(first.count() - 1);
  pool->evict(first, 65536, 3);
}

TEST(Buffers, ThatCannotBeHadAreASentence) {
  const Result<std::unique_ptr<BufferPool>> pool =
      BufferPool::make(plain_module(), nullptr, need_of({}, 1ULL << 50), 1);
  ASSERT_FALSE(pool);
  EXPECT_EQ(pool.failure().exit, Exit::failed);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "for messages up to 1024T cannot be allocated", pool.failure().sentence);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "choose a smaller end of the schedule", pool.failure().sentence);
}

TEST(Buffers, AreCountedForAllRanksOfTheHost) {
  const std::uint64_t half = half_bytes(need_of({}, 64 * mib, false));
  const auto enough_for = static_cast<int>(available_memory_bytes() / (2 * half));
  const Result<std::unique_ptr<BufferPool>> pool =
      BufferPool::make(plain_module(), nullptr, need_of({}, 64 * mib), 2 * enough_for + 2);
  ASSERT_FALSE(pool);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, " ranks", pool.failure().sentence);
}

// A row is what taking one place after another gives, in as few pieces as it has breaks.
TEST(Buffers, RowsAreThePlacesOneByOne) {
  std::vector<char> memory(1 << 10);
  for (const std::uint32_t places : {1U, 3U, 16U}) {
    for (const std::uint32_t reuse : {0U, 50U}) {
      Slots single(memory.data(), 64, places);
      if (reuse != 0) single.reuse(reuse, memory.data() + 1000);
      Slots rows = single;
      for (const std::uint64_t wanted : {1U, 5U, 16U, 2U, 40U}) {
        std::uint64_t pieces = 0;
        for (std::uint64_t done = 0; done < wanted; ++pieces) {
          const Slots::Row row = rows.take(wanted - done);
          ASSERT_GE(row.count, 1U);
          ASSERT_LE(row.count, wanted - done);
          for (std::size_t i = 0; i < row.count; ++i) ASSERT_EQ(row.base + i * row.stride, single.take()) << places;
          done += row.count;
        }
        if (reuse == 0) {
          EXPECT_LE(pieces, places == 1 ? 1 : wanted / places + 2);
        }
      }
    }
  }
}

TEST(Buffers, OfManyPlacesAreNeverTakenForFew) {
  for (const std::uint64_t places : {1ULL, 5ULL, 65536ULL, 1ULL << 32U}) {
    std::uint64_t last = 0;
    for (int bits = 0; bits <= 61; ++bits) {
      const std::uint64_t room = places_bytes(places, 1ULL << bits);
      EXPECT_GE(room, last) << places << " of 2^" << bits;
      EXPECT_GE(room, 1ULL << bits);
      last = room;
    }
  }
}

TEST(Buffers, DoNotOverflowAtTheLargestSizesThatAPlanAllows) {
  BufferPolicy policy;
  policy.kind = Buffers::cold;
  policy.recv_offset_bytes = 1ULL << 30;
  EXPECT_GT(half_bytes(need_of(policy, 1ULL << 62, true)), 1ULL << 63);
  std::uint64_t last = 0;
  for (int bits = 0; bits <= 62; ++bits) {
    const PoolNeed need = need_of(policy, 1ULL << bits, bits % 2 == 0);
    const std::uint64_t half = half_bytes(need) - 2 * margin_bytes(need);
    EXPECT_GE(half, last);
    last = half;
  }
}

// What a module of its own memory was asked for. Its operations have no state, so this has to be one of the file.
struct Allocations {
  int allowed = 0;
  int live = 0;
  std::vector<std::size_t> bytes;
};
Allocations allocations;

const Layer& allocating_module() {
  static const Layer module = [] {
    Layer m;
    m.name = "allocating";
    np_memory& own = m.memory_kinds.emplace_back();
    own.host_access = 1;
    own.alloc = [](np_endpoint*, std::size_t bytes, void** memory) {
      if (allocations.allowed-- <= 0) return NP_NO_MEMORY;
      *memory = std::aligned_alloc(4096, bytes);
      ++allocations.live;
      allocations.bytes.push_back(bytes);
      return NP_OK;
    };
    own.free = [](np_endpoint*, void* memory, std::size_t bytes) {
      std::free(memory);
      --allocations.live;
      EXPECT_EQ(bytes, allocations.bytes.back());
    };
    return m;
  }();
  return module;
}

TEST(Buffers, ComeFromTheModuleThatHasItsOwnAndGoBackToIt) {
  allocations = {.allowed = 2, .live = 0, .bytes = {}};
  {
    Result<std::unique_ptr<BufferPool>> pool = BufferPool::make(allocating_module(), nullptr, need_of({}, 65536), 2);
    ASSERT_TRUE(pool) << pool.failure().sentence;
    EXPECT_EQ(allocations.live, 2);
    EXPECT_EQ(allocations.bytes, std::vector<std::size_t>(2, (*pool)->bytes() / 2));
  }
  EXPECT_EQ(allocations.live, 0);
}

TEST(Buffers, OfAModuleThatRunsOutAreASentenceAndNothingIsLeftBehind) {
  for (const int allowed : {0, 1}) {
    allocations = {.allowed = allowed, .live = 0, .bytes = {}};
    const Result<std::unique_ptr<BufferPool>> pool =
        BufferPool::make(allocating_module(), nullptr, need_of({}, 65536), 2);
    ASSERT_FALSE(pool);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "cannot be allocated by module allocating", pool.failure().sentence);
    EXPECT_EQ(allocations.live, 0);
  }
}

TEST(Buffers, BeginAtMultiplesOfWhatTheLayerAsksFor) {
  for (const std::uint64_t alignment : {std::uint64_t{64}, std::uint64_t{256}, std::uint64_t{4096}}) {
    PoolNeed need = need_of({}, 1000, true);
    need.alignment = alignment;
    need.at_once_bytes = places_bytes(100, 1000, alignment);
    const std::unique_ptr<BufferPool> pool = made(need);
    ASSERT_TRUE(pool);
    const Slots places = pool->incoming({}, 1000, 100);
    EXPECT_EQ(places.count(), 100U) << alignment;
    for (std::uint64_t i = 0; i < places.count(); ++i) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(places.at(i)) % alignment, 0U) << alignment;
    }
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pool->token_in()) % alignment, 0U);
    EXPECT_LE(places.at(99) + 1000 + guard_bytes, pool->token_in());
    EXPECT_LE(pool->token_in() + token_bytes, pool->incoming_base() + pool->bytes() / 2);
  }
}

TEST(Buffers, OfALayerThatAllocatesElsewhereThanItAsksForAreASentence) {
  Layer layer;
  layer.name = "askew";
  np_memory& memory = layer.memory_kinds.emplace_back();
  memory.host_access = 1;
  memory.alloc = [](np_endpoint*, std::size_t bytes, void** place) {
    *place = static_cast<char*>(std::aligned_alloc(4096, bytes + 4096)) + 64;
    return NP_OK;
  };
  memory.free = [](np_endpoint*, void* place, std::size_t) { std::free(static_cast<char*>(place) - 64); };
  PoolNeed need = need_of({}, 64);
  need.alignment = 128;
  const auto pool = BufferPool::make(layer, nullptr, need, 1);
  ASSERT_FALSE(pool);
  EXPECT_EQ(pool.failure().sentence,
            "module askew wants messages at multiples of 128 bytes, and the memory for them does not begin at one");
}

}  // namespace
}  // namespace netpipe
