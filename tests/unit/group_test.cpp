// SPDX-License-Identifier: Apache-2.0
// The ranks as threads of one process, joined by socket pairs.
#include "link/group.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace netpipe {
namespace {

const volatile int never = 0;
const volatile int raised = 1;

struct Ends {
  int rank_0 = -1;
  int other = -1;
};

Ends connected_ends() {
  std::array<int, 2> pair{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  return {pair[0], pair[1]};
}

// A group of each rank, connected as a star.
std::vector<std::unique_ptr<Group>> star(int size) {
  std::vector<int> ends = {-1};
  std::vector<std::unique_ptr<Group>> groups(static_cast<std::size_t>(size));
  for (int rank = 1; rank < size; ++rank) {
    const Ends pair = connected_ends();
    ends.push_back(pair.rank_0);
    groups[static_cast<std::size_t>(rank)] = make_socket_group(rank, size, {pair.other}, &never);
  }
  groups[0] = make_socket_group(0, size, ends, &never);
  return groups;
}

// Runs the same on all ranks at once.
void on_all(std::vector<std::unique_ptr<Group>>& groups, const std::function<void(Group&)>& body) {
  std::vector<std::thread> threads;
  for (auto& group : groups) threads.emplace_back([&] { body(*group); });
  for (std::thread& thread : threads) thread.join();
}

TEST(Group, SendsAndReceivesWholeMessagesInOrder) {
  auto groups = star(2);
  const std::string large(3U << 20, 'x');  // more than a socket holds, so both sides take several steps
  on_all(groups, [&](Group& group) {
    if (group.rank() == 0) {
      EXPECT_TRUE(group.send(1, large.data(), large.size()));
      EXPECT_TRUE(group.send(1, "abc", 3));
      return;
    }
    std::string got(large.size(), ' ');
    EXPECT_TRUE(group.recv(0, got.data(), got.size()));
    EXPECT_EQ(got, large);
    got.resize(3);
    EXPECT_TRUE(group.recv(0, got.data(), 3));
    EXPECT_EQ(got, "abc");
  });
}

TEST(Group, SaysWhetherSomethingHasArrivedAndTakesNothing) {
  auto groups = star(2);
  EXPECT_FALSE(groups[0]->arrives(1, 1));
  ASSERT_TRUE(groups[1]->send(0, "ab", 2));
  EXPECT_TRUE(groups[0]->arrives(1, 1000));
  EXPECT_TRUE(groups[0]->arrives(1, 0));
  std::array<char, 2> got{};
  ASSERT_TRUE(groups[0]->recv(1, got.data(), got.size()));
  EXPECT_FALSE(groups[0]->arrives(1, 1));
  groups[1].reset();
  EXPECT_TRUE(groups[0]->arrives(1, 1000)) << "that it has gone is told by recv";
  EXPECT_FALSE(groups[0]->recv(1, got.data(), 1));
}

TEST(Group, BroadcastsFromRank0) {
  auto groups = star(4);
  on_all(groups, [](Group& group) {
    std::uint64_t number = group.rank() == 0 ? 42 : 0;
    EXPECT_TRUE(group.bcast(&number, sizeof number));
    EXPECT_EQ(number, 42U);
    std::string text = group.rank() == 0 ? "a text" : "";
    EXPECT_TRUE(group.bcast_text(text));
    EXPECT_EQ(text, "a text");
  });
}

TEST(Group, GathersOneTextPerRankAtRank0) {
  auto groups = star(4);
  on_all(groups, [](Group& group) {
    const std::string mine =
        group.rank() == 2 ? "" : std::string(static_cast<std::size_t>(group.rank() + 1) * 1000, 'a');
    const Result<std::vector<std::string>> all = group.gather_text(mine);
    ASSERT_TRUE(all);
    if (group.rank() != 0) {
      EXPECT_TRUE(all->empty());
      return;
    }
    ASSERT_EQ(all->size(), 4U);
    EXPECT_EQ((*all)[0].size(), 1000U);
    EXPECT_EQ((*all)[1].size(), 2000U);
    EXPECT_EQ((*all)[2], "");
    EXPECT_EQ((*all)[3].size(), 4000U);
  });
}

TEST(Group, ExchangesTextsOfAllRanks) {
  auto groups = star(4);
  on_all(groups, [](Group& group) {
    const Result<std::vector<std::string>> all = group.exchange_text("rank " + std::to_string(group.rank()));
    ASSERT_TRUE(all);
    EXPECT_EQ(*all, (std::vector<std::string>{"rank 0", "rank 1", "rank 2", "rank 3"}));
  });
}

TEST(Group, AgreesOnEverybodysTextOrOnlyForRank0) {
  auto groups = star(4);
  const std::vector<std::string> everybodys = {"0", "1", "2", "3"};
  on_all(groups, [&](Group& group) {
    const std::string mine = std::to_string(group.rank());
    const Result<std::vector<std::string>> all = group.agree(mine);
    ASSERT_TRUE(all);
    EXPECT_EQ(*all, everybodys);
    const Result<std::vector<std::string>> for_root = group.agree_for_root(mine);
    ASSERT_TRUE(for_root);
    EXPECT_EQ(*for_root, group.rank() == 0 ? everybodys : std::vector<std::string>());
  });
}

TEST(Group, DisagreesWithTheSameSentenceEverywhere) {
  auto groups = star(4);
  on_all(groups, [&](Group& group) {
    const Result<std::string> mine = group.rank() == 3   ? Result<std::string>(usage("there is no such option"))
                                     : group.rank() == 1 ? Result<std::string>(failed("the others have gone"))
                                                         : Result<std::string>("fine");
    for (const bool for_root : {false, true}) {
      const Result<std::vector<std::string>> all = for_root ? group.agree_for_root(mine) : group.agree(mine);
      ASSERT_FALSE(all);
      EXPECT_EQ(all.failure().exit, Exit::usage);
      EXPECT_EQ(all.failure().sentence, "rank 3: there is no such option");
    }
  });
}

TEST(Group, SaysOnceWhatTwoRanksSay) {
  auto groups = star(4);
  on_all(groups, [&](Group& group) {
    const Result<std::string> mine = group.rank() == 0 || group.rank() == 2
                                         ? Result<std::string>(unavailable("there is no device"))
                                         : Result<std::string>("fine");
    const Result<std::vector<std::string>> all = group.agree(mine);
    ASSERT_FALSE(all);
    EXPECT_EQ(all.failure().exit, Exit::unavailable);
    EXPECT_EQ(all.failure().sentence, "rank 0 and rank 2: there is no device");
  });
}

TEST(Group, MeetsAtABarrier) {
  auto groups = star(4);
  std::array<int, 4> steps{};  // each rank writes its own; the barrier orders what the others read
  on_all(groups, [&](Group& group) {
    for (int step = 1; step <= 50; ++step) {
      steps[static_cast<std::size_t>(group.rank())] = step;
      ASSERT_TRUE(group.barrier());
      for (const int other : steps) EXPECT_EQ(other, step);
      ASSERT_TRUE(group.barrier());
    }
  });
}

TEST(Group, MeetsNobodyWhoSaysSomethingElseAtABarrier) {
  auto groups = star(2);
  const char wrong = 1;
  ASSERT_TRUE(groups[1]->send(0, &wrong, 1));
  const Outcome met = groups[0]->barrier();
  ASSERT_FALSE(met);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "rank 1 said something else where all ranks meet", met.failure().sentence);
}

TEST(Group, TakesNoExitCodeThatThereIsNotAndNoControlCharacters) {
  for (const char* said :
       {"-0 why\x1b[2J\n", "-99 why\x1b[2J\n", "-x why\x1b[2J\n", "-9223372036854775807 why\x1b[2J\n"}) {
    auto groups = star(2);
    ASSERT_TRUE(groups[1]->send_text(0, said));
    const Result<std::vector<std::string>> all = groups[0]->agree(std::string("fine"));
    ASSERT_FALSE(all) << said;
    EXPECT_EQ(all.failure().exit, Exit::failed) << said;
    EXPECT_EQ(all.failure().sentence, "rank 1: why?[2J ") << said;
  }
}

TEST(Group, OfOneRankSaysNothingToAnybody) {
  const std::unique_ptr<Group> group = make_single_group();
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->size(), 1);
  EXPECT_FALSE(group->any_gone());
  EXPECT_TRUE(group->barrier());
  std::string text = "mine";
  EXPECT_TRUE(group->bcast_text(text));
  EXPECT_EQ(*group->exchange_text("mine"), (std::vector<std::string>{"mine"}));
  EXPECT_FALSE(group->send(0, "x", 1));
  EXPECT_FALSE(group->recv(0, text.data(), 1));
}

TEST(Subgroup, LeavesTheOtherRanksAlone) {
  auto groups = star(4);
  on_all(groups, [&](Group& group) {
    if (group.rank() >= 2) return;  // they take no part, and would be waited for in vain
    const std::unique_ptr<Group> pair = make_subgroup(group, 2);
    EXPECT_EQ(pair->size(), 2);
    EXPECT_EQ(pair->rank(), group.rank());
    ASSERT_TRUE(pair->barrier());
    const Result<std::vector<std::string>> all = pair->agree("rank " + std::to_string(pair->rank()));
    ASSERT_TRUE(all) << all.failure().sentence;
    EXPECT_EQ(*all, (std::vector<std::string>{"rank 0", "rank 1"}));
  });
}

TEST(Subgroup, OfOneRankNeedsNobody) {
  auto groups = star(3);
  const std::unique_ptr<Group> alone = make_subgroup(*groups[0], 1);
  ASSERT_TRUE(alone->barrier());
  EXPECT_EQ(*alone->agree(std::string("mine")), (std::vector<std::string>{"mine"}));
  const Result<std::vector<std::string>> bad = alone->agree(Failure{Exit::usage, "why"});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.failure().sentence, "rank 0: why");
}

TEST(Group, TakesFromOthersNoneButTheExitCodesOfARank) {
  const auto groups = star(1);
  for (const Exit said : {Exit::done, Exit::gate, Exit::unstable, Exit::interrupted, Exit::failed}) {
    const Result<std::vector<std::string>> bad = groups[0]->agree(Failure{said, "why"});
    ASSERT_FALSE(bad);
    EXPECT_EQ(bad.failure().exit, Exit::failed);
  }
  for (const Exit said : {Exit::usage, Exit::unavailable}) {
    EXPECT_EQ(groups[0]->agree(Failure{said, "why"}).failure().exit, said);
  }
}

TEST(Subgroup, WatchesOnlyItsOwnRanks) {
  auto groups = star(3);
  const std::unique_ptr<Group> pair = make_subgroup(*groups[0], 2);
  groups[2].reset();
  EXPECT_TRUE(groups[0]->any_gone());
  EXPECT_FALSE(pair->any_gone());
  groups[1].reset();
  EXPECT_TRUE(pair->any_gone());
}

TEST(Group, TakesATextOfAMebibyteAndRefusesALongerOne) {
  auto groups = star(2);
  std::thread sender([&] {
    EXPECT_TRUE(groups[1]->gather_text(std::string(1U << 20, 'x')));
    const std::uint32_t length = (1U << 20) + 1;
    EXPECT_TRUE(groups[1]->send(0, &length, sizeof length));
  });
  const Result<std::vector<std::string>> whole = groups[0]->gather_text("");
  ASSERT_TRUE(whole);
  EXPECT_EQ((*whole)[1].size(), 1U << 20);
  const Result<std::vector<std::string>> longer = groups[0]->gather_text("");
  sender.join();
  ASSERT_FALSE(longer);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "rank 1 announces a text of 1048577 bytes", longer.failure().sentence);
}

TEST(Group, RefusesALengthThatWouldTakeAllMemory) {
  auto groups = star(2);
  const std::uint32_t length = UINT32_MAX;
  ASSERT_TRUE(groups[0]->send(1, &length, sizeof length));
  std::string text;
  const Outcome got = groups[1]->bcast_text(text);
  ASSERT_FALSE(got);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "4294967295 bytes", got.failure().sentence);
}

TEST(Group, NamesTheRankThatHasGone) {
  auto groups = star(3);
  groups[2].reset();
  char byte = 0;
  const Outcome received = groups[0]->recv(2, &byte, 1);
  ASSERT_FALSE(received);
  EXPECT_EQ(received.failure().exit, Exit::failed);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "rank 2 has gone", received.failure().sentence);
  const Outcome sent = groups[0]->send(2, &byte, 1);
  ASSERT_FALSE(sent);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "rank 2 has gone", sent.failure().sentence);
  groups[0].reset();
  const Outcome barrier = groups[1]->barrier();
  ASSERT_FALSE(barrier);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "rank 0 has gone", barrier.failure().sentence);
}

TEST(Group, NoticesThatAMessageBrokeOffInTheMiddle) {
  auto groups = star(2);
  ASSERT_TRUE(groups[0]->send(1, "half", 4));
  groups[0].reset();
  std::array<char, 8> room{};
  EXPECT_FALSE(groups[1]->recv(0, room.data(), room.size()));
}

TEST(Group, GivesUpWhenTheFlagIsRaised) {
  const Ends pair = connected_ends();
  const std::unique_ptr<Group> group = make_socket_group(1, 2, {pair.other}, &raised);
  char byte = 0;
  const Outcome received = group->recv(0, &byte, 1);
  ASSERT_FALSE(received);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "gave up waiting for rank 0", received.failure().sentence);
  close(pair.rank_0);
}

TEST(PeerGone, IsFalseWhileNothingOrAnOrdinaryMessageIsThere) {
  auto groups = star(3);
  EXPECT_FALSE(groups[0]->any_gone());
  EXPECT_FALSE(groups[1]->any_gone());
  const std::array<std::int32_t, 2> report = {0, 7};  // the first word of a good report is 0
  ASSERT_TRUE(groups[2]->send(0, report.data(), sizeof report));
  EXPECT_FALSE(groups[0]->any_gone());
  std::array<std::int32_t, 2> got{};
  ASSERT_TRUE(groups[0]->recv(2, got.data(), sizeof got));
  EXPECT_EQ(got, report) << "looking took nothing away";
}

TEST(PeerGone, IsTrueWhenAReportOfTroubleIsThere) {
  auto groups = star(3);
  const std::array<std::int32_t, 2> report = {4, 0};
  ASSERT_TRUE(groups[2]->send(0, report.data(), sizeof report));
  EXPECT_TRUE(groups[0]->any_gone());
  EXPECT_FALSE(groups[1]->any_gone());
  std::array<std::int32_t, 2> got{};
  ASSERT_TRUE(groups[0]->recv(2, got.data(), sizeof got));
  EXPECT_EQ(got, report);
  EXPECT_FALSE(groups[0]->any_gone());
}

TEST(PeerGone, IsTrueAtTheEndOfAConnection) {
  auto groups = star(3);
  groups[2].reset();
  EXPECT_TRUE(groups[0]->any_gone());
  EXPECT_FALSE(groups[1]->any_gone());
  groups[0].reset();
  EXPECT_TRUE(groups[1]->any_gone());
}

}  // namespace
}  // namespace netpipe
