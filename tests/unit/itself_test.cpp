// SPDX-License-Identifier: Apache-2.0
// The pattern `itself`: every message of a rank is to that rank, and its receive is posted first.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "catalog/variant.h"
#include "patterns/kit/pattern.h"

namespace netpipe {
namespace {

using Calls = std::vector<std::pair<std::string, int>>;

Calls& seen_of(np_endpoint* e) { return *reinterpret_cast<Calls*>(e); }

Layer layer_to_itself() {
  Layer layer;
  layer.name = "alone";
  layer.to_itself = 1;
  layer.send = [](np_endpoint* e, int peer, const void*, size_t) {
    seen_of(e).emplace_back("send", peer);
    return NP_OK;
  };
  layer.recv = [](np_endpoint*, int, void*, size_t) { return NP_FAILED; };
  layer.isend = [](np_endpoint*, int, const void*, size_t, size_t, np_request*, size_t) { return NP_FAILED; };
  layer.irecv = [](np_endpoint* e, int peer, void*, size_t, size_t, np_request*, size_t) {
    seen_of(e).emplace_back("irecv", peer);
    return NP_OK;
  };
  layer.wait = [](np_endpoint* e, np_request*, size_t) {
    seen_of(e).emplace_back("wait", -1);
    return NP_OK;
  };
  return layer;
}

const Pattern& itself() {
  static const Result<ChosenPattern> chosen = parse_pattern("itself");
  EXPECT_TRUE(chosen);
  return *chosen->pattern;
}

TEST(Itself, EachMessageIsReceivedByTheRankThatSendsIt) {
  const Layer layer = layer_to_itself();
  for (const int rank : {0, 1, 2}) {
    Calls calls;
    std::array<char, 8> out{}, in{};
    std::array<np_request, 1> requests{};
    std::array<std::int64_t, 3> stamps{};
    Stage stage{{rank, 3, out.size(), nullptr}, layer, reinterpret_cast<np_endpoint*>(&calls)};
    stage.outgoing = Slots(out.data(), out.size(), 1);
    stage.incoming = Slots(in.data(), in.size(), 1);
    stage.requests = requests.data();
    ASSERT_EQ(itself().run(stage, 2, 2, stamps.data()), NP_OK);
    ASSERT_EQ(calls.size(), 12U);
    for (std::size_t i = 0; i < calls.size(); i += 3) {
      EXPECT_EQ(calls[i], std::pair(std::string("irecv"), rank));
      EXPECT_EQ(calls[i + 1], std::pair(std::string("send"), rank));
      EXPECT_EQ(calls[i + 2].first, "wait");
    }
    EXPECT_EQ(stamps[2] >= stamps[0] && stamps[0] > 0, rank == 0) << "rank 0 reads the clock, and no other";
    EXPECT_EQ(itself().origin(stage, 1).rank, rank);
  }
}

TEST(Itself, IsForLayersThatSayThatTheyCan) {
  Layer layer = layer_to_itself();
  EXPECT_EQ(itself().missing(layer, 2), nullptr);
  layer.to_itself = 0;
  EXPECT_STREQ(itself().missing(layer, 2), "messages of a rank to itself");
  layer.isend = nullptr;
  EXPECT_STREQ(itself().missing(layer, 2), "isend and irecv");
}

TEST(Itself, EndsWithTheFirstCallThatFails) {
  Layer layer = layer_to_itself();
  layer.wait = [](np_endpoint*, np_request*, size_t) { return NP_PEER_LOST; };
  Calls calls;
  std::array<char, 8> out{}, in{};
  std::array<np_request, 1> requests{};
  std::array<std::int64_t, 3> stamps{};
  Stage stage{{0, 2, out.size(), nullptr}, layer, reinterpret_cast<np_endpoint*>(&calls)};
  stage.outgoing = Slots(out.data(), out.size(), 1);
  stage.incoming = Slots(in.data(), in.size(), 1);
  stage.requests = requests.data();
  EXPECT_EQ(itself().run(stage, 2, 2, stamps.data()), NP_PEER_LOST);
  EXPECT_EQ(calls.size(), 2U);
}

}  // namespace
}  // namespace netpipe
