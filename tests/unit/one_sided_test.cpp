// SPDX-License-Identifier: Apache-2.0
// The patterns `put` and `get` that wait for requests, and `strided`, of a process alone over a layer that does what it
// is told in its own memory.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "catalog/variant.h"
#include "patterns/kit/pattern.h"

namespace netpipe {
namespace {

constexpr std::size_t half_bytes = 4096;
constexpr std::uint64_t seed = 7;

// Not np_endpoint itself: another test of this program has one.
struct Seen {
  std::vector<std::string> calls;
  std::size_t late = 0;      // bytes that a block is longer than it should be
  std::size_t forgets = 0;   // bytes at the end of each block that do not arrive
  std::uint64_t shifts = 0;  // bytes by which the strides are wrong, on both sides
};

Seen& seen_by(np_endpoint* e) { return *reinterpret_cast<Seen*>(e); }

np_status note(np_endpoint* e, std::string call) {
  seen_by(e).calls.push_back(std::move(call));
  return NP_OK;
}

np_status copy_blocks(np_endpoint* e, char* to, const char* from, const np_strided& shape) {
  const Seen& seen = seen_by(e);
  for (std::uint64_t i = 0; i < shape.blocks; ++i) {
    const std::uint64_t at = i * (shape.near_stride + seen.shifts);
    std::memcpy(to + at, from + at, shape.block_bytes + seen.late - seen.forgets);
  }
  return NP_OK;
}

char* place_in(const np_region* region, std::size_t offset) { return static_cast<char*>(region->base) + offset; }

Layer layer_with_all() {
  Layer layer;
  layer.name = "own";
  layer.put = [](np_endpoint* e, int, const void*, const np_region*, std::size_t, std::size_t) {
    return note(e, "put");
  };
  layer.get = [](np_endpoint* e, int, void*, const np_region*, std::size_t, std::size_t) { return note(e, "get"); };
  layer.iput = [](np_endpoint* e, int, const void* near, std::size_t near_stride, const np_region* target,
                  std::size_t offset, std::size_t far_stride, std::size_t bytes, np_request* requests,
                  std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      requests[i].word[0] = 1;
      std::memcpy(place_in(target, offset + i * far_stride), static_cast<const char*>(near) + i * near_stride, bytes);
    }
    return note(e, "iput " + std::to_string(count));
  };
  layer.iget = [](np_endpoint* e, int, void*, std::size_t, const np_region*, std::size_t, std::size_t, std::size_t,
                  np_request* requests, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) requests[i].word[0] = 1;
    return note(e, "iget " + std::to_string(count));
  };
  layer.wait = [](np_endpoint* e, np_request* requests, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (std::exchange(requests[i].word[0], 0) != 1) return note(e, "wait for what was not started");
    }
    return note(e, "wait for " + std::to_string(count));
  };
  layer.flush = [](np_endpoint* e, int) { return note(e, "flush"); };
  layer.fence = [](np_endpoint* e) { return note(e, "fence"); };
  layer.put_strided = [](np_endpoint* e, int, const void* source, const np_region* target, std::size_t offset,
                         const np_strided* shape) {
    return copy_blocks(e, place_in(target, offset), static_cast<const char*>(source), *shape);
  };
  layer.get_strided = [](np_endpoint* e, int, void* target, const np_region* source, std::size_t offset,
                         const np_strided* shape) {
    return copy_blocks(e, static_cast<char*>(target), place_in(source, offset), *shape);
  };
  return layer;
}

ChosenPattern chosen_of(const std::string& text) {
  Result<ChosenPattern> chosen = parse_pattern(text);
  EXPECT_TRUE(chosen) << text;
  return std::move(*chosen);
}

// A process alone, with so many places of its messages in each direction.
struct Alone {
  Alone(const std::string& text, const Layer& layer, std::size_t bytes, std::uint32_t places)
      : chosen(chosen_of(text)), stage{chosen.part(0, 1, bytes), layer, reinterpret_cast<np_endpoint*>(&seen)} {
    const std::size_t stride = chosen.pattern->place_bytes(stage);
    stage.outgoing = Slots(out.data(), stride, places);
    stage.incoming = Slots(in.data(), stride, places);
    regions[0].base = stage.near_in = in.data();
    regions[1].base = stage.near_out = out.data();
    stage.far_in = &regions[0];
    stage.far_out = &regions[1];
    requests.resize(chosen.pattern->requests(stage, 2));
    stage.requests = requests.data();
    stage.message = message;
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;
  ~Alone() = default;

  // Two samples of two rounds, before which one more comes.
  np_status run() { return chosen.pattern->run(stage, 2, 2, notes.data()); }

  ChosenPattern chosen;
  Seen seen;
  Stage stage;
  std::array<char, half_bytes> out{}, in{};
  std::array<np_region, 2> regions{};
  std::vector<np_request> requests;
  std::array<char, 200> message{};
  std::array<std::int64_t, 8> notes{};
};

using Calls = std::vector<std::string>;
Calls times(int count, const Calls& round, const Calls& last = {}) {
  Calls all;
  for (int i = 0; i < count; ++i) all.insert(all.end(), round.begin(), round.end());
  all.insert(all.end(), last.begin(), last.end());
  return all;
}

// Each rank first asks, by a batch of none, whether there can be requests.
Calls after_asking(const std::string& question, const Calls& calls) {
  Calls all{question};
  all.insert(all.end(), calls.begin(), calls.end());
  return all;
}

TEST(PutThatWaits, StartsARowInOneCallAndWaitsForAllOfThem) {
  const Layer layer = layer_with_all();
  Alone one("put:sync=wait,in_flight=4", layer, 8, 4);
  EXPECT_EQ(one.run(), NP_OK);
  EXPECT_EQ(one.seen.calls, after_asking("iput 0", times(5, {"iput 4", "wait for 4"}, {"flush"})));
}

TEST(GetThatWaits, StartsARowInOneCallAndWaitsForAllOfThem) {
  const Layer layer = layer_with_all();
  Alone one("get:sync=wait,in_flight=3", layer, 8, 3);
  EXPECT_EQ(one.run(), NP_OK);
  EXPECT_EQ(one.seen.calls, after_asking("iget 0", times(5, {"iget 3", "wait for 3"}, {"flush"})));
}

TEST(PutThatWaits, StartsTheRestOfARowThatEndsInAnotherCall) {
  const Layer layer = layer_with_all();
  Alone one("put:sync=wait,in_flight=2", layer, 8, 3);
  EXPECT_EQ(one.run(), NP_OK);
  const Calls split = {"iput 1", "iput 1", "wait for 2"}, whole = {"iput 2", "wait for 2"};
  Calls expected;
  for (const Calls* round : {&whole, &split, &whole, &whole, &split}) {
    expected.insert(expected.end(), round->begin(), round->end());
  }
  expected.emplace_back("flush");
  EXPECT_EQ(one.seen.calls, after_asking("iput 0", expected));
}

// So that a rank which starts none does not wait for one that may not.
TEST(PutThatWaits, StartsNothingWhereTheSettingsAllowNone) {
  Layer layer = layer_with_all();
  layer.iput = [](np_endpoint* e, int, const void*, std::size_t, const np_region*, std::size_t, std::size_t,
                  std::size_t, np_request*, std::size_t count) {
    note(e, "iput " + std::to_string(count));
    return count == 0 ? NP_UNSUPPORTED : NP_OK;
  };
  Alone one("put:sync=wait", layer, 8, 1);
  EXPECT_EQ(one.run(), NP_UNSUPPORTED);
  EXPECT_EQ(one.seen.calls, Calls{"iput 0"});
}

TEST(PutThatWaits, FencesAtTheEndOverALayerWithoutAFlush) {
  Layer layer = layer_with_all();
  layer.flush = nullptr;
  Alone one("put:sync=wait", layer, 8, 1);
  EXPECT_EQ(one.run(), NP_OK);
  Calls expected = times(5, {"iput 1", "wait for 1"}, {"fence"});
  expected.insert(expected.begin(), "fence");
  EXPECT_EQ(one.seen.calls, after_asking("iput 0", expected));
}

TEST(PutThatWaits, IsRefusedOverALayerThatStartsNone) {
  Layer layer = layer_with_all();
  layer.iput = nullptr;
  layer.iget = nullptr;
  const auto why = [&](const std::string& text) {
    const ChosenPattern chosen = chosen_of(text);
    return chosen.pattern->unfit(chosen.part(0, 2, 8), layer);
  };
  EXPECT_EQ(why("put:sync=wait"), "needs iput, which module own lacks: choose sync=flush or sync=fence");
  EXPECT_EQ(why("get:sync=wait"), "needs iget, which module own lacks: choose sync=flush or sync=fence");
  EXPECT_EQ(why("put"), "");
  EXPECT_EQ(why("get:sync=fence"), "");
}

TEST(PutThatWaits, LeavesTheOthersAsTheyAre) {
  const Layer layer = layer_with_all();
  Alone flushing("put:in_flight=2", layer, 8, 2), fencing("get:sync=fence", layer, 8, 1);
  EXPECT_EQ(flushing.run(), NP_OK);
  EXPECT_EQ(flushing.seen.calls, times(5, {"put", "put", "flush"}));
  EXPECT_EQ(fencing.run(), NP_OK);
  Calls expected = times(5, {"get", "fence"});
  expected.insert(expected.begin(), "fence");
  EXPECT_EQ(fencing.seen.calls, expected);
}

// What a check of all places says after a run: of the first that is wrong.
std::string verdict(const std::string& text, const Seen& layer_does, std::size_t bytes = 24) {
  const Layer layer = layer_with_all();
  constexpr std::uint32_t places = 5;  // as many as there are rounds
  Alone one(text, layer, bytes, places);
  one.seen = layer_does;
  for (std::uint32_t i = 0; i < places; ++i) {
    one.chosen.pattern->fill(one.stage, seed, i, one.stage.outgoing.at(i), one.stage.incoming.at(i));
  }
  EXPECT_EQ(one.run(), NP_OK);
  for (std::uint32_t i = 0; i < places; ++i) {
    const std::string wrong = one.chosen.pattern->check(one.stage, seed, i, one.stage.incoming.at(i));
    if (!wrong.empty()) return wrong;
  }
  return "";
}

TEST(Strided, IsRightWhereEveryBlockArrivesAndNothingElse) {
  for (const std::string text :
       {"strided", "strided:direction=get", "strided:block=3,stride=8", "strided:block=3,stride=8,in_flight=3",
        "strided:direction=get,block=3,stride=3", "strided:sync=fence,block=24,stride=40"}) {
    EXPECT_EQ(verdict(text, {}), "") << text;
  }
}

TEST(Strided, FindsWhatALayerDoesWrong) {
  const std::string text = "strided:block=3,stride=8";
  EXPECT_EQ(verdict(text, {.late = 1}), "wrote between its blocks, behind block 1");
  EXPECT_EQ(verdict(text, {.forgets = 1}), "differs from what was sent, first at byte 2 of block 1");
  EXPECT_EQ(verdict(text, {.shifts = 1}), "differs from what was sent, first at byte 0 of block 2");
  EXPECT_EQ(verdict(text + ",direction=get", {.late = 1}), "wrote between its blocks, behind block 1");
  EXPECT_EQ(verdict(text + ",in_flight=2", {.forgets = 3}), "differs from what was sent, first at byte 0 of block 1");
}

TEST(Strided, LooksAtTheMemoryOfTheRankThatOnlyGives) {
  const ChosenPattern chosen = chosen_of("strided:direction=get");
  std::array<char, 32> out{}, in{};
  const Part giver = chosen.part(1, 2, 16);
  chosen.pattern->fill(giver, seed, 0, out.data(), in.data());
  EXPECT_EQ(chosen.pattern->check(giver, seed, 0, in.data()), "");
  in[9] ^= 1;
  EXPECT_EQ(chosen.pattern->check(giver, seed, 0, in.data()),
            "changed the memory of a rank that only gives, at byte 9");
}

TEST(Strided, NeedsBlocksThatDoNotOverlapAndTheOperationOfItsDirection) {
  Layer layer = layer_with_all();
  const auto why = [&](const std::string& text) {
    const ChosenPattern chosen = chosen_of(text);
    return chosen.pattern->unfit(chosen.part(0, 2, 8), layer);
  };
  EXPECT_EQ(why("strided:stride=7"),
            "has blocks of 8 bytes that begin every 7, so that they lie on each other: choose a larger stride");
  EXPECT_EQ(why("strided:stride=8"), "");
  layer.get_strided = nullptr;
  EXPECT_EQ(why("strided:direction=get"), "needs get_strided, which module own lacks");
  EXPECT_EQ(why("strided"), "");
  const Pattern& pattern = *chosen_of("strided").pattern;
  EXPECT_EQ(pattern.missing(layer, 1), nullptr);
  layer.put_strided = nullptr;
  EXPECT_STREQ(pattern.missing(layer, 1), "put_strided and get_strided");
}

TEST(Strided, ReachesWhereItsDirectionGoes) {
  const ChosenPattern into = chosen_of("strided"), out_of = chosen_of("strided:direction=get"),
                      none = chosen_of("pingpong");
  EXPECT_EQ(into.pattern->reach(into.part(0, 2, 8)), NP_REACH_PUT);
  EXPECT_EQ(out_of.pattern->reach(out_of.part(0, 2, 8)), NP_REACH_GET);
  EXPECT_TRUE(into.reaches());
  EXPECT_FALSE(none.reaches());
  EXPECT_EQ(groups_of(*into.pattern, into.part(0, 2, 8)), std::uint32_t{NP_USES_STRIDED});
}

}  // namespace
}  // namespace netpipe
