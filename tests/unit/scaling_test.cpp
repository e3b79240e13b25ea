// SPDX-License-Identifier: Apache-2.0
// What netpipe itself sends, keeps and writes for each rank: the figures of docs/reference/scaling.md are these.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/socket.h>

#include <array>
#include <cctype>
#include <cstdint>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "catalog/variant.h"
#include "engine/commands.h"
#include "engine/processes/placement.h"
#include "link/group.h"
#include "link/handshake.h"
#include "patterns/kit/pattern.h"
#include "worker/results/records.h"

namespace netpipe {
namespace {

constexpr int many = 10'000;
constexpr std::size_t longest_line = std::size_t{64} << 20U;  // that readers take (python/netpipe/contents.py)
constexpr std::size_t seal = sealed_header_bytes + seal_bytes;

const volatile int never = 0;

struct Stated {
  std::uint64_t of_rank = 0, of_many = 0;
};

// "4,440,000 ": 4440000
std::uint64_t number_in(const std::string& cell) {
  std::uint64_t number = 0;
  for (const char c : cell) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) number = 10 * number + static_cast<std::uint64_t>(c - '0');
  }
  return number;
}

// The row of the page whose first cell is `name`: the bytes of one rank, and of 10,000.
Stated stated(const std::string& name) {
  std::ifstream page(std::string(NETPIPE_TEST_SOURCES) + "/docs/reference/scaling.md");
  const std::string begin = "| `" + name + "` |";
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with(begin)) continue;
    const auto second = line.find('|', begin.size());
    const auto third = line.find('|', second + 1);
    return {number_in(line.substr(begin.size(), second - begin.size())),
            number_in(line.substr(second + 1, third - second - 1))};
  }
  ADD_FAILURE() << "the page has no row " << name;
  return {};
}

void expect_linear(const std::string& name, std::uint64_t of_rank) {
  const Stated page = stated(name);
  EXPECT_EQ(page.of_rank, of_rank) << name;
  EXPECT_EQ(page.of_many, many * of_rank) << name;
}

ChosenPattern chosen_of(const std::string& text) {
  Result<ChosenPattern> chosen = parse_pattern(text);
  EXPECT_TRUE(chosen) << text;
  return std::move(*chosen);
}

// Both directions of one process that joins.
std::size_t handshake_bytes() {
  const std::string secret(64, 's');
  ServerHandshake server(Terms{secret}, Nonce{}, INT64_MAX);
  ClientHandshake client(Terms{secret}, Nonce{}, "join 0");
  std::size_t bytes = 0;
  const auto pass = [&bytes](const std::string& said, const auto& feed) {
    bytes += said.size();
    feed(std::as_bytes(std::span(said)));
  };
  while (!client.ended()) {
    pass(client.take_output(), [&](auto said) { server.feed(said, 0); });
    if (server.state() == ServerHandshake::State::complete) server.accept("conductor");
    pass(server.take_output(), [&](auto said) { client.feed(said); });
  }
  EXPECT_EQ(client.state(), ClientHandshake::State::accepted);
  return bytes;
}

TEST(Scaling, WhatIsSaidToAndByEachRankIsWhatThePageSays) {
  expect_linear("handshake", handshake_bytes());
  expect_linear("Command", sizeof(Command) + seal);
  expect_linear("Report", sizeof(Report) + seal);
  expect_linear("barrier", 2 * (1 + seal));
  expect_linear("Seal", 2 * sizeof(Seal));
}

TEST(Scaling, TheNotesOfASampleAreWhatThePageSays) {
  for (const char* text : {"collective", "pairs"}) {
    const ChosenPattern chosen = chosen_of(text);
    const Part part = chosen.part(0, many, 8);
    expect_linear(text, 8 * notes_of(*chosen.pattern, part, 1, 1));
  }
  const ChosenPattern all = chosen_of("pairs:pairing=all");
  const std::uint64_t of_rank = 8 * notes_of(*all.pattern, all.part(0, 1024, 8), 1, 1);
  const Stated page = stated("pairs:pairing=all");
  EXPECT_EQ(page.of_rank, of_rank);
  EXPECT_EQ(page.of_many, 1024 * of_rank) << "of as many ranks as it takes";
}

// Every process is told about all: the only thing that grows with the square of the ranks.
TEST(Scaling, TheTableOfAllProcessesIsWhatThePageSays) {
  std::uint64_t bytes = 0;
  for (int rank = 0; rank < many; ++rank) {
    const std::string host = "node" + std::to_string(1000 + rank / 48);
    bytes += sizeof(std::uint32_t) + 1 + process_text(rank, many, host).size();
  }
  const Stated page = stated("process_text");
  EXPECT_EQ(page.of_rank, bytes);
  EXPECT_EQ(page.of_many, many * bytes);
}

TEST(Scaling, TheVariantRecordGrowsByTheSameForEachRankAndFitsIntoALine) {
  Layer layer;
  layer.name = layer.version = "some";
  Variant variant;
  variant.module = &layer;
  const auto length = [&](std::size_t ranks) {
    Opening opening;
    // As long as those of mpi@openmpi are.
    opening.settings.assign(ranks, R"({"rank":1000,"settings":{)" + std::string(1000, 'x') + "}}");
    return variant_record(0, variant, opening).size();
  };
  const std::size_t each = (length(8) - length(4)) / 4;
  EXPECT_EQ(length(8) + (many - 8) * each, length(many));
  EXPECT_LT(length(many), longest_line);
}

TEST(Scaling, APointWithTheMostPairsFitsIntoALine) {
  Layer layer;
  layer.name = layer.version = "some";
  Variant variant;
  variant.module = &layer;
  const ChosenPattern chosen = chosen_of("pairs:pairing=all");
  Opening opening;
  opening.nranks = 1024;
  Block block{0, {1e8F / 3, 1e8F / 3, 1e8F / 3, 1e8F / 3}};
  block.beside.measures.assign(chosen.pattern->measures.size(), std::vector<float>(4, 1e8F / 3));
  block.beside.cells.assign(1024 * 1023 / 2, 1e8F / 3);
  block.beside.slowest.assign(1024 * 1023 / 2, 1000);
  Point point;
  point.size_bytes = 8;
  point.rounds = 1;
  const CurveName name{0, &variant, &chosen};
  const std::string record = point_record(name, {}, opening, point, std::vector<Block>(2, block));
  EXPECT_LT(record.size(), longest_line);
  EXPECT_GT(record.size(), longest_line / 4) << "it is far from full, so more ranks could be taken";
}

// Of 10,000 links with frames of 64 KiB these would be more than a gigabyte.
TEST(Scaling, RankZeroKeepsNoFrameForEachLink) {
  constexpr int size = 65;
  const FrameKeys keys{};
  std::vector<int> ends = {-1};
  std::vector<std::unique_ptr<Group>> others;
  for (int rank = 1; rank < size; ++rank) {
    std::array<int, 2> pair{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
    ends.push_back(pair[0]);
    others.push_back(make_socket_group(rank, size, {pair[1]}, &never, {keys}));
  }
  const auto root = make_socket_group(0, size, ends, &never, std::vector<FrameKeys>(size, keys));
  const std::string frame(max_sealed_bytes, 'x');
  const std::size_t before = mallinfo2().uordblks;
  for (int rank = 1; rank < size; ++rank) {
    Group& other = *others[static_cast<std::size_t>(rank) - 1];
    std::thread there([&] {
      std::string got(frame.size(), ' ');
      EXPECT_TRUE(other.recv(0, got.data(), got.size()));
      EXPECT_TRUE(other.send(0, frame.data(), frame.size()));
    });
    std::string got(frame.size(), ' ');
    EXPECT_TRUE(root->send(rank, frame.data(), frame.size()));
    EXPECT_TRUE(root->recv(rank, got.data(), got.size()));
    there.join();
    others[static_cast<std::size_t>(rank) - 1].reset();  // what is left is rank 0's
  }
  EXPECT_LT(mallinfo2().uordblks, before + size * std::size_t{4096});
}

}  // namespace
}  // namespace netpipe
