// SPDX-License-Identifier: Apache-2.0
// The patterns `ring` and `exchange`, rank 0 of three, over a layer that answers by itself.
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

constexpr std::size_t bytes = 24;  // as no token is

// The calls of messages of the pattern. Not np_endpoint itself: another test of this program has one.
struct Seen {
  std::vector<std::string> calls;
  std::size_t fails_at = 99;  // this call fails, counted from 0
};

np_status called(np_endpoint* e, const std::string& call) {
  Seen& seen = *reinterpret_cast<Seen*>(e);
  seen.calls.push_back(call);
  return seen.calls.size() > seen.fails_at ? NP_FAILED : NP_OK;
}

std::string named(const char* call, int peer) { return call + (" " + std::to_string(peer)); }

Layer layer_with_both() {
  Layer layer;
  layer.name = "round";
  layer.send = [](np_endpoint*, int, const void*, size_t) { return NP_OK; };  // of the agreement on a start
  layer.recv = [](np_endpoint* e, int peer, void*, size_t size) {
    return size == bytes ? called(e, named("recv", peer)) : NP_OK;
  };
  layer.isend = [](np_endpoint* e, int peer, const void*, size_t, size_t, np_request*, size_t) {
    return called(e, named("isend", peer));
  };
  layer.irecv = [](np_endpoint* e, int peer, void*, size_t, size_t, np_request*, size_t) {
    return called(e, named("irecv", peer));
  };
  layer.wait = [](np_endpoint* e, np_request*, size_t count) { return called(e, "wait for " + std::to_string(count)); };
  layer.sendrecv = [](np_endpoint* e, int to, const void* out, int from, void* in, size_t size) {
    if (size != bytes || out == in) return NP_FAILED;
    return called(e, named("to", to) + named(" from", from));
  };
  return layer;
}

ChosenPattern chosen_of(const std::string& text) {
  Result<ChosenPattern> chosen = parse_pattern(text);
  EXPECT_TRUE(chosen) << text;
  return std::move(*chosen);
}

// Two samples of two rounds, before which one more comes.
np_status run(Seen& seen, const std::string& text) {
  const ChosenPattern chosen = chosen_of(text);
  const Layer layer = layer_with_both();
  std::array<char, bytes> out{}, in{};
  std::array<char, token_bytes> token_out{}, token_in{};
  std::array<np_request, 4> requests{};
  std::array<std::int64_t, 8> notes{};
  std::uint64_t progress = 0;
  const volatile int abort = 0;
  Stage stage{chosen.part(0, 3, bytes), layer, reinterpret_cast<np_endpoint*>(&seen)};
  stage.outgoing = Slots(out.data(), bytes, 1);
  stage.incoming = Slots(in.data(), bytes, 1);
  stage.token_out = token_out.data();
  stage.token_in = token_in.data();
  stage.requests = chosen.pattern->requests(stage, 2) > 0 ? requests.data() : nullptr;
  stage.progress = &progress;
  stage.abort = &abort;
  return chosen.pattern->run(stage, 2, 2, notes.data());
}

using Calls = std::vector<std::string>;
Calls times(int count, const Calls& round) {
  Calls all;
  for (int i = 0; i < count; ++i) all.insert(all.end(), round.begin(), round.end());
  return all;
}

TEST(Ring, WaitsForBothMessagesByRequests) {
  Seen seen;
  EXPECT_EQ(run(seen, "ring"), NP_OK);
  EXPECT_EQ(seen.calls, times(5, {"irecv 2", "isend 1", "wait for 2"}));
}

TEST(Ring, MakesOneCallForBothMessagesWhereItIsAskedTo) {
  Seen seen;
  EXPECT_EQ(run(seen, "ring:call=sendrecv"), NP_OK);
  EXPECT_EQ(seen.calls, times(5, {"to 1 from 2"}));
}

TEST(Ring, EndsWithTheFirstCallThatFails) {
  Seen seen;
  seen.fails_at = 2;
  EXPECT_EQ(run(seen, "ring:call=sendrecv"), NP_FAILED);
  EXPECT_EQ(seen.calls.size(), 3U);
}

TEST(Ring, NeedsALayerThatHasTheCall) {
  Layer layer = layer_with_both();
  const ChosenPattern one = chosen_of("ring:call=sendrecv"), two = chosen_of("ring");
  EXPECT_EQ(one.pattern->unfit(one.part(0, 2, 8), layer), "");
  layer.sendrecv = nullptr;
  EXPECT_EQ(one.pattern->unfit(one.part(0, 2, 8), layer),
            "needs sendrecv, which module round lacks; call=requests does not");
  EXPECT_EQ(two.pattern->unfit(two.part(0, 2, 8), layer), "");
}

TEST(Ring, UsesRequestsOnlyWhereItWaitsForThem) {
  const ChosenPattern one = chosen_of("ring:call=sendrecv"), two = chosen_of("ring");
  EXPECT_EQ(groups_of(*one.pattern, one.part(0, 2, 8)), std::uint32_t{NP_USES_MESSAGES});
  EXPECT_EQ(groups_of(*two.pattern, two.part(0, 2, 8)), std::uint32_t{NP_USES_MESSAGES | NP_USES_REQUESTS});
}

TEST(Exchange, WaitsForAllMessagesByRequests) {
  Seen seen;
  EXPECT_EQ(run(seen, "exchange"), NP_OK);
  EXPECT_EQ(seen.calls, times(5, {"irecv 2", "irecv 1", "isend 1", "isend 2", "wait for 4"}));
}

TEST(Exchange, ReceivesByCallsWhereItIsAskedTo) {
  Seen seen;
  EXPECT_EQ(run(seen, "exchange:call=recv"), NP_OK);
  EXPECT_EQ(seen.calls, times(5, {"isend 1", "isend 2", "recv 2", "recv 1", "wait for 2"}));
}

TEST(Exchange, EndsWithTheFirstCallThatFails) {
  for (const std::size_t at : {1, 2, 4, 5}) {
    Seen seen;
    seen.fails_at = at;
    EXPECT_EQ(run(seen, "exchange:call=recv"), NP_FAILED) << at;
    EXPECT_EQ(seen.calls.size(), at + 1);
  }
}

TEST(Exchange, NeedsALayerWhoseReceiveGoesOnWithSends) {
  Layer layer = layer_with_both();
  const ChosenPattern one = chosen_of("exchange:call=recv"), two = chosen_of("exchange");
  EXPECT_EQ(one.pattern->unfit(one.part(0, 2, 8), layer), "");
  layer.sendrecv = nullptr;
  EXPECT_EQ(
      one.pattern->unfit(one.part(0, 2, 8), layer),
      "needs sendrecv, which module round lacks: its recv may not go on with sends that were started; call=requests "
      "does not need it");
  EXPECT_EQ(two.pattern->unfit(two.part(0, 2, 8), layer), "");
}

TEST(Exchange, KeepsARequestForEachMessageThatItStarts) {
  const ChosenPattern one = chosen_of("exchange:call=recv"), two = chosen_of("exchange");
  EXPECT_EQ(one.pattern->requests(one.part(0, 2, 8), 1), 2U);
  EXPECT_EQ(two.pattern->requests(two.part(0, 2, 8), 1), 4U);
}

}  // namespace
}  // namespace netpipe
