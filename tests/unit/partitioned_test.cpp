// SPDX-License-Identifier: Apache-2.0
// The pattern `partitioned`, one rank at a time, over a layer that answers by itself.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "catalog/variant.h"
#include "patterns/kit/pattern.h"

namespace netpipe {
namespace {

// What the layer saw. Not np_endpoint itself: another test of this program has one.
struct Seen {
  std::uint32_t parts = 4;
  std::uint32_t failing = 99;  // this part cannot be marked
  std::mutex lock;
  std::vector<std::string> calls;  // those that are not of single parts
  std::map<std::uint32_t, std::set<std::thread::id>> markers;
  std::vector<std::uint32_t> marked;     // of the message that is going on
  std::vector<std::size_t> marked_ever;  // how many were, when it ended
};

Seen& seen_of(np_endpoint* e) { return *reinterpret_cast<Seen*>(e); }

np_status called(np_endpoint* e, const char* call) {
  seen_of(e).calls.emplace_back(call);
  return NP_OK;
}

Layer layer_with_parts() {
  Layer layer;
  layer.name = "parted";
  layer.max_threads = 8;
  layer.send = [](np_endpoint* e, int, const void*, size_t) { return called(e, "send"); };
  layer.recv = [](np_endpoint* e, int, void*, size_t) { return called(e, "recv"); };
  layer.isend_parts = [](np_endpoint* e, int, const void*, size_t, np_request* request, std::uint32_t* parts) {
    *parts = seen_of(e).parts;
    seen_of(e).marked.clear();
    return request == nullptr ? NP_OK : called(e, "begin");
  };
  layer.part_ready = [](np_endpoint* e, np_request*, std::uint32_t part) {
    const std::scoped_lock held(seen_of(e).lock);
    if (part == seen_of(e).failing) return NP_FAILED;
    seen_of(e).marked.push_back(part);
    seen_of(e).markers[part].insert(std::this_thread::get_id());
    return NP_OK;
  };
  layer.wait = [](np_endpoint* e, np_request*, size_t) {
    seen_of(e).marked_ever.push_back(std::set(seen_of(e).marked.begin(), seen_of(e).marked.end()).size());
    return called(e, "end");
  };
  return layer;
}

ChosenPattern chosen_of(const std::string& text) {
  Result<ChosenPattern> chosen = parse_pattern(text);
  EXPECT_TRUE(chosen) << text;
  return std::move(*chosen);
}

constexpr std::size_t bytes = 512;

struct Ran {
  np_status status = NP_OK;
  std::string sentence;
  std::array<std::int64_t, 4> notes{};
  std::array<char, bytes> sent{};
};

// One rank of two, with two samples of two rounds, before which one more comes.
Ran run(Seen& endpoint, const std::string& text, int rank) {
  const ChosenPattern chosen = chosen_of(text);
  const Layer layer = layer_with_parts();
  Ran ran;
  std::array<char, bytes> in{};
  std::array<char, token_bytes> token{};
  std::array<char, 256> message{};
  std::array<np_request, 1> requests{};
  const volatile int abort = 0;
  for (std::size_t i = 0; i < bytes; ++i) ran.sent[i] = static_cast<char>(i);
  Stage stage{chosen.part(rank, 2, bytes), layer, reinterpret_cast<np_endpoint*>(&endpoint)};
  stage.outgoing = Slots(ran.sent.data(), bytes, 1);
  stage.incoming = Slots(in.data(), bytes, 1);
  stage.token_out = stage.token_in = token.data();
  stage.requests = requests.data();
  stage.message = message;
  stage.abort = &abort;
  ran.status = chosen.pattern->run(stage, 2, 2, ran.notes.data());
  ran.sentence = message.data();
  return ran;
}

using Calls = std::vector<std::string>;
Calls times(int count, const Calls& round) {
  Calls all;
  for (int i = 0; i < count; ++i) all.insert(all.end(), round.begin(), round.end());
  return all;
}

TEST(Partitioned, EachThreadMarksItsOwnPartsBetweenBeginningAndEnd) {
  Seen endpoint;
  const Ran ran = run(endpoint, "partitioned:threads=2", 0);
  EXPECT_EQ(ran.status, NP_OK);
  EXPECT_EQ(endpoint.calls, times(5, {"begin", "end", "recv"}));
  EXPECT_EQ(endpoint.marked_ever, (std::vector<std::size_t>(5, 4))) << "all parts are marked when the end is awaited";
  ASSERT_EQ(endpoint.markers.size(), 4U);
  std::set<std::thread::id> all;
  for (const auto& [part, threads] : endpoint.markers) {
    EXPECT_EQ(threads.size(), 1U) << "part " << part;
    all.insert(threads.begin(), threads.end());
  }
  EXPECT_EQ(all.size(), 2U);
  EXPECT_EQ(endpoint.markers[0], endpoint.markers[1]);
  EXPECT_EQ(endpoint.markers[2], endpoint.markers[3]);
  EXPECT_EQ(*endpoint.markers[0].begin(), std::this_thread::get_id());
  for (std::size_t i = 0; i < bytes; ++i)
    EXPECT_EQ(ran.sent.at(i), static_cast<char>(i)) << "filling keeps what is sent";
  EXPECT_GT(ran.notes[0], 0);
  EXPECT_GT(ran.notes[2], 0);
}

TEST(Partitioned, TheOtherRankAnswersInTheSameWay) {
  Seen endpoint;
  EXPECT_EQ(run(endpoint, "partitioned:threads=4,fill=no", 1).status, NP_OK);
  EXPECT_EQ(endpoint.calls, times(5, {"recv", "begin", "end"}));
  EXPECT_EQ(endpoint.markers.size(), 4U);
}

TEST(Partitioned, BySendMarksNothing) {
  Seen endpoint;
  EXPECT_EQ(run(endpoint, "partitioned:by=send", 0).status, NP_OK);
  EXPECT_EQ(endpoint.calls, times(5, {"send", "recv"}));
  EXPECT_TRUE(endpoint.markers.empty());
}

TEST(Partitioned, APartThatCannotBeMarkedEndsAllThreadsWithItsStatus) {
  Seen endpoint;
  endpoint.failing = 3;
  EXPECT_EQ(run(endpoint, "partitioned:threads=2", 0).status, NP_FAILED);
  EXPECT_EQ(endpoint.calls, (Calls{"begin"}));
}

TEST(Partitioned, RefusesPartsThatItsThreadsCannotShare) {
  Seen endpoint;
  endpoint.parts = 4;
  const Ran ran = run(endpoint, "partitioned:threads=3", 0);
  EXPECT_EQ(ran.status, NP_UNSUPPORTED);
  EXPECT_EQ(ran.sentence, "3 threads cannot share the parts of a message evenly: it has 4");
  EXPECT_TRUE(endpoint.calls.empty());
}

TEST(Partitioned, NeedsALayerWithPartsAndThreads) {
  Layer layer = layer_with_parts();
  const ChosenPattern chosen = chosen_of("partitioned:threads=9");
  const ChosenPattern sends = chosen_of("partitioned:threads=9,by=send");
  EXPECT_EQ(chosen.pattern->unfit(chosen.part(0, 2, 8), layer), "wants 9 threads, module parted takes 8");
  layer.isend_parts = nullptr;
  EXPECT_EQ(chosen.pattern->unfit(chosen.part(0, 2, 8), layer),
            "needs isend_parts and part_ready, which module parted lacks; by=send needs neither");
  EXPECT_EQ(sends.pattern->unfit(sends.part(0, 2, 8), layer), "");
  EXPECT_EQ(chosen.pattern->unit_bytes(chosen.part(0, 2, 8)), 9U) << "every thread has a part";
}

}  // namespace
}  // namespace netpipe
