// SPDX-License-Identifier: Apache-2.0
#include "link/handshake.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace netpipe {
namespace {

using State = ServerHandshake::State;

constexpr std::string_view token = "correct horse battery staple";
constexpr std::string_view wrong_token = "correct horse battery stable";
constexpr std::string_view plan = "netpipe-plan 1\nvariant tcp\nend\n";
constexpr std::int64_t deadline_ns = 1000;

Nonce nonce_of(int seed) {
  Nonce nonce;
  nonce.fill(static_cast<std::byte>(seed));
  return nonce;
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// Two machines and the wire between them.
struct Conversation {
  explicit Conversation(const Terms& server_terms = {token}, const Terms& client_terms = {token}, int server_nonce = 1,
                        int client_nonce = 2)
      : server(server_terms, nonce_of(server_nonce), deadline_ns),
        client(client_terms, nonce_of(client_nonce), std::string(plan)) {}

  // One message of the client's, given to the server; what the server's owner does is done.
  std::string client_speaks() {
    std::string message = client.take_output();
    to_server(message);
    return message;
  }
  void to_server(std::string_view message) {
    server.feed(bytes_of(message), 0);
    if (server.state() == State::complete) server.accept("node7");
  }
  std::string server_speaks() {
    std::string message = server.take_output();
    client.feed(bytes_of(message));
    return message;
  }
  void run() {
    for (int turn = 0; turn < 4 && !client.ended(); ++turn) {
      client_speaks();
      server_speaks();
    }
  }

  ServerHandshake server;
  ClientHandshake client;
};

// What a client that knows the token says, from first to last, to a server with nonce 1.
std::vector<std::string> honest_messages() {
  Conversation talk;
  std::vector<std::string> said;
  while (!talk.client.ended()) {
    said.push_back(talk.client_speaks());
    talk.server_speaks();
  }
  return said;
}

TEST(Handshake, EndsWithAPlanAndAJobThatBothKnow) {
  Conversation talk;
  talk.run();
  ASSERT_EQ(talk.client.state(), ClientHandshake::State::accepted) << talk.client.failure().sentence;
  ASSERT_EQ(talk.server.state(), State::accepted);
  EXPECT_EQ(talk.server.plan_text(), plan);
  EXPECT_EQ(talk.server.plan_hash(), hex(sha256(plan)));
  EXPECT_EQ(talk.client.job(), talk.server.job());
  EXPECT_EQ(talk.client.job().size(), 32U);
  EXPECT_EQ(talk.client.server_host(), "node7");
}

TEST(Handshake, WorksByteByByte) {
  Conversation talk;
  for (int turn = 0; turn < 3; ++turn) {
    const std::string from_client = talk.client.take_output();
    for (const char& one : from_client) talk.to_server({&one, 1});
    const std::string from_server = talk.server.take_output();
    for (const char& one : from_server) talk.client.feed(bytes_of({&one, 1}));
  }
  EXPECT_EQ(talk.client.state(), ClientHandshake::State::accepted);
  EXPECT_EQ(talk.server.state(), State::accepted);
}

TEST(Handshake, GivesEachConversationAJobOfItsOwn) {
  Conversation one;
  Conversation other({token}, {token}, 3);
  one.run();
  other.run();
  EXPECT_NE(one.client.job(), other.client.job());
}

TEST(Handshake, NeverCarriesTheTokenOrAnEarlyPlan) {
  Conversation talk;
  std::string wire = talk.client_speaks() + talk.server_speaks() + talk.client_speaks() + talk.server_speaks();
  EXPECT_EQ(wire.find(plan), std::string::npos) << "the plan was sent before the server had proved the token";
  wire += talk.client_speaks() + talk.server_speaks();
  EXPECT_NE(wire.find(plan), std::string::npos);
  EXPECT_EQ(wire.find(token), std::string::npos);
}

TEST(Handshake, RefusesAWrongToken) {
  Conversation talk({token}, {wrong_token});
  talk.run();
  EXPECT_EQ(talk.server.state(), State::refused);
  EXPECT_EQ(talk.client.failure().exit, Exit::usage);
  EXPECT_EQ(talk.client.failure().sentence, "the token is not the one that the server was started with");
}

TEST(Handshake, RefusesAReplayedProof) {
  const std::vector<std::string> recorded = honest_messages();
  ServerHandshake server({token}, nonce_of(9), deadline_ns);  // its own nonce is a new one
  server.feed(bytes_of(recorded[0]), 0);
  EXPECT_EQ(server.state(), State::proof);
  server.feed(bytes_of(recorded[1]), 0);
  EXPECT_EQ(server.state(), State::refused);
  EXPECT_EQ(server.reason(), "the token is not the one that the server was started with");
}

TEST(Handshake, TellsAServerThatDoesNotKnowTheTokenNothing) {
  // One that takes any proof, and answers with what it can make up: with its own token's tag, or with the client's tag
  // played back.
  for (const bool play_back : {false, true}) {
    ClientHandshake client({token}, nonce_of(2), std::string(plan));
    client.take_output();
    client.feed(bytes_of(
        make_frame(FrameType::challenge, big_endian(rendezvous_version) + big_endian(NP_ABI) + std::string(32, 'x'))));
    const std::string proof = client.take_output();
    ASSERT_EQ(proof.size(), frame_header_bytes + 64);
    const std::string tag = play_back ? proof.substr(proof.size() - 32) : std::string(32, 'y');
    client.feed(bytes_of(make_frame(FrameType::server_proof, tag)));
    EXPECT_EQ(client.state(), ClientHandshake::State::failed);
    EXPECT_EQ(client.failure().exit, Exit::usage);
    EXPECT_EQ(client.take_output(), "");
  }
}

TEST(Handshake, RefusesAPlanThatIsNotTheOneThatWasProved) {
  Conversation talk;
  talk.client_speaks();
  talk.server_speaks();
  talk.client_speaks();
  talk.server_speaks();
  talk.client.take_output();
  talk.to_server(make_frame(FrameType::plan, "netpipe-plan 1\nvariant shm\nend\n"));
  EXPECT_EQ(talk.server.state(), State::refused);
}

TEST(Handshake, RefusesEveryFlippedBitOfTheClient) {
  const std::vector<std::string> said = honest_messages();
  ASSERT_EQ(said.size(), 3U);
  for (std::size_t message = 0; message < said.size(); ++message) {
    for (std::size_t bit = 0; bit < said[message].size() * 8; ++bit) {
      Conversation talk;
      for (std::size_t i = 0; i < message; ++i) {
        talk.client_speaks();
        talk.server_speaks();
      }
      std::string changed = talk.client.take_output();
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
      talk.to_server(changed);
      talk.server_speaks();
      talk.run();
      EXPECT_NE(talk.server.state(), State::accepted) << "bit " << bit << " of message " << message;
      EXPECT_NE(talk.client.state(), ClientHandshake::State::accepted) << "bit " << bit << " of message " << message;
    }
  }
}

TEST(Handshake, RefusesEveryFlippedBitOfTheServer) {
  for (std::size_t message = 0; message < 3; ++message) {
    std::size_t bits = 8;
    for (std::size_t bit = 0; bit < bits; ++bit) {
      Conversation talk;
      for (std::size_t i = 0; i < message; ++i) {
        talk.client_speaks();
        talk.server_speaks();
      }
      talk.client_speaks();
      std::string changed = talk.server.take_output();
      bits = changed.size() * 8;
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
      talk.client.feed(bytes_of(changed));
      talk.run();
      EXPECT_NE(talk.client.state(), ClientHandshake::State::accepted) << "bit " << bit << " of message " << message;
    }
    EXPECT_GT(bits, 8U);
  }
}

TEST(Handshake, WaitsAfterEveryPrefixAndDropsItAtTheDeadline) {
  const std::vector<std::string> said = honest_messages();
  for (std::size_t message = 0; message < said.size(); ++message) {
    for (std::size_t length = 0; length < said[message].size(); ++length) {
      Conversation talk;
      for (std::size_t i = 0; i < message; ++i) {
        talk.client_speaks();
        talk.server_speaks();
      }
      const State before = talk.server.state();
      talk.to_server(std::string_view(said[message]).substr(0, length));
      EXPECT_EQ(talk.server.state(), before);
      EXPECT_EQ(talk.server.take_output(), "");
      talk.server.tick(deadline_ns - 1);
      EXPECT_EQ(talk.server.state(), before);
      talk.server.tick(deadline_ns);
      EXPECT_EQ(talk.server.state(), State::dropped) << length << " bytes of message " << message;
      EXPECT_NE(talk.server.reason().find("in time"), std::string::npos);
    }
  }
}

TEST(Handshake, TakesNothingAfterTheDeadline) {
  Conversation talk;
  const std::string hello = talk.client.take_output();
  talk.server.feed(bytes_of(hello), deadline_ns);
  EXPECT_EQ(talk.server.state(), State::dropped);
  EXPECT_EQ(talk.server.take_output(), "");
}

TEST(Handshake, DropsALengthThatTheProtocolDoesNotHaveBeforeTheRestCame) {
  const std::vector<std::string> said = honest_messages();
  const std::vector<std::vector<std::uint32_t>> lengths = {
      {0, 7, 257, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff},
      {0, 63, 65, 0xffffffff},
      {0, static_cast<std::uint32_t>(max_plan_bytes) + 1, 0x80000000, 0xffffffff},
  };
  for (std::size_t message = 0; message < said.size(); ++message) {
    for (const std::uint32_t length : lengths[message]) {
      Conversation talk;
      for (std::size_t i = 0; i < message; ++i) {
        talk.client_speaks();
        talk.server_speaks();
      }
      talk.to_server(said[message].substr(0, 4) + big_endian(length));  // the header alone
      EXPECT_EQ(talk.server.state(), State::dropped) << "length " << length << " of message " << message;
      EXPECT_EQ(talk.server.take_output(), "");
    }
  }
}

TEST(Handshake, DropsMessagesOutOfTheirOrder) {
  const std::vector<std::string> said = honest_messages();
  for (std::size_t first = 1; first < said.size(); ++first) {
    Conversation talk;
    talk.to_server(said[first]);
    EXPECT_EQ(talk.server.state(), State::dropped);
  }
  Conversation hasty;  // a second message behind the first, before the answer
  hasty.to_server(said[0] + said[1]);
  EXPECT_EQ(hasty.server.state(), State::dropped);
  Conversation twice;
  twice.to_server(said[0]);
  twice.to_server(said[0]);
  EXPECT_EQ(twice.server.state(), State::dropped);
}

TEST(Handshake, DropsOneThatSpeaksBeforeItIsAnswered) {
  const std::vector<std::string> said = honest_messages();
  ServerHandshake server({token}, nonce_of(1), deadline_ns);
  server.feed(bytes_of(said[0]), 0);
  server.feed(bytes_of(said[1]), 0);
  server.feed(bytes_of(said[2]), 0);
  ASSERT_EQ(server.state(), State::complete);  // and the owner has not accepted it yet
  server.feed(bytes_of(said[2]), 0);
  EXPECT_EQ(server.state(), State::dropped);
}

TEST(Handshake, NamesBothVersionsOfTheProtocol) {
  Conversation talk({token, 1}, {token, 23});
  talk.run();
  EXPECT_EQ(talk.client.failure().exit, Exit::unavailable);
  EXPECT_NE(talk.client.failure().sentence.find("protocol version 1 and the client 23"), std::string::npos)
      << talk.client.failure().sentence;
}

TEST(Handshake, NamesBothAbis) {
  Conversation talk({token, rendezvous_version, 4}, {token, rendezvous_version, 17});
  talk.run();
  EXPECT_EQ(talk.client.failure().exit, Exit::unavailable);
  EXPECT_NE(talk.client.failure().sentence.find("ABI 4 and the client 17"), std::string::npos)
      << talk.client.failure().sentence;
}

TEST(Handshake, NamesTheVersionOfALongerHelloToo) {
  ServerHandshake server({token}, nonce_of(1), deadline_ns);
  server.feed(bytes_of(make_frame(FrameType::hello, big_endian(99) + big_endian(5) + std::string(200, 'z'))), 0);
  EXPECT_EQ(server.state(), State::refused);
  EXPECT_NE(server.reason().find("99"), std::string::npos) << server.reason();
}

TEST(Handshake, ClientSeesTheVersionOfAServerThatDoesNotLook) {
  ClientHandshake client({token}, nonce_of(2), std::string(plan));
  client.feed(bytes_of(make_frame(FrameType::challenge, big_endian(42) + big_endian(NP_ABI) + std::string(32, 'x'))));
  EXPECT_EQ(client.failure().exit, Exit::unavailable);
  EXPECT_NE(client.failure().sentence.find("42"), std::string::npos);
}

TEST(Handshake, CarriesTheOwnersRefusalAsItIs) {
  Conversation talk;
  talk.client_speaks();
  talk.server_speaks();
  talk.client_speaks();
  talk.server_speaks();
  talk.server.feed(bytes_of(talk.client.take_output()), 0);
  ASSERT_EQ(talk.server.state(), State::complete);
  talk.server.refuse(unavailable("the server is busy"));
  talk.server_speaks();
  EXPECT_EQ(talk.client.failure().exit, Exit::unavailable);
  EXPECT_EQ(talk.client.failure().sentence, "the server is busy");
}

TEST(Handshake, CutsALongRefusalAndFillsAnEmptyOne) {
  for (const std::size_t length : {std::size_t{0}, std::size_t{5000}}) {
    Conversation talk;
    talk.client_speaks();
    talk.server_speaks();
    talk.server.feed(bytes_of(talk.client.take_output()), 0);
    talk.server.refuse(failed(std::string(length, 'x')));
    talk.server_speaks();
    ASSERT_EQ(talk.client.state(), ClientHandshake::State::failed);
    EXPECT_EQ(talk.client.failure().exit, Exit::failed);
    EXPECT_FALSE(talk.client.failure().sentence.empty());
    EXPECT_LE(talk.client.failure().sentence.size(), max_sentence_bytes);
  }
}

TEST(Handshake, KeepsASentenceFromAfarOffTheTerminalsControls) {
  ClientHandshake client({token}, nonce_of(2), std::string(plan));
  client.feed(bytes_of(make_frame(FrameType::refuse, big_endian(99) + "\x1b[2Jgone\r\n\xc2\x9b")));
  EXPECT_EQ(client.failure().sentence, "?[2Jgone????");
  EXPECT_EQ(client.failure().exit, Exit::failed) << "an exit code that a refusal cannot have";
}

TEST(Handshake, ReadsNoFartherThanItsOwnLastMessage) {
  Conversation talk;
  talk.client_speaks();
  talk.server_speaks();
  talk.client_speaks();
  talk.server_speaks();
  talk.client_speaks();
  const std::string stream = talk.server.take_output() + "the measurement's own";
  std::size_t at = 0;
  while (talk.client.wants() > 0) {
    const std::size_t some = talk.client.wants();
    ASSERT_LE(at + some, stream.size());
    talk.client.feed(bytes_of(stream.substr(at, some)));
    at += some;
  }
  EXPECT_EQ(talk.client.state(), ClientHandshake::State::accepted);
  EXPECT_EQ(stream.substr(at), "the measurement's own");
}

}  // namespace
}  // namespace netpipe
