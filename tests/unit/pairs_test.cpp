// SPDX-License-Identifier: Apache-2.0
// The pattern `pairs` with ranks that are threads and a module that hands messages over in memory.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
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

constexpr std::uint64_t size_bytes = 24;  // as no token is

// The mailboxes of all ranks, and who met whom between which agreements.
struct Hall {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<int, int>, std::deque<std::string>> boxes;  // (from, to)
  std::vector<int> turns;                                        // per rank, moments that it learned of
  std::vector<std::set<std::pair<int, int>>> meetings;           // by turn, of ranks other than 0: (rank, peer)
};

}  // namespace
}  // namespace netpipe

struct np_endpoint {
  netpipe::Hall* hall;
  int rank;
};

namespace netpipe {
namespace {

np_status hand_over(np_endpoint* e, int peer, const void* data, size_t bytes) {
  const std::lock_guard lock(e->hall->mutex);
  e->hall->boxes[{e->rank, peer}].emplace_back(static_cast<const char*>(data), bytes);
  e->hall->changed.notify_all();
  return NP_OK;
}

np_status take_over(np_endpoint* e, int peer, void* data, size_t bytes) {
  std::unique_lock lock(e->hall->mutex);
  std::deque<std::string>& box = e->hall->boxes[{peer, e->rank}];
  if (!e->hall->changed.wait_for(lock, std::chrono::seconds(20), [&] { return !box.empty(); })) return NP_PEER_LOST;
  if (box.front().size() != bytes) return NP_FAILED;
  std::memcpy(data, box.front().data(), bytes);
  box.pop_front();
  int& turn = e->hall->turns[static_cast<std::size_t>(e->rank)];
  if (bytes == sizeof(std::int64_t)) ++turn;
  if (bytes == size_bytes && e->rank != 0) {
    e->hall->meetings.resize(std::max(e->hall->meetings.size(), static_cast<std::size_t>(turn) + 1));
    e->hall->meetings[static_cast<std::size_t>(turn)].insert({e->rank, peer});
  }
  return NP_OK;
}

ChosenPattern chosen_of(const std::string& text) {
  Result<ChosenPattern> chosen = parse_pattern(text);
  EXPECT_TRUE(chosen) << text;
  return std::move(*chosen);
}

// The pairs of each turn of the rounds that are not timed; the others are the same again.
std::vector<std::set<std::pair<int, int>>> turns_of(const std::string& text, int nranks) {
  const ChosenPattern chosen = chosen_of(text);
  Layer module;
  module.send = hand_over;
  module.recv = take_over;
  Hall hall;
  hall.turns.assign(static_cast<std::size_t>(nranks), 0);
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < nranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::array<char, 64> out{};
      std::array<char, 64> in{};
      std::array<char, 64> token_out{};
      std::array<char, 64> token_in{};
      np_endpoint endpoint{&hall, rank};
      const volatile int abort = 0;
      std::uint64_t progress = 0;
      Stage stage{chosen.part(rank, nranks, size_bytes), module, &endpoint};
      stage.outgoing = Slots(out.data(), out.size(), 1);
      stage.incoming = Slots(in.data(), in.size(), 1);
      stage.token_out = token_out.data();
      stage.token_in = token_in.data();
      stage.oversubscribed = true;
      stage.progress = &progress;
      stage.abort = &abort;
      std::vector<std::int64_t> notes(chosen.pattern->notes(stage, 1));
      if (chosen.pattern->run(stage, 1, 1, notes.data()) != NP_OK) ++failures;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  std::vector<std::set<std::pair<int, int>>> turns;
  for (std::size_t turn = 1; turn < 1 + (hall.meetings.size() - 1) / 2; ++turn) {
    turns.emplace_back();
    for (const auto& [rank, peer] : hall.meetings[turn]) {
      turns.back().insert({std::min(rank, peer), std::max(rank, peer)});
    }
    EXPECT_EQ(hall.meetings[turn], hall.meetings[turn + (hall.meetings.size() - 1) / 2]) << "the timed round differs";
  }
  return turns;
}

class Tournament : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Pairs, Tournament, testing::Range(2, 10));

TEST_P(Tournament, EachRankMeetsEachOtherOnceAndNobodyIsInTwoPairsAtATime) {
  const int n = GetParam();
  const auto turns = turns_of("pairs:pairing=all", n);
  EXPECT_EQ(turns.size(), static_cast<std::size_t>(n % 2 == 0 ? n - 1 : n));
  std::set<std::pair<int, int>> met;
  for (const auto& turn : turns) {
    EXPECT_EQ(turn.size(), static_cast<std::size_t>(n / 2));
    std::set<int> busy;
    for (const auto& [low, high] : turn) {
      EXPECT_TRUE(busy.insert(low).second && busy.insert(high).second) << low << " or " << high << " twice";
      EXPECT_TRUE(met.insert({low, high}).second) << low << " and " << high << " met before";
    }
  }
  EXPECT_EQ(met.size(), static_cast<std::size_t>(n * (n - 1) / 2));
}

TEST_P(Tournament, OneAfterAnotherIsOnePairATime) {
  const int n = GetParam();
  const auto turns = turns_of("pairs:pairing=all,together=no", n);
  EXPECT_EQ(turns.size(), static_cast<std::size_t>(n * (n - 1) / 2));
  for (const auto& turn : turns) EXPECT_EQ(turn.size(), 1U);
}

TEST_P(Tournament, CellsAreThePairsInOrder) {
  const int n = GetParam();
  const ChosenPattern chosen = chosen_of("pairs:pairing=all");
  const Part part = chosen.part(0, n, 8);
  std::uint32_t i = 0;
  for (int low = 0; low < n; ++low) {
    for (int high = low + 1; high < n; ++high, ++i) {
      const Cell cell = chosen.pattern->cell(part, i);
      EXPECT_EQ(std::make_pair(cell.rank, cell.peer), std::make_pair(low, high));
    }
  }
  EXPECT_EQ(chosen.pattern->cells(part), i);
}

TEST_P(Tournament, WhatArrivesIsWhatItsSenderSent) {
  const int n = GetParam();
  const ChosenPattern chosen = chosen_of("pairs:pairing=all");
  for (int rank = 0; rank < n; ++rank) {
    const Part part = chosen.part(rank, n, 8);
    const std::uint32_t arrivals = chosen.pattern->arrivals(part);
    EXPECT_EQ(arrivals, static_cast<std::uint32_t>(n - 1));
    std::set<int> from;
    for (std::uint64_t i = 0; i < 3ULL * arrivals; ++i) {
      const Origin origin = chosen.pattern->origin(part, i);
      from.insert(origin.rank);
      const Origin back = chosen.pattern->origin(chosen.part(origin.rank, n, 8), origin.message);
      EXPECT_EQ(std::make_pair(back.rank, back.message), std::make_pair(rank, i));
    }
    EXPECT_EQ(from.size(), arrivals);
  }
}

TEST(Pairs, HalvesCrossTheMiddleAndNeighboursDoNot) {
  using Turn = std::set<std::pair<int, int>>;
  EXPECT_EQ(turns_of("pairs", 6), (std::vector<Turn>{{{0, 3}, {1, 4}, {2, 5}}}));
  EXPECT_EQ(turns_of("pairs:pairing=neighbours", 6), (std::vector<Turn>{{{0, 1}, {2, 3}, {4, 5}}}));
  for (const char* text : {"pairs", "pairs:pairing=neighbours"}) {
    const ChosenPattern chosen = chosen_of(text);
    const Part part = chosen.part(0, 6, 8);
    const auto turns = turns_of(text, 6);
    for (std::uint32_t i = 0; i < chosen.pattern->cells(part); ++i) {
      const Cell cell = chosen.pattern->cell(part, i);
      EXPECT_TRUE(turns[0].contains({cell.rank, cell.peer})) << text << ": " << cell.rank << ", " << cell.peer;
    }
  }
}

TEST(Pairs, OfMoreRanksThanARecordHasRoomForNotAllMeetAll) {
  Layer module;
  module.name = "some";
  const ChosenPattern all = chosen_of("pairs:pairing=all");
  EXPECT_EQ(all.pattern->unfit(all.part(0, 1024, 8), module), "");
  EXPECT_EQ(all.pattern->unfit(all.part(0, 1025, 8), module),
            "takes at most 1024 ranks with pairing=all, there are 1025");
  const ChosenPattern halves = chosen_of("pairs");
  EXPECT_EQ(halves.pattern->unfit(halves.part(0, 10'000, 8), module), "");
}

TEST(Pairs, OfManyRanksTheFirstAndTheLastCellAreWhereTheyBelong) {
  const ChosenPattern chosen = chosen_of("pairs:pairing=all");
  const Part part = chosen.part(0, 1024, 8);
  const std::vector<std::pair<std::uint32_t, std::pair<int, int>>> known = {
      {0, {0, 1}}, {1022, {0, 1023}}, {1023, {1, 2}}, {523'774, {1021, 1023}}, {523'775, {1022, 1023}}};
  for (const auto& [number, pair] : known) {
    const Cell cell = chosen.pattern->cell(part, number);
    EXPECT_EQ(std::make_pair(cell.rank, cell.peer), pair) << number;
  }
}

TEST(Pairs, OfAnOddNumberOfRanksOnlyAllMeetAll) {
  Layer module;
  module.name = "some";
  for (const char* text : {"pairs", "pairs:pairing=neighbours"}) {
    const ChosenPattern chosen = chosen_of(text);
    EXPECT_EQ(chosen.pattern->unfit(chosen.part(0, 5, 8), module), "needs a multiple of 2 ranks, there are 5");
    EXPECT_EQ(chosen.pattern->unfit(chosen.part(0, 6, 8), module), "");
  }
  const ChosenPattern all = chosen_of("pairs:pairing=all");
  EXPECT_EQ(all.pattern->unfit(all.part(0, 5, 8), module), "");
  const ChosenPattern both = chosen_of("pairs:traffic=both");
  EXPECT_NE(both.pattern->unfit(both.part(0, 4, 8), module).find("isend"), std::string::npos);
}

// What comes of the notes of one sample of one round. notes: per rank, clock error and whole, then begin and end of
// each step.
struct Evaluated {
  Reading reading;
  std::vector<double> measures, cells;
};
Evaluated evaluated(const std::string& text, const std::vector<std::vector<std::int64_t>>& notes) {
  const ChosenPattern chosen = chosen_of(text);
  const Part part = chosen.part(0, static_cast<int>(notes.size()), 8);
  Evaluated outcome;
  outcome.measures.resize(chosen.pattern->measures.size());
  outcome.cells.resize(chosen.pattern->cells(part));
  outcome.reading.measures = outcome.measures;
  outcome.reading.cells = outcome.cells;
  std::vector<std::span<const std::int64_t>> of(notes.begin(), notes.end());
  chosen.pattern->evaluate(part, 1, of, outcome.reading);
  return outcome;
}

TEST(Pairs, TheTimeIsFromTheFirstStartToTheLastEnd) {
  // 0 with 2, and 1 with 3, which is slow.
  const Evaluated outcome =
      evaluated("pairs", {{0, 5000, 10, 110}, {3, 0, 20, 910}, {7, 0, 30, 100}, {0, 0, 40, 1010}});
  EXPECT_EQ(outcome.reading.ns, 1000);
  EXPECT_EQ(outcome.reading.span_ns, 5000);
  EXPECT_EQ(outcome.cells, (std::vector<double>{100, 990}));
  EXPECT_DOUBLE_EQ(outcome.measures[0], 9.9);
  EXPECT_EQ(outcome.measures[1], 40);
  EXPECT_EQ(outcome.measures[2], 7);
  EXPECT_EQ(outcome.measures[3], (100 + 990) / 4.0) << "mean of the pairs, half a round trip";
}

TEST(Pairs, OfATournamentItIsTheSumOverTheStepsAndEachPairHasItsOwn) {
  // Three ranks: step 0 is 1 with 2, step 1 is 0 with 1, step 2 is 0 with 2; whoever sits out notes nothing.
  const std::vector<std::vector<std::int64_t>> notes{
      {0, 900, 0, 0, 0, 200, 0, 290}, {0, 0, 0, 100, 0, 190, 0, 0}, {0, 0, 0, 90, 0, 0, 0, 300}};
  const Evaluated together = evaluated("pairs:pairing=all", notes);
  EXPECT_EQ(together.reading.ns, 600);
  // Times three: an operation of this chosen is a third of the three steps.
  EXPECT_EQ(together.cells, (std::vector<double>{600, 900, 300}));
  EXPECT_DOUBLE_EQ(together.measures[0], 1.5);
  EXPECT_DOUBLE_EQ(together.measures[3], 100) << "a sixth of 600: three steps, there and back";
  EXPECT_EQ(evaluated("pairs:pairing=all,together=no", notes).reading.ns, 600);
}

// Of a collective each rank notes its start and end from the agreed moment on, its clock error and the whole.
TEST(Collective, TheSlowestRankCountsAndTheMeanOverTheRanksStandsBeside) {
  const Evaluated outcome = evaluated("collective", {{10, 110, 5, 900}, {30, 100, 7, 0}});
  EXPECT_EQ(outcome.reading.ns, 110);
  EXPECT_EQ(outcome.cells, (std::vector<double>{110, 100}));
  const std::vector<double> first(outcome.measures.begin(), outcome.measures.begin() + 4);
  EXPECT_EQ(first, (std::vector<double>{30, 7, 100, 85})) << "100 and 70 ns from their own starts";
}

TEST(Pairs, CountAllPairsThatAreAtItAtOnceAndBothDirectionsWhereTheyAre) {
  const auto counted = [](const std::string& text, int nranks) {
    const ChosenPattern chosen = chosen_of(text);
    const Part part = chosen.part(0, nranks, 0);
    return std::make_pair(chosen.pattern->operations(part), chosen.pattern->messages_per_operation(part));
  };
  using Counted = std::pair<std::uint32_t, std::uint32_t>;
  EXPECT_EQ(counted("pairs", 8), Counted(2, 4));
  EXPECT_EQ(counted("pairs:traffic=both", 8), Counted(1, 8));
  EXPECT_EQ(counted("pairs:together=no", 8), Counted(8, 1));
  EXPECT_EQ(counted("pairs:pairing=all", 8), Counted(14, 4));
  EXPECT_EQ(counted("pairs:pairing=all,traffic=both", 7), Counted(7, 6));
}

// ------------------------------------------------------------------------------------------------- the other patterns

TEST(Incast, EachMessageHasItsSenderAndAPlaceOfItsOwn) {
  const ChosenPattern chosen = chosen_of("incast");
  const Part part = chosen.part(0, 4, 8);
  EXPECT_EQ(chosen.pattern->arrivals(part), 3U);
  EXPECT_GE(chosen.pattern->in_flight(part), 3U);
  EXPECT_EQ(chosen.pattern->messages_per_operation(part), 3U);
  const Origin fifth = chosen.pattern->origin(part, 4);
  EXPECT_EQ(std::make_pair(fifth.rank, fifth.message), std::make_pair(2, std::uint64_t{1}));
}

TEST(Outcast, EachRankHasAMessageOfItsOwn) {
  const ChosenPattern chosen = chosen_of("outcast");
  EXPECT_EQ(chosen.pattern->departures(chosen.part(0, 4, 8)), 3U);
  const Origin second = chosen.pattern->origin(chosen.part(3, 4, 8), 1);
  EXPECT_EQ(std::make_pair(second.rank, second.message), std::make_pair(0, std::uint64_t{5}));
}

TEST(Congestion, ComparesTheTwoPartsOfASample) {
  const ChosenPattern chosen = chosen_of("congestion");
  const Part part = chosen.part(0, 6, 8);
  // Rank 0: without load, with load, all of it. Ranks 1 and 2 lead: bytes, and how long.
  const std::vector<std::vector<std::int64_t>> notes{{1000, 4000, 9000}, {5000, 1000}, {3000, 1000}, {}, {}, {}};
  std::vector<std::span<const std::int64_t>> of(notes.begin(), notes.end());
  std::vector<double> measures(chosen.pattern->measures.size());
  Reading reading;
  reading.measures = measures;
  chosen.pattern->evaluate(part, 5, of, reading);
  EXPECT_EQ(reading.ns, 4000);
  EXPECT_EQ(reading.span_ns, 9000);
  EXPECT_EQ(measures, (std::vector<double>{100, 4, 8e9}));
}

}  // namespace
}  // namespace netpipe
