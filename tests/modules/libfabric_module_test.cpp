// SPDX-License-Identifier: Apache-2.0
// libfabric, ep=dgram: what is lost is found out although its sender does something else by then, and what has not been
// sent is not lost.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "netpipe/module.h"
#include "two_ranks.h"

namespace {

using namespace two_ranks;

// Why they cannot run here, or "".
const std::string& missing() {
  static const std::string reason = []() -> std::string {
    const char* const modules = std::getenv("NETPIPE_MODULES");
    if (modules == nullptr || access((std::string(modules) + "/libfabric.so").c_str(), R_OK) != 0) {
      return "libfabric is not built: apt install libfabric-dev";
    }
    // In a process of its own: the library leaves things behind in whoever opens it.
    const auto body = [](int number, int control) -> std::string {
      Rank rank("libfabric:ep=dgram,provider=udp", number, control);
      return rank.open() == NP_OK ? "" : rank.said();
    };
    const std::string said = run_ranks(body).both();
    return said.find("is not offered") != std::string::npos ? said : "";
  }();
  return reason;
}

class LibfabricDatagrams : public testing::Test {
 protected:
  void SetUp() override {
    if (!missing().empty()) GTEST_SKIP() << missing();
  }
};

constexpr size_t kBytes = 1000;

// Rank 0 sends more than the kernel keeps for rank 1, and is nowhere in the module when rank 1 begins to receive:
// nothing comes behind the last that arrived. Were each of them waited for, this would end at the deadline.
std::string overrun(Rank& rank) {
  constexpr int kMessages = 3000;
  if (rank.context.rank == 0) {
    for (int i = 0; i < kMessages; ++i) {
      const Bytes data = pattern(kBytes, static_cast<uint64_t>(i));
      if (const np_status s = rank.send(data.data(), kBytes); s != NP_OK) return failed(rank, "send", s);
    }
    rank.meet();
    rank.meet();
    return bounce(rank, {1, kBytes});
  }
  rank.meet();
  int whole = 0, lost = 0;
  for (int i = 0; i < kMessages; ++i) {
    const Bytes wanted = pattern(kBytes, static_cast<uint64_t>(i));
    Bytes into(kBytes);
    const np_status s = rank.recv(into.data(), kBytes);
    if (s != NP_OK && s != NP_LOST) return failed(rank, "recv", s);
    ++(s == NP_OK ? whole : lost);
    if (s != NP_OK) continue;
    if (std::string wrong = expect_same(into, wanted, "message " + std::to_string(i)); !wrong.empty()) return wrong;
  }
  // At 33 ms each, a thousand of them would take longer than the deadline of both ranks.
  if (whole == 0 || lost < 1000) {
    return std::to_string(whole) + " arrived and " + std::to_string(lost) + " were lost";
  }
  if (Texts counted = rank.counted(); counted["messages_lost"] != std::to_string(lost)) {
    return "messages_lost is " + counted["messages_lost"] + " of " + std::to_string(lost);
  }
  rank.meet();
  return bounce(rank, {1, kBytes});  // and the next messages are as before
}

TEST_F(LibfabricDatagrams, AllThatWereLostAtTheEndAreFoundAtOnce) {
  for (const char* const wait : {"poll", "block"}) {
    const std::string variant = std::string("libfabric:ep=dgram,provider=udp,wait=") + wait;
    EXPECT_EQ("", run_connected(variant, overrun).both()) << variant;
  }
}

// Many times its patience passes before rank 0 sends.
std::string late(Rank& rank, bool by_request) {
  const Bytes data = pattern(kBytes, 1);
  if (rank.context.rank == 0) {
    usleep(100'000);
    const np_status s = rank.send(data.data(), kBytes);
    return s == NP_OK ? "" : failed(rank, "send", s);
  }
  Bytes into(kBytes);
  np_request request{};
  np_status s = by_request ? rank.irecv(into, request) : rank.recv(into.data(), kBytes);
  if (by_request && s == NP_OK) s = rank.wait(request);
  return s == NP_OK ? expect_same(into, data, "the message") : failed(rank, "recv", s);
}

TEST_F(LibfabricDatagrams, WhatHasNotBeenSentIsNotLost) {
  const char* const variant = "libfabric:ep=dgram,provider=udp,patience_us=3000";
  for (const bool by_request : {false, true}) {
    EXPECT_EQ("", run_connected(variant, [&](Rank& rank) { return late(rank, by_request); }).both());
  }
}

TEST_F(LibfabricDatagrams, ARankThatDoesNotAnswerIsNamed) {
  const auto body = [](int number, int control) -> std::string {
    Rank rank("libfabric:ep=dgram,provider=udp", number, control);
    rank.context.timeout_ns = 300'000'000;
    if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
    return wait_for_nobody(rank, "no answer from rank 0 at 127.0.0.1 port");
  };
  EXPECT_EQ("", run_ranks(body).both());
}

}  // namespace
