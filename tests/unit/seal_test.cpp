// SPDX-License-Identifier: Apache-2.0
// Two honest ends of a conversation after ACCEPT, and somebody between them who knows no key: whatever is done to the
// frames is noticed, with a sentence, before a byte of it is used.
#include "link/seal.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "link/group.h"
#include "link/handshake.h"

namespace netpipe {
namespace {

const volatile int never = 0;

Digest key_of(int seed) {
  Digest key;
  key.fill(static_cast<std::byte>(seed));
  return key;
}

const FrameKeys client_keys = {key_of(1), key_of(2)};
const FrameKeys server_keys = {key_of(2), key_of(1)};

std::array<Descriptor, 2> connected() {
  std::array<int, 2> pair{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  return {Descriptor(pair[0]), Descriptor(pair[1])};
}

// client <-> near, far <-> server; the test holds near and far.
struct Wire {
  Wire() {
    auto left = connected();
    auto right = connected();
    near = std::move(left[1]);
    far = std::move(right[0]);
    client = make_socket_group(0, 2, {-1, left[0].release()}, &never, {{}, client_keys});
    server = make_socket_group(1, 2, {right[1].release()}, &never, {server_keys});
  }
  // What lies in one of the test's ends.
  static std::string taken(const Descriptor& end) {
    std::array<char, 65536> room{};
    const ssize_t got = ::recv(end.get(), room.data(), room.size(), MSG_DONTWAIT);
    return got > 0 ? std::string(room.data(), static_cast<std::size_t>(got)) : std::string();
  }
  static void put(const Descriptor& end, std::string_view bytes) {
    EXPECT_EQ(::send(end.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // The frames of two messages of the client.
  std::vector<std::string> two_frames() {
    std::vector<std::string> frames;
    for (const char* text : {"the first", "the second"}) {
      EXPECT_TRUE(client->send(1, text, std::strlen(text)));
      frames.push_back(taken(near));
    }
    return frames;
  }
  Outcome server_takes(std::size_t bytes) const {
    std::string room(bytes, ' ');
    return server->recv(0, room.data(), room.size());
  }

  Descriptor near, far;
  std::unique_ptr<Group> client, server;
};

void expect_forged(const Outcome& got) {
  ASSERT_FALSE(got);
  EXPECT_EQ(got.failure().exit, Exit::failed);
  EXPECT_NE(got.failure().sentence.find("rank 0 does not carry the tag of this conversation"), std::string::npos)
      << got.failure().sentence;
}

TEST(Seal, CarriesWhatWasSaidInPiecesOfAnySize) {
  Wire wire;
  ASSERT_TRUE(wire.client->send_text(1, "a text"));
  const std::uint64_t number = 42;
  ASSERT_TRUE(wire.client->send(1, &number, sizeof number));
  wire.put(wire.far, wire.taken(wire.near));
  std::string text;
  ASSERT_TRUE(wire.server->recv_text(0, text));
  EXPECT_EQ(text, "a text");
  std::array<std::uint32_t, 2> halves{};
  for (std::uint32_t& half : halves) ASSERT_TRUE(wire.server->recv(0, &half, sizeof half));
  EXPECT_EQ(std::memcmp(halves.data(), &number, sizeof number), 0);
}

TEST(Seal, SplitsWhatIsLongerThanAFrame) {
  auto pair = connected();
  const int enough = 1 << 22;
  for (const Descriptor& end : pair) ::setsockopt(end.get(), SOL_SOCKET, SO_SNDBUF, &enough, sizeof enough);
  const auto client = make_socket_group(0, 2, {-1, pair[0].release()}, &never, {{}, client_keys});
  const auto server = make_socket_group(1, 2, {pair[1].release()}, &never, {server_keys});
  std::string text(max_sealed_bytes + 1000, 'x');
  text.back() = 'y';
  ASSERT_TRUE(client->send(1, text.data(), text.size()));
  std::string got(text.size(), ' ');
  ASSERT_TRUE(server->recv(0, got.data(), got.size()));
  EXPECT_EQ(got, text);
}

TEST(Seal, TagsAreThoseOfTheProtocol) {
  // By hand: HMAC-SHA-256 over the counter, the length and the payload.
  const Digest key = key_of(7);
  Seal seal(key);
  const std::string_view payload = "abc";
  for (std::uint32_t frame = 0; frame < 3; ++frame) {
    const std::string key_text(32, '\x07');
    const Digest whole =
        HmacSha256(key_text).update(big_endian(0) + big_endian(frame) + big_endian(3)).update(payload).finish();
    const auto tag = seal.next(std::as_bytes(std::span(payload)));
    EXPECT_EQ(std::memcmp(tag.data(), whole.data(), tag.size()), 0) << frame;
  }
}

TEST(Seal, NoticesACommandThatSomebodyOnThePathInjected) {
  Wire wire;
  const std::vector<std::string> frames = wire.two_frames();
  wire.put(wire.far, frames[0]);
  EXPECT_TRUE(wire.server_takes(9));
  wire.put(wire.far, big_endian(56) + std::string(56, '\x02') + std::string(seal_bytes, 'x'));
  expect_forged(wire.server_takes(56));
  // The conversation is over: the honest message that follows is not taken either.
  EXPECT_EQ(::send(wire.far.get(), frames[1].data(), frames[1].size(), MSG_NOSIGNAL), -1);
  expect_forged(wire.server_takes(10));
  expect_forged(wire.server->send(0, "x", 1));
  EXPECT_TRUE(wire.server->gone(0));
}

TEST(Seal, NoticesEveryAlteredBit) {
  const std::size_t length = Wire().two_frames()[0].size();
  for (std::size_t at = 0; at < length; ++at) {
    Wire wire;
    std::string frame = wire.two_frames()[0];
    frame[at] = static_cast<char>(frame[at] ^ 1 << at % 8);
    wire.put(wire.far, frame + std::string(max_sealed_bytes / 64, 'x'));  // in case it became longer
    ::shutdown(wire.far.get(), SHUT_WR);
    EXPECT_FALSE(wire.server_takes(9)) << "byte " << at;
  }
}

TEST(Seal, NoticesAReplayedFrame) {
  Wire wire;
  const std::string frame = wire.two_frames()[0];
  wire.put(wire.far, frame + frame);
  EXPECT_TRUE(wire.server_takes(9));
  expect_forged(wire.server_takes(9));
}

TEST(Seal, NoticesReorderedFrames) {
  Wire wire;
  const std::vector<std::string> frames = wire.two_frames();
  wire.put(wire.far, frames[1] + frames[0]);
  expect_forged(wire.server_takes(10));
}

TEST(Seal, NoticesAFrameThatWasLeftOut) {
  Wire wire;
  wire.put(wire.far, wire.two_frames()[1]);
  expect_forged(wire.server_takes(10));
}

TEST(Seal, NoticesAFrameThatIsSentBack) {
  Wire wire;
  wire.put(wire.near, wire.two_frames()[0]);
  std::array<char, 9> room{};
  const Outcome got = wire.client->recv(1, room.data(), room.size());
  ASSERT_FALSE(got);
  EXPECT_NE(got.failure().sentence.find("does not carry the tag"), std::string::npos) << got.failure().sentence;
}

TEST(Seal, NoticesAFrameThatBreaksOff) {
  Wire wire;
  const std::string frame = wire.two_frames()[0];
  wire.put(wire.far, frame.substr(0, frame.size() - 1));
  wire.far.reset();
  const Outcome got = wire.server_takes(9);
  ASSERT_FALSE(got);
  EXPECT_NE(got.failure().sentence.find("rank 0 has gone"), std::string::npos) << got.failure().sentence;
}

TEST(Seal, RefusesALengthThatNoFrameHasBeforeItTakesMemory) {
  for (const std::uint32_t length : {0U, static_cast<std::uint32_t>(max_sealed_bytes + 1), UINT32_MAX}) {
    Wire wire;
    wire.put(wire.far, big_endian(length) + std::string(100, 'x'));
    expect_forged(wire.server_takes(1));
  }
}

TEST(Seal, ShowsTheWatchdogReportsOfTroubleButNoTokens) {
  Wire wire;
  const char token = 0;
  ASSERT_TRUE(wire.client->send(1, &token, 1));
  wire.put(wire.far, wire.taken(wire.near));
  EXPECT_FALSE(wire.server->gone(0)) << "one byte, and the tag behind it, are no word";
  std::array<char, 1> got{};
  ASSERT_TRUE(wire.server->recv(0, got.data(), 1));
  std::array<std::int32_t, 2> report = {0, 7};
  ASSERT_TRUE(wire.client->send(1, report.data(), sizeof report));
  wire.put(wire.far, wire.taken(wire.near));
  EXPECT_FALSE(wire.server->gone(0));
  ASSERT_TRUE(wire.server->recv(0, report.data(), sizeof report));
  report = {4, 7};
  ASSERT_TRUE(wire.client->send(1, report.data(), sizeof report));
  wire.put(wire.far, wire.taken(wire.near));
  EXPECT_TRUE(wire.server->gone(0));
  ASSERT_TRUE(wire.server->recv(0, report.data(), sizeof report)) << "looking took nothing away";
}

TEST(Seal, KeepsTheKeysOfAProcessThatLearnsItsNumberLater) {
  Wire wire;
  ASSERT_TRUE(wire.client->send_text(1, "3 5"));
  ASSERT_TRUE(wire.client->send_text(1, "more"));
  wire.put(wire.far, wire.taken(wire.near));
  std::string text;
  ASSERT_TRUE(wire.server->recv_text(0, text));
  const std::unique_ptr<Group> member = make_member(*wire.server, 3, 5);
  EXPECT_EQ(member->rank(), 3);
  EXPECT_EQ(member->size(), 5);
  ASSERT_TRUE(member->recv_text(0, text));
  EXPECT_EQ(text, "more");
}

}  // namespace
}  // namespace netpipe
