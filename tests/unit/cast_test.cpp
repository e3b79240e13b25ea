// SPDX-License-Identifier: Apache-2.0
// The pattern `cast`, one rank at a time, over a layer that answers by itself.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "catalog/variant.h"
#include "patterns/kit/pattern.h"

struct np_endpoint {
  std::vector<std::string> calls;   // "cast", "send 1", "recv 2", ...
  std::vector<std::string> losing;  // of these calls every second one loses its message
  int lost = 0;
};

namespace netpipe {
namespace {

np_status called(np_endpoint* e, const std::string& call) {
  e->calls.push_back(call);
  for (const std::string& one : e->losing) {
    if (one == call && ++e->lost % 2 == 0) return NP_LOST;
  }
  return NP_OK;
}

Layer talking() {
  Layer layer;
  layer.name = "talking";
  layer.send = [](np_endpoint* e, int peer, const void*, size_t) { return called(e, "send " + std::to_string(peer)); };
  layer.recv = [](np_endpoint* e, int peer, void*, size_t) { return called(e, "recv " + std::to_string(peer)); };
  layer.cast = [](np_endpoint* e, const void*, size_t) { return called(e, "cast"); };
  layer.recv_cast = [](np_endpoint* e, int sender, void*, size_t) {
    return called(e, "recv_cast " + std::to_string(sender));
  };
  return layer;
}

ChosenPattern chosen_of(const std::string& text) {
  Result<ChosenPattern> chosen = parse_pattern(text);
  EXPECT_TRUE(chosen) << text;
  return std::move(*chosen);
}

using Calls = std::vector<std::string>;

struct Ran {
  np_status status = NP_OK;
  Calls calls;
  std::vector<std::int64_t> lost;
  std::int64_t lost_beside = 0;
  std::size_t lost_places = 0;
};

// One rank of three, with two samples of two rounds, of which one more comes before them.
Ran run(const std::string& text, int rank, const Calls& losing = {}, bool lossy = true) {
  constexpr int nranks = 3;
  const ChosenPattern chosen = chosen_of(text);
  const Layer layer = talking();
  np_endpoint endpoint;
  endpoint.losing = losing;
  std::array<char, 1024> out{};
  std::array<char, 1024> in{};
  std::array<char, token_bytes> token{};
  std::vector<const char*> places;
  Ran ran;
  ran.lost.assign(2, 0);
  Stage stage{chosen.part(rank, nranks, 8), layer, &endpoint};
  stage.outgoing = Slots(out.data(), 16, 64);
  stage.incoming = Slots(in.data(), 16, 64);
  stage.token_out = stage.token_in = token.data();
  if (lossy) stage.lost = ran.lost.data();
  stage.lost_places = &places;
  std::array<std::int64_t, 3> stamps{};
  ran.status = chosen.pattern->run(stage, 2, 2, stamps.data());
  ran.calls = endpoint.calls;
  ran.lost_beside = stage.lost_beside;
  ran.lost_places = places.size();
  if (rank == 0 && ran.status == NP_OK) {
    EXPECT_LE(stamps[0], stamps[1]);
    EXPECT_GT(stamps[1], 0);
  }
  return ran;
}

Calls times(int count, const Calls& round) {
  Calls all;
  for (int i = 0; i < count; ++i) all.insert(all.end(), round.begin(), round.end());
  return all;
}

TEST(Cast, HandsEachMessageOverOnceAndWaitsForAllAnswers) {
  EXPECT_EQ(run("cast", 0).calls, times(5, {"cast", "recv 1", "recv 2"}));
  EXPECT_EQ(run("cast", 2).calls, times(5, {"recv_cast 0", "send 0"}));
  EXPECT_EQ(run("cast:in_flight=2", 0).calls, times(5, {"cast", "cast", "recv 1", "recv 2"}));
  EXPECT_EQ(run("cast:in_flight=2", 1).calls, times(5, {"recv_cast 0", "recv_cast 0", "send 0"}));
}

TEST(Cast, BySendsNeverCasts) {
  EXPECT_EQ(run("cast:by=sends", 0).calls, times(5, {"send 1", "send 2", "recv 1", "recv 2"}));
  EXPECT_EQ(run("cast:by=sends", 1).calls, times(5, {"recv 0", "send 0"}));
}

TEST(Cast, CountsALostMessageWhereItIsMissingAndAnswersAllTheSame) {
  const Ran ran = run("cast:in_flight=2", 1, {"recv_cast 0"});
  EXPECT_EQ(ran.status, NP_OK);
  EXPECT_EQ(ran.calls, times(5, {"recv_cast 0", "recv_cast 0", "send 0"}));
  EXPECT_EQ(ran.lost, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(ran.lost_beside, 1);
  EXPECT_EQ(ran.lost_places, 5U);
}

TEST(Cast, ALostAnswerSpoilsTheSampleAndIsNoLostPlace) {
  const Ran ran = run("cast", 0, {"recv 2"});
  EXPECT_EQ(ran.status, NP_OK);
  EXPECT_EQ(ran.lost, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(ran.lost_places, 0U);
}

TEST(Cast, FailsWhereALayerLosesMessagesThatPromisedNotTo) {
  EXPECT_EQ(run("cast", 0, {"recv 2"}, false).status, NP_LOST);
  EXPECT_EQ(run("cast", 1, {"recv_cast 0"}, false).status, NP_LOST);
}

TEST(Cast, CountsTheBytesOfAllReceivers) {
  const ChosenPattern chosen = chosen_of("cast:in_flight=4");
  const Part root = chosen.part(0, 5, 8);
  const Part other = chosen.part(3, 5, 8);
  EXPECT_EQ(chosen.pattern->messages_per_operation(root), 4U);
  EXPECT_EQ(chosen.pattern->operations(root), 4U);
  EXPECT_EQ(std::make_pair(chosen.pattern->departures(root), chosen.pattern->arrivals(root)), std::make_pair(4U, 0U));
  EXPECT_EQ(std::make_pair(chosen.pattern->departures(other), chosen.pattern->arrivals(other)), std::make_pair(0U, 4U));
  const Origin ninth = chosen.pattern->origin(other, 8);
  EXPECT_EQ(std::make_pair(ninth.rank, ninth.message), std::make_pair(0, std::uint64_t{8}))
      << "all receive the same messages";
}

TEST(Cast, NeedsALayerThatCasts) {
  Layer layer = talking();
  const ChosenPattern chosen = chosen_of("cast");
  const ChosenPattern sends = chosen_of("cast:by=sends");
  EXPECT_EQ(chosen.pattern->unfit(chosen.part(0, 3, 8), layer), "");
  layer.cast = nullptr;
  EXPECT_EQ(chosen.pattern->unfit(chosen.part(0, 3, 8), layer),
            "needs cast and recv_cast, which module talking lacks; by=sends needs neither");
  EXPECT_EQ(sends.pattern->unfit(sends.part(0, 3, 8), layer), "");
}

}  // namespace
}  // namespace netpipe
