// SPDX-License-Identifier: Apache-2.0
// The pattern `accumulate` of two ranks over a layer that adds in memory of this process: what it calls, and what its
// verification finds where the layer adds or fetches something else.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "catalog/variant.h"
#include "patterns/kit/pattern.h"

namespace netpipe {
namespace {

constexpr std::uint64_t seed = 11;
constexpr std::uint32_t places = 5;  // as many as there are rounds: two samples of two, and one before
constexpr std::size_t doubles = 60;

// Not np_endpoint itself: another test of this program has one.
struct Adding {
  int sums = 0, fetches = 0, flushes = 0, calls_of_many = 0;
  np_status answers = NP_OK;     // to a count of 0
  bool fetches_nothing = false;  // leaves the result as it was
  bool fetches_late = false;     // what is there after the sum
  std::size_t forgets = 0;       // doubles at the end of each operation that are not added to
};

Adding& seen_by(np_endpoint* e) { return *reinterpret_cast<Adding*>(e); }

np_status add(np_endpoint* e, const double* source, double* result, const np_region* target, std::size_t offset,
              std::size_t count) {
  Adding& seen = seen_by(e);
  if (count == 0) return seen.answers;
  ++(result != nullptr ? seen.fetches : seen.sums);
  char* const there = static_cast<char*>(target->base) + offset;
  for (std::size_t k = 0; k < count; ++k) {
    double value = 0;
    std::memcpy(&value, there + k * sizeof value, sizeof value);
    const double sum = k + seen.forgets < count ? value + source[k] : value;
    std::memcpy(there + k * sizeof sum, &sum, sizeof sum);
    if (result != nullptr && !seen.fetches_nothing) result[k] = seen.fetches_late ? sum : value;
  }
  return NP_OK;
}

Layer layer_that_adds() {
  Layer layer;
  layer.name = "adder";
  layer.accumulate = [](np_endpoint* e, int, const double* source, const np_region* target, std::size_t offset,
                        std::size_t count) { return add(e, source, nullptr, target, offset, count); };
  layer.fetch_accumulate = [](np_endpoint* e, int, const double* source, double* result, const np_region* target,
                              std::size_t offset,
                              std::size_t count) { return add(e, source, result, target, offset, count); };
  layer.flush = [](np_endpoint* e, int) {
    ++seen_by(e).flushes;
    return NP_OK;
  };
  layer.fence = [](np_endpoint*) { return NP_OK; };
  layer.barrier = [](np_endpoint*) { return NP_OK; };
  return layer;
}

// With a loop of its own.
Layer layer_that_adds_all_at_once() {
  Layer layer = layer_that_adds();
  layer.accumulate_each = [](np_endpoint* e, int, const double* near, std::size_t near_stride, double* result,
                             const np_region* target, std::size_t offset, std::size_t far_stride, std::size_t count,
                             std::size_t times) {
    ++seen_by(e).calls_of_many;
    for (std::size_t i = 0; i < times; ++i) {
      const auto* const source = reinterpret_cast<const double*>(reinterpret_cast<const char*>(near) + i * near_stride);
      auto* const back =
          result == nullptr ? nullptr : reinterpret_cast<double*>(reinterpret_cast<char*>(result) + i * far_stride);
      const np_status status = add(e, source, back, target, offset + i * far_stride, count);
      if (status != NP_OK) return status;
      ++seen_by(e).flushes;
    }
    return NP_OK;
  };
  return layer;
}

ChosenPattern chosen_of(const std::string& text) {
  Result<ChosenPattern> chosen = parse_pattern(text);
  EXPECT_TRUE(chosen) << text;
  return std::move(*chosen);
}

// Rank 0 of two, with what it reads and fetches, and the memory of rank 1.
struct Two {
  Two(const std::string& text, const Adding& does, std::size_t bytes, Layer over = layer_that_adds())
      : layer(std::move(over)),
        chosen(chosen_of(text)),
        seen(does),
        stage{chosen.part(0, 2, bytes), layer, reinterpret_cast<np_endpoint*>(&seen)} {
    const std::size_t stride = chosen.pattern->place_bytes(stage);
    EXPECT_LE(stride * places, sizeof out);
    stage.outgoing = Slots(bytes_of(out), stride, places);
    stage.incoming = Slots(bytes_of(in), stride, places);
    region.base = theirs.data();
    stage.near_in = bytes_of(in);
    stage.far_in = &region;
    stage.message = message;
    const Part other = chosen.part(1, 2, bytes);
    std::array<double, doubles> not_sent{};
    for (std::uint32_t i = 0; i < places; ++i) {
      char* const far = bytes_of(theirs) + i * stride;
      chosen.pattern->fill(other, seed, i, bytes_of(not_sent), far);
      chosen.pattern->fill(stage, seed, i, stage.outgoing.at(i), stage.incoming.at(i));
    }
  }
  Two(const Two&) = delete;
  Two& operator=(const Two&) = delete;
  ~Two() = default;

  np_status run() { return chosen.pattern->run(stage, 2, 2, notes.data()); }

  // Of the first place that is wrong, on either rank; "": none is.
  [[nodiscard]] std::string verdict() {
    const Part other = chosen.part(1, 2, stage.size_bytes);
    const std::size_t stride = chosen.pattern->place_bytes(stage);
    for (std::uint32_t i = 0; i < places; ++i) {
      std::string wrong = chosen.pattern->check(stage, seed, i, stage.incoming.at(i));
      if (!wrong.empty()) return "origin " + wrong;
      wrong = chosen.pattern->check(other, seed, i, bytes_of(theirs) + i * stride);
      if (!wrong.empty()) return "target " + wrong;
    }
    return "";
  }

  static char* bytes_of(std::array<double, doubles>& some) { return reinterpret_cast<char*>(some.data()); }

  Layer layer;
  ChosenPattern chosen;
  Adding seen;
  Stage stage;
  std::array<double, doubles> out{}, in{}, theirs{};
  np_region region{};
  std::array<char, 200> message{};
  std::array<std::int64_t, 8> notes{};
};

std::string verdict(const std::string& text, const Adding& does, std::size_t bytes = 24) {
  Two two(text, does, bytes);
  EXPECT_EQ(two.run(), NP_OK) << text;
  return two.verdict();
}

std::string beginning(const std::string& text, std::size_t length) { return text.substr(0, length); }

TEST(Accumulate, IsRightWhereEverySumIsAndNothingElseHasChanged) {
  for (const std::string text :
       {"accumulate", "accumulate:in_flight=3", "accumulate:sync=fence", "accumulate:fetch=yes",
        "accumulate:in_flight=3,fetch=yes", "accumulate:sync=fence,fetch=yes"}) {
    EXPECT_EQ(verdict(text, {}), "") << text;
  }
}

TEST(Accumulate, FindsSumsAndFetchedNumbersThatAreWrong) {
  const std::string sum = "target has a wrong sum in element 2: ", number = "origin fetched a wrong number of element ";
  for (const std::string text : {"accumulate", "accumulate:fetch=yes"}) {
    EXPECT_EQ(beginning(verdict(text, {.forgets = 1}), sum.size()), sum) << text;
  }
  EXPECT_EQ(beginning(verdict("accumulate:fetch=yes", {.fetches_nothing = true}), number.size() + 13),
            number + "0: -1.000000 ");
  EXPECT_EQ(beginning(verdict("accumulate:fetch=yes", {.fetches_late = true}), number.size() + 3), number + "0: ");
}

TEST(Accumulate, LooksAtTheMemoryOfTheRankThatAdds) {
  Two two("accumulate", {}, 8);
  EXPECT_EQ(two.run(), NP_OK);
  two.in[3] += 1;
  EXPECT_EQ(beginning(two.verdict(), 36), "origin has a wrong sum in element 0:");
}

TEST(Accumulate, CallsTheOperationThatItIsNamedFor) {
  Two plain("accumulate:in_flight=2", {}, 8), fetching("accumulate:in_flight=2,fetch=yes", {}, 8);
  EXPECT_EQ(plain.run(), NP_OK);
  EXPECT_EQ(fetching.run(), NP_OK);
  EXPECT_EQ(std::pair(plain.seen.sums, plain.seen.fetches), std::pair(10, 0));
  EXPECT_EQ(std::pair(fetching.seen.sums, fetching.seen.fetches), std::pair(0, 10));
  EXPECT_EQ(std::pair(plain.seen.flushes, fetching.seen.flushes), std::pair(5, 5));
}

TEST(Accumulate, LeavesTheLoopToALayerThatHasOneWhereEachSumIsFlushed) {
  for (const std::string text : {"accumulate", "accumulate:fetch=yes"}) {
    Two each(text, {}, 24, layer_that_adds_all_at_once());
    EXPECT_EQ(each.run(), NP_OK) << text;
    EXPECT_EQ(each.verdict(), "") << text;
    EXPECT_EQ(std::pair(each.seen.sums + each.seen.fetches, each.seen.flushes), std::pair(5, 5)) << text;
    EXPECT_EQ(each.seen.fetches, text == "accumulate" ? 0 : 5);
    EXPECT_GE(each.seen.calls_of_many, 3) << text;  // one before, and one for each of two samples
  }
  for (const std::string text :
       {"accumulate:in_flight=3", "accumulate:sync=fence", "accumulate:in_flight=3,fetch=yes"}) {
    Two other(text, {}, 24, layer_that_adds_all_at_once());
    EXPECT_EQ(other.run(), NP_OK) << text;
    EXPECT_EQ(other.verdict(), "") << text;
    EXPECT_EQ(other.seen.calls_of_many, 0) << text;
  }
  Two wrong("accumulate", {.forgets = 1}, 24, layer_that_adds_all_at_once());
  EXPECT_EQ(wrong.run(), NP_OK);
  EXPECT_EQ(beginning(wrong.verdict(), 36), "target has a wrong sum in element 2:");
  Two late("accumulate:fetch=yes", {.fetches_late = true}, 24, layer_that_adds_all_at_once());
  EXPECT_EQ(late.run(), NP_OK);
  EXPECT_EQ(beginning(late.verdict(), 42), "origin fetched a wrong number of element 0");
}

// So that the rank that only waits does not wait for one that may not add.
TEST(Accumulate, AddsNothingWhereTheSettingsAllowNone) {
  for (const std::string text : {"accumulate", "accumulate:fetch=yes"}) {
    Two two(text, {.answers = NP_UNSUPPORTED}, 8, layer_that_adds_all_at_once());
    EXPECT_EQ(two.run(), NP_UNSUPPORTED) << text;
    EXPECT_EQ(two.seen.sums + two.seen.fetches + two.seen.flushes + two.seen.calls_of_many, 0) << text;
  }
}

TEST(Accumulate, FetchesOnlyOverALayerThatCanAndFromAnotherRank) {
  Layer layer = layer_that_adds();
  const auto why = [&](const std::string& text, int nranks) {
    const ChosenPattern chosen = chosen_of(text);
    return chosen.pattern->unfit(chosen.part(0, nranks, 8), layer);
  };
  EXPECT_EQ(why("accumulate:fetch=yes", 2), "");
  EXPECT_EQ(why("accumulate:fetch=yes", 1),
            "takes fetch=yes only with another rank: a rank alone would fetch to where it adds");
  layer.fetch_accumulate = nullptr;
  EXPECT_EQ(why("accumulate:fetch=yes", 2), "needs fetch_accumulate, which module adder lacks; fetch=no does not");
  EXPECT_EQ(why("accumulate", 2), "");
  EXPECT_EQ(why("accumulate", 1), "");
}

}  // namespace
}  // namespace netpipe
