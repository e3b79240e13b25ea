// SPDX-License-Identifier: Apache-2.0
// Two processors by how near they are to each other, on machines made of files.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fake_host.h"
#include "machine/environment.h"

namespace netpipe {
namespace {

using Cpus = std::vector<int>;

Cpus two(Nearness nearness, const FakeHost& host) {
  const Result<Cpus> found = two_cpus(nearness, host.host());
  return found ? *found : Cpus{};
}

std::string refusal(Nearness nearness, const FakeHost& host) {
  const Result<Cpus> found = two_cpus(nearness, host.host());
  if (found) return {};
  EXPECT_EQ(found.failure().exit, Exit::unavailable);
  return found.failure().sentence;
}

// Two sockets of four cores with two threads each, two cores to a cache. Thread t of core c is processor c + 8 * t.
void make_server(FakeHost& host) {
  host.cpus("0-15", "0-15");
  for (int cpu = 0; cpu < 16; ++cpu) {
    const int core = cpu % 8;
    const int pair = core / 2 * 2;
    const std::string cache = std::to_string(pair) + "-" + std::to_string(pair + 1) + "," + std::to_string(pair + 8) +
                              "-" + std::to_string(pair + 9);
    host.cpu(cpu, std::to_string(core) + "," + std::to_string(core + 8), cache, core < 4 ? "0-3,8-11" : "4-7,12-15");
  }
}

// Two cores of a guest, one socket, one cache.
void make_guest(FakeHost& host) { host.cpus("0-1", "0-1").cpu(0, "0", "0-1", "0-1").cpu(1, "1", "0-1", "0-1"); }

TEST(TwoCpus, EachNearnessOnAServer) {
  FakeHost host;
  make_server(host);
  EXPECT_EQ(two(Nearness::smt, host), (Cpus{1, 9}));
  EXPECT_EQ(two(Nearness::cache, host), (Cpus{2, 3}));  // 1 shares its cache with the core of processor 0
  EXPECT_EQ(two(Nearness::socket, host), (Cpus{1, 2}));
  EXPECT_EQ(two(Nearness::sockets, host), (Cpus{1, 4}));
}

TEST(TwoCpus, OneCacheForAllOfASocketIsTheSocket) {
  FakeHost host;
  make_guest(host);
  EXPECT_EQ(two(Nearness::cache, host), (Cpus{0, 1}));
  EXPECT_EQ(two(Nearness::socket, host), (Cpus{0, 1}));
}

TEST(TwoCpus, WhatIsNotThereIsRefusedWithWhatIs) {
  FakeHost host;
  make_guest(host);
  EXPECT_EQ(refusal(Nearness::sockets, host),
            "pin sockets: there are no two sockets here; this process may use 1 socket with 1 last-level cache, 2 "
            "cores and 2 processors");
  EXPECT_NE(refusal(Nearness::smt, host).find("no two processors of one core"), std::string::npos);
  FakeHost apart;
  apart.cpus("0-1", "0-1").cpu(0, "0", "0", "0").cpu(1, "1", "1", "1");
  EXPECT_NE(refusal(Nearness::cache, apart).find("2 sockets with 2 last-level caches"), std::string::npos);
  EXPECT_NE(refusal(Nearness::socket, apart).find("no two cores of one socket"), std::string::npos);
  EXPECT_EQ(two(Nearness::sockets, apart), (Cpus{0, 1}));
}

TEST(TwoCpus, OnlyWhatThisProcessMayUse) {
  FakeHost host;
  make_server(host);
  host.cpus("0-15", "0-1,9");
  EXPECT_EQ(two(Nearness::smt, host), (Cpus{1, 9}));
  EXPECT_EQ(two(Nearness::cache, host), (Cpus{0, 1}));
  EXPECT_NE(refusal(Nearness::sockets, host).find("1 socket with 1 last-level cache, 2 cores and 3 processors"),
            std::string::npos);
  host.cpus("0-15", "3");
  for (const Nearness nearness : {Nearness::smt, Nearness::cache, Nearness::socket, Nearness::sockets}) {
    EXPECT_NE(refusal(nearness, host).find("1 core and 1 processor"), std::string::npos);
  }
}

TEST(TwoCpus, CoresOfOneKindTheFastestFirst) {
  FakeHost host;
  host.cpus("0-7", "0-7").write("/sys/devices/cpu_atom/cpus", "0-3\n");
  for (int cpu = 0; cpu < 8; ++cpu) host.cpu(cpu, std::to_string(cpu), "0-7", "0-7");
  EXPECT_EQ(two(Nearness::cache, host), (Cpus{4, 5}));
  host.cpus("0-7", "1,2,7");  // of the fast kind one is not enough
  EXPECT_EQ(two(Nearness::cache, host), (Cpus{1, 2}));
  host.cpus("0-7", "2,7");
  EXPECT_EQ(two(Nearness::cache, host), (Cpus{2, 7}));
}

TEST(TwoCpus, AHostThatSaysNothing) {
  FakeHost host;
  EXPECT_NE(refusal(Nearness::sockets, host).find("does not say which processors share what"), std::string::npos);
  host.cpus("0-3", "0-3");
  EXPECT_NE(refusal(Nearness::sockets, host).find("does not say which processors share what"), std::string::npos);
}

}  // namespace
}  // namespace netpipe
