// SPDX-License-Identifier: Apache-2.0
// Which pages message memory has: what is asked of the kernel is what it gives, or is refused in a sentence.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "catalog/registry.h"
#include "catalog/variant.h"
#include "engine/memory/buffer_pool.h"
#include "engine/memory/pages.h"
#include "machine/files.h"
#include "plan/plan.h"

namespace netpipe {
namespace {

constexpr std::uint64_t kib = 1024, mib = 1024 * kib;

constexpr const char* smaps =
    "10000000-10200000 rw-p 00000000 00:00 0 \n"
    "Size:               2048 kB\n"
    "AnonHugePages:      2048 kB\n"
    "VmFlags: rd wr mr mw me ac hg \n"
    "10200000-10300000 rw-p 00000000 00:00 0                          [heap]\n"
    "AnonHugePages:         0 kB\n"
    "ShmemPmdMapped:        0 kB\n"
    "7f0000000000-7f0000400000 rw-s 00000000 00:01 1037               /dev/shm/some-thing\n"
    "AnonHugePages:         0 kB\n"
    "ShmemPmdMapped:     4096 kB\n"
    "FilePmdMapped:         0 kB\n";

TEST(MappedPages, AreThoseOfTheMappingsInTheRangeAlone) {
  const MappedPages first = mapped_pages(smaps, 0x10000000, 0x10200000);
  EXPECT_EQ(first.huge_bytes, 2 * mib);
  EXPECT_FALSE(first.shared);
  EXPECT_EQ(mapped_pages(smaps, 0x10200000, 0x10300000).huge_bytes, 0U);
  EXPECT_EQ(mapped_pages(smaps, 0x101ff000, 0x10201000).huge_bytes, 2 * mib) << "over the border of two";
  const MappedPages shared = mapped_pages(smaps, 0x7f0000001000, 0x7f0000002000);
  EXPECT_EQ(shared.huge_bytes, 4 * mib);
  EXPECT_TRUE(shared.shared);
  EXPECT_EQ(mapped_pages(smaps, 0x20000000, 0x20001000).huge_bytes, 0U);
  EXPECT_FALSE(mapped_pages(smaps, 0x20000000, 0x20001000).shared);
  EXPECT_EQ(mapped_pages("", 0, UINT64_MAX).huge_bytes, 0U);
  EXPECT_EQ(mapped_pages("AnonHugePages: 2048 kB\n10-\nzz-yy rw-p\nAnonHugePages: x kB\n", 0, UINT64_MAX).huge_bytes,
            0U)
      << "nothing of what is malformed";
}

Layer plain_module() {
  Layer module;
  module.name = "plain";
  return module;
}

PoolNeed need_of(std::uint64_t place_bytes) {
  PoolNeed need;
  need.place_bytes = place_bytes;
  return need;
}

Result<std::unique_ptr<BufferPool>> pool_of(const PageChoice& pages, const Layer& module = plain_module()) {
  return BufferPool::make(module, nullptr, need_of(3 * mib), 1, {}, pages);
}

bool can_be_huge() {
  const auto enabled = Files(Host{}).chosen("/sys/kernel/mm/transparent_hugepage/enabled");
  return enabled && *enabled != "never" &&
         Files(Host{}).number("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") == std::int64_t{huge_page_bytes};
}

TEST(PoolOfHugePages, IsOnHugePagesAsAWholeOrRefused) {
  const auto pool = pool_of({.kind = Pages::huge});
  if (!can_be_huge()) {
    ASSERT_FALSE(pool);
    EXPECT_EQ(pool.failure().exit, Exit::unavailable);
    EXPECT_NE(pool.failure().sentence.find("pages=huge: "), std::string::npos) << pool.failure().sentence;
    return;
  }
  ASSERT_TRUE(pool) << pool.failure().sentence;
  EXPECT_EQ((*pool)->pages().huge_bytes, (*pool)->bytes());
  EXPECT_EQ((*pool)->bytes(), 2 * half_bytes(need_of(3 * mib), Pages::huge));
  EXPECT_EQ((*pool)->bytes() % (2 * huge_page_bytes), 0U);
  for (const char* base : {(*pool)->outgoing_base(), (*pool)->incoming_base()}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(base) % huge_page_bytes, 0U);
  }
  EXPECT_FALSE((*pool)->pages().node) << "nobody asked for one";
}

TEST(PoolOfSmallPages, HasNoHugePage) {
  const auto pool = pool_of({.kind = Pages::small});
  ASSERT_TRUE(pool) << pool.failure().sentence;
  EXPECT_EQ((*pool)->pages().huge_bytes, 0U);
}

TEST(PoolOfUsualPages, IsNotLookedAt) {
  const auto pool = pool_of({});
  ASSERT_TRUE(pool);
  EXPECT_FALSE((*pool)->pages().huge_bytes);
  EXPECT_FALSE((*pool)->pages().node);
}

TEST(PoolOnANode, IsOnItAsAWholeOrRefused) {
  const auto pool = pool_of({.node = 0});
  if (pool) {
    EXPECT_EQ((*pool)->pages().node, 0);
  } else {
    EXPECT_EQ(pool.failure().exit, Exit::unavailable);
    EXPECT_NE(pool.failure().sentence.find("node"), std::string::npos);
  }
  const auto nowhere = pool_of({.node = most_node});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.failure().exit, Exit::unavailable);
  EXPECT_NE(nowhere.failure().sentence.find("node=1023: message memory cannot be bound to this NUMA node (mbind: "),
            std::string::npos)
      << nowhere.failure().sentence;
}

// Memory of a layer that other processes map too.
np_status alloc_shared(np_endpoint*, std::size_t bytes, void** memory) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return NP_NO_MEMORY;
  *memory = mapped;
  return NP_OK;
}
np_status alloc_private(np_endpoint*, std::size_t bytes, void** memory) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return NP_NO_MEMORY;
  std::memset(mapped, 7, bytes);  // the layer is the first to write
  *memory = mapped;
  return NP_OK;
}

Layer with_memory(decltype(np_memory::alloc) alloc) {
  Layer module = plain_module();
  np_memory memory{};
  memory.kind = NP_MEMORY_LAYER;
  memory.host_access = 1;
  memory.alloc = alloc;
  memory.free = [](np_endpoint*, void* at, std::size_t bytes) { munmap(at, bytes); };
  module.memory_kinds.push_back(memory);
  return module;
}

TEST(MemoryOfALayer, IsNotOfThesePagesWhereOtherProcessesMapItToo) {
  const Layer shared = with_memory(alloc_shared);
  for (const Pages kind : {Pages::small, Pages::huge}) {
    const auto pool = pool_of({.kind = kind}, shared);
    ASSERT_FALSE(pool);
    EXPECT_EQ(pool.failure().exit, Exit::unavailable);
    EXPECT_NE(pool.failure().sentence.find("memory that other processes map as well"), std::string::npos)
        << pool.failure().sentence;
  }
  ASSERT_TRUE(pool_of({}, shared));
}

TEST(MemoryOfALayer, IsMovedToItsNodeThoughTheLayerHasWrittenToIt) {
  if (!pool_of({.node = 0})) GTEST_SKIP() << "this process cannot bind memory";
  for (const auto alloc : {alloc_shared, alloc_private}) {
    const Layer module = with_memory(alloc);
    const auto pool = pool_of({.node = 0}, module);
    ASSERT_TRUE(pool) << pool.failure().sentence;
    EXPECT_EQ((*pool)->pages().node, 0);
  }
}

TEST(MemoryOfALayer, OfADeviceHasNoPagesHere) {
  Layer module = with_memory(alloc_private);
  np_memory& memory = module.memory_kinds.front();
  memory.kind = NP_MEMORY_DEVICE;
  memory.host_access = 0;
  memory.fill = [](np_endpoint*, void*, int, std::size_t) { return NP_OK; };
  ASSERT_TRUE(pool_of({}, module));
  const auto pool = pool_of({.node = 0}, module);
  ASSERT_FALSE(pool);
  EXPECT_EQ(pool.failure().exit, Exit::unavailable);
  EXPECT_EQ(pool.failure().sentence,
            "module plain has its messages in memory of a device, which is on no page of this host; leave pages and "
            "node out");
}

// ------------------------------------------------------------------------------------------------- as a user says it

const Registry& registry() {
  static const Result<Registry> modules = Registry::load({NETPIPE_OPTION_MODULES}, {});
  return *modules;
}

TEST(PagesOfAVariant, AreSettingsOfEveryModule) {
  const auto pages = [](const std::string& text) {
    const Result<Variant> variant = parse_variant(text, registry());
    if (!variant) return variant.failure().sentence;
    return variant->name + " " + std::to_string(static_cast<int>(variant->pages.kind)) + " " +
           std::to_string(variant->pages.node) + " " + std::to_string(variant->ranks);
  };
  EXPECT_EQ(pages("many_options"), "many_options 0 -1 2");
  EXPECT_EQ(pages("many_options:pages=auto,node=-1"), "many_options 0 -1 2");
  EXPECT_EQ(pages("many_options:node=3,pages=huge,poll=yes"), "many_options:poll=yes,pages=huge,node=3 2 3 2");
  EXPECT_EQ(pages("many_options:pages=small#2"), "many_options:pages=small#2 1 -1 2");
  EXPECT_EQ(pages("many_options:node=1024"), "option 'node' of module many_options: 1024 is outside -1 to 1023");
  EXPECT_NE(pages("many_options:pages=large").find("'large' is not one of its choices"), std::string::npos);
}

TEST(PagesOfAVariant, DoNotGoWithPagesThatAreMappedForEachMessage) {
  const auto why = [](const std::string& variant, const std::string& pattern) {
    Result<Variant> one = parse_variant(variant, registry());
    const Result<ChosenPattern> chosen = parse_pattern(pattern);
    Layer layer;
    layer.name = "some";
    layer.min_ranks = layer.max_ranks = 2;
    layer.send = [](np_endpoint*, int, const void*, std::size_t) { return NP_OK; };
    one->module = &layer;
    return skip_reason(*chosen, *one);
  };
  EXPECT_EQ(why("many_options:pages=huge", "pingpong"), "");
  EXPECT_EQ(why("many_options:pages=huge", "pingpong:buffers=cold"), "");
  EXPECT_EQ(why("many_options", "pingpong:buffers=fresh"), "");
  for (const std::string pattern : {"pingpong:buffers=fresh", "pingpong:reuse=50"}) {
    EXPECT_EQ(why("many_options:node=0", pattern),
              "pattern " + pattern +
                  " maps pages for its messages, and pages and node of a variant are those of buffers that are kept: "
                  "measure it with buffers warm, apart or cold");
  }
}

TEST(PagesOfAVariant, HaveAPoolOfTheirOwnThatCounts) {
  const auto bytes = [](const std::string& variants) {
    const Result<Plan> plan = parse_plan("netpipe-plan 1\n" + variants + "schedule list\nsizes 8\n");
    const Result<Resolved> resolved = resolve(*plan, registry());
    return buffer_bytes(*plan, *resolved);
  };
  const std::uint64_t one = bytes("variant many_options\n");
  EXPECT_EQ(bytes("variant many_options\nvariant many_options:poll=yes\n"), one) << "they share it";
  EXPECT_EQ(bytes("variant many_options\nvariant many_options:node=0\n"), 2 * one);
  EXPECT_EQ(bytes("variant many_options:pages=small\n"), one);
  EXPECT_EQ(bytes("variant many_options:pages=huge\n"), 2 * 2 * huge_page_bytes) << "two halves of two ranks";
}

}  // namespace
}  // namespace netpipe
