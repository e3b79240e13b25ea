// SPDX-License-Identifier: Apache-2.0
// Patterns whose messages are in flight together, over a layer that loses some: `window` and `incast`, one rank at a
// time, over a layer that answers by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "catalog/variant.h"
#include "patterns/kit/pattern.h"

namespace netpipe {
namespace {

struct Called {
  std::vector<std::string> calls;   // "isend 1 x2", "irecv 1 x2", "wait x2", "test", "send 1", "recv 1"
  std::vector<const void*> places;  // of the receives that were started
  std::string losing;               // of this call every second one loses its message
  int lost = 0;
};

}  // namespace
}  // namespace netpipe

struct np_endpoint {
  netpipe::Called* to;
};

namespace netpipe {
namespace {

np_status called(np_endpoint* e, const std::string& call) {
  e->to->calls.push_back(call);
  return call == e->to->losing && ++e->to->lost % 2 == 0 ? NP_LOST : NP_OK;
}

Layer in_flight() {
  Layer layer;
  layer.name = "some";
  layer.send = [](np_endpoint* e, int peer, const void*, size_t) { return called(e, "send " + std::to_string(peer)); };
  layer.recv = [](np_endpoint* e, int peer, void*, size_t) { return called(e, "recv " + std::to_string(peer)); };
  layer.isend = [](np_endpoint* e, int peer, const void*, size_t, size_t, np_request*, size_t count) {
    return called(e, "isend " + std::to_string(peer) + " x" + std::to_string(count));
  };
  layer.irecv = [](np_endpoint* e, int peer, void* data, size_t stride, size_t, np_request*, size_t count) {
    for (size_t i = 0; i < count; ++i) e->to->places.push_back(static_cast<char*>(data) + i * stride);
    return called(e, "irecv " + std::to_string(peer) + " x" + std::to_string(count));
  };
  layer.wait = [](np_endpoint* e, np_request*, size_t count) { return called(e, "wait x" + std::to_string(count)); };
  layer.test = [](np_endpoint* e, np_request*) { return called(e, "test"); };
  return layer;
}

using Calls = std::vector<std::string>;

struct Ran {
  np_status status = NP_OK;
  Calls calls;
  std::vector<std::int64_t> lost;
  std::int64_t lost_beside = 0;
  std::vector<const char*> lost_places;
  std::vector<const void*> places;
};

// One rank, with two samples of two rounds; one more comes before them.
Ran run(const std::string& text, int rank, int nranks, const std::string& losing = "", bool lossy = true) {
  const Result<ChosenPattern> chosen = parse_pattern(text);
  EXPECT_TRUE(chosen) << text;
  const Layer layer = in_flight();
  Called called;
  called.losing = losing;
  np_endpoint endpoint{&called};
  std::array<char, 1024> out{};
  std::array<char, 1024> in{};
  std::array<char, token_bytes> token{};
  std::array<np_request, 64> requests{};
  const int aborted = 0;
  Ran ran;
  ran.lost.assign(2, 0);
  Stage stage{chosen->part(rank, nranks, 8), layer, &endpoint};
  stage.outgoing = Slots(out.data(), 16, 64);
  stage.incoming = Slots(in.data(), 16, 64);
  stage.token_out = stage.token_in = token.data();
  stage.requests = requests.data();
  stage.abort = &aborted;
  if (lossy) stage.lost = ran.lost.data();
  stage.lost_places = &ran.lost_places;
  std::array<std::int64_t, 32> notes{};
  ran.status = chosen->pattern->run(stage, 2, 2, notes.data());
  ran.calls = called.calls;
  ran.places = called.places;
  ran.lost_beside = stage.lost_beside;
  return ran;
}

Calls times(int count, const Calls& round) {
  Calls all;
  for (int i = 0; i < count; ++i) all.insert(all.end(), round.begin(), round.end());
  return all;
}

// Every second place of the receives that were started.
std::vector<const void*> every_second(const std::vector<const void*>& places) {
  std::vector<const void*> found;
  for (std::size_t i = 1; i < places.size(); i += 2) found.push_back(places[i]);
  return found;
}

const std::string window = "window:in_flight=2";

TEST(LossyWindow, WaitsForEachReceiveAndCountsWhatIsMissingWhereItIsMissing) {
  const Ran ran = run(window, 1, 2, "wait x1");
  EXPECT_EQ(ran.status, NP_OK);
  EXPECT_EQ(ran.calls, times(5, {"irecv 0 x2", "wait x1", "wait x1", "send 0"}));
  EXPECT_EQ(ran.lost_beside, 1);
  EXPECT_EQ(ran.lost, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(std::vector<const void*>(ran.lost_places.begin(), ran.lost_places.end()), every_second(ran.places));
}

TEST(LossyWindow, ALostAcknowledgementSpoilsTheSampleAndIsNoLostMessage) {
  const Ran ran = run(window, 0, 2, "recv 1");
  EXPECT_EQ(ran.status, NP_OK);
  EXPECT_EQ(ran.calls, times(5, {"isend 1 x2", "wait x2", "recv 1"}));
  EXPECT_EQ(ran.lost, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(ran.lost_places.size(), 0U);
}

TEST(LossyWindow, InBothDirectionsEndsItsReceivesFirst) {
  const Ran ran = run(window + ",directions=both", 0, 2, "wait x1");
  EXPECT_EQ(ran.calls, times(5, {"irecv 1 x2", "isend 1 x2", "wait x1", "wait x1", "wait x2"}));
  EXPECT_EQ(ran.lost, (std::vector<std::int64_t>{2, 2}));
}

TEST(LossyWindow, GoesOnWithoutTheWordThatComesBeforeASampleOfLocalCompletion) {
  const Ran ran = run(window + ",completion=local", 0, 2, "recv 1");
  EXPECT_EQ(ran.status, NP_OK);
  EXPECT_EQ(ran.calls, times(2, {"recv 1", "isend 1 x2", "wait x2", "isend 1 x2", "wait x2"}));
  EXPECT_EQ(ran.lost, (std::vector<std::int64_t>{0, 0}));
}

TEST(LossyWindow, OfALayerThatLosesNothingIsOneWait) {
  EXPECT_EQ(run(window, 1, 2, "", false).calls, times(5, {"irecv 0 x2", "wait x2", "send 0"}));
  EXPECT_EQ(run(window, 1, 2, "wait x2", false).status, NP_LOST);
  EXPECT_EQ(run(window, 0, 2, "recv 1", false).status, NP_LOST);
  EXPECT_EQ(run(window + ",completion=local", 0, 2, "recv 1", false).status, NP_LOST);
}

TEST(LossyIncast, CountsWhatIsMissingFromWhichRankSoever) {
  const Calls round = {"irecv 1 x1", "irecv 2 x1", "send 1", "send 2", "wait x1", "wait x1"};
  const Ran ran = run("incast", 0, 3, "wait x1");
  EXPECT_EQ(ran.status, NP_OK);
  EXPECT_EQ(ran.calls, times(5, round));
  EXPECT_EQ(ran.lost_beside, 1);
  EXPECT_EQ(ran.lost, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(std::vector<const void*>(ran.lost_places.begin(), ran.lost_places.end()), every_second(ran.places));
}

TEST(LossyIncast, SeesWhatIsLostWhileItWatches) {
  const Ran ran = run("incast:arrivals=yes", 0, 3, "test");
  EXPECT_EQ(ran.status, NP_OK);
  EXPECT_EQ(ran.lost_beside, 0) << "the round before the samples waits";
  EXPECT_EQ(ran.lost, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(ran.lost_places.size(), 4U);
}

TEST(LossyIncast, AnswersARequestThatWasLost) {
  const Ran ran = run("incast", 2, 3, "recv 0");
  EXPECT_EQ(ran.status, NP_OK);
  EXPECT_EQ(ran.calls, times(5, {"recv 0", "send 0"}));
  EXPECT_EQ(ran.lost, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(ran.lost_places.size(), 0U);
}

TEST(LossyIncast, FailsWhereALayerLosesMessagesThatPromisedNotTo) {
  EXPECT_EQ(run("incast", 0, 3, "wait x2", false).status, NP_LOST);
  EXPECT_EQ(run("incast:arrivals=yes", 0, 3, "test", false).status, NP_LOST);
  EXPECT_EQ(run("incast", 1, 3, "recv 0", false).status, NP_LOST);
}

}  // namespace
}  // namespace netpipe
