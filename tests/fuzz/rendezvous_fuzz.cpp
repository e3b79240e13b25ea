// SPDX-License-Identifier: Apache-2.0
// Whatever bytes come over the wire, in whatever pieces: neither side of the handshake crashes, loops, allocates
// without bound, or lets anybody in who has not said exactly what one says who knows the token.
//
// With clang and -fsanitize=fuzzer,address,undefined -DNETPIPE_LIBFUZZER a libFuzzer target. Otherwise a program of its
// own, to be built with -fsanitize=address,undefined:    rendezvous_fuzz [inputs, 1000000 unless given] [seed, 1 unless
// given]
//
// The first two bytes of an input choose what is done with the rest: fed raw to one of the sides, or taken as
// instructions that damage a valid conversation, so that a part of the inputs gets past the proof of the token.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "fuzz.h"
#include "link/handshake.h"

namespace {

using netpipe::ClientHandshake;
using netpipe::ServerHandshake;
using netpipe::fuzz::counting;
using netpipe::fuzz::require;
using State = ServerHandshake::State;

constexpr std::string_view token = "correct horse battery staple";
constexpr std::string_view other_token = "correct horse battery stable";
constexpr std::int64_t deadline_ns = 1000;
// Every byte that the two sides allocate while they handle an input is counted; what this driver allocates itself is
// not.
constexpr std::size_t most_allocated = std::size_t{256} * 1024;

// How far the inputs came, to see that they test what they are meant to.
struct Reached {
  std::uint64_t challenged = 0, proved = 0, planned = 0, accepted = 0, client_proved = 0, client_accepted = 0;
} reached;  // NOLINT: a tally of the whole program

// Reads an input; zeros after its end.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  std::uint8_t byte() { return at_ < bytes_.size() ? bytes_[at_++] : std::uint8_t{0}; }
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : (byte() * 256U + byte()) % bound; }
  [[nodiscard]] bool empty() const { return at_ >= bytes_.size(); }
  [[nodiscard]] std::span<const std::byte> rest() const { return std::as_bytes(bytes_.subspan(at_)); }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

netpipe::Nonce nonce_of(std::uint8_t seed) {
  netpipe::Nonce nonce;
  nonce.fill(static_cast<std::byte>(seed));
  return nonce;
}

// Gives a stream to a machine in pieces whose lengths follow from `pieces`.
template <typename Feed>
void in_pieces(std::span<const std::byte> bytes, std::uint8_t pieces, const Feed& feed) {
  const std::size_t step = pieces < 128 ? bytes.size() : 1 + pieces % 61U;
  counting = true;
  while (!bytes.empty()) {
    const std::size_t some = std::min(step, bytes.size());
    feed(bytes.first(some));
    bytes = bytes.subspan(some);
  }
  counting = false;
}

void own(ServerHandshake& server, std::uint8_t mood) {
  if (server.state() == State::complete) {
    ++reached.planned;
    require(server.plan_text().size() <= netpipe::max_plan_bytes, "a plan is longer than a plan may be");
    mood == 8 ? server.refuse(netpipe::usage("not this plan")) : server.accept("node7");
  }
}

void check_output(const ServerHandshake& server, const std::string& output) {
  require(output.size() <= netpipe::frame_header_bytes + 4 + netpipe::max_sentence_bytes,
          "an answer is longer than answers are");
  require(server.state() != State::dropped || output.empty(), "one that was dropped was answered");
}

void raw_server(Input& input, std::uint8_t pieces) {
  ServerHandshake server({token}, nonce_of(1), deadline_ns);
  in_pieces(input.rest(), pieces, [&](std::span<const std::byte> some) {
    server.feed(some, 0);
    own(server, 0);
    check_output(server, server.take_output());
  });
  require(server.state() < State::plan || server.ended(), "somebody was let in without a proof");
  require(server.state() != State::accepted, "somebody was accepted without a proof");
  server.tick(deadline_ns);
  require(server.ended(), "a stranger outlived its deadline");
}

void raw_client(Input& input, std::uint8_t pieces) {
  ClientHandshake client({token}, nonce_of(2), "a plan");
  require(client.take_output().size() == netpipe::frame_header_bytes + 40, "a client does not begin with HELLO");
  in_pieces(input.rest(), pieces, [&](std::span<const std::byte> some) {
    client.feed(some);
    require(client.take_output().find("a plan") == std::string::npos, "a stranger was told the plan");
  });
  require(client.state() != ClientHandshake::State::accepted, "a client took a stranger for its server");
}

// Changes a message, as the input says.
std::string damaged(std::string message, Input& input, const std::string& earlier) {
  const std::size_t at = input.below(message.size() + 1);
  switch (input.byte() % 9) {
    case 0:  // one bit
      if (at < message.size()) message[at] = static_cast<char>(message[at] ^ 1 << input.byte() % 8);
      break;
    case 1:  // some bytes
      for (std::size_t i = at; i < std::min(message.size(), at + 8); ++i) message[i] = static_cast<char>(input.byte());
      break;
    case 2: message.resize(at); break;
    case 3: message.insert(at, std::string(input.below(3000), static_cast<char>(input.byte()))); break;
    case 4:  // the length alone
      for (std::size_t i = 4; i < 8 && i < message.size(); ++i) message[i] = static_cast<char>(input.byte());
      break;
    case 5: message += earlier; break;
    case 6: message = earlier; break;
    case 7:  // another type
      if (message.size() > 3) message[3] = static_cast<char>(input.byte() % 9);
      break;
    default: message += message; break;
  }
  return message;
}

// A whole conversation in which one message, or none, is damaged.
void conversation(Input& input, std::uint8_t pieces) {
  const std::uint8_t mood = input.byte();
  const bool knows = mood % 16 != 9;
  const netpipe::Terms server_terms{token, netpipe::rendezvous_version, mood % 16 == 10 ? NP_ABI + 1 : NP_ABI};
  const netpipe::Terms client_terms{knows ? token : other_token,
                                    netpipe::rendezvous_version + (mood % 16 == 11 ? 1U : 0U), NP_ABI};
  ServerHandshake server(server_terms, nonce_of(input.byte()), deadline_ns);
  const std::string plan(1 + input.below(mood % 64 == 63 ? netpipe::max_plan_bytes : 400), 'p');
  ClientHandshake client(client_terms, nonce_of(input.byte()), plan);
  const std::size_t damaged_message = input.byte() % 8;  // 6 and 7: none
  bool untouched = true;
  bool begun_untouched = true;  // what follows the last message of a side is not the handshake's any more
  std::string earlier;
  std::size_t number = 0;
  const auto pass = [&](std::string message) {
    if (message.empty()) return message;
    std::string passed = number++ == damaged_message ? damaged(message, input, earlier) : message;
    untouched = untouched && passed == message;
    begun_untouched = begun_untouched && passed.starts_with(message);
    earlier = std::move(message);
    return passed;
  };
  for (int turn = 0; turn < 4; ++turn) {
    in_pieces(std::as_bytes(std::span<const char>(pass(client.take_output()))), pieces,
              [&](std::span<const std::byte> some) {
                server.feed(some, 0);
                own(server, mood % 16);
              });
    if (server.state() == State::proof) ++reached.challenged;
    if (server.state() == State::plan) ++reached.proved;
    std::string answer = server.take_output();
    check_output(server, answer);
    answer = pass(std::move(answer));
    in_pieces(std::as_bytes(std::span<const char>(answer)), pieces,
              [&](std::span<const std::byte> some) { client.feed(some); });
    if (client.state() == ClientHandshake::State::verdict) ++reached.client_proved;
  }
  const bool client_in = client.state() == ClientHandshake::State::accepted;
  if (server.state() == State::accepted) {
    ++reached.accepted;
    require(knows, "a wrong token was accepted");
    require(server.plan_text() == plan, "the server has another plan than the client");
  }
  if (client_in) {
    ++reached.client_accepted;
    require(begun_untouched && server.state() == State::accepted,
            "a client was accepted in a conversation that was tampered with");
    require(client.job() == server.job(), "the two sides have different jobs");
    require(client.keys().sending == server.keys().receiving && client.keys().receiving == server.keys().sending &&
                client.keys().sending != client.keys().receiving,
            "the two sides have different keys, or one for both directions");
  }
  if (untouched && knows && mood % 16 < 7) require(client_in, "an honest client was not accepted");
}

}  // namespace

// The name that libFuzzer calls.  NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  netpipe::fuzz::allocated_bytes = 0;
  counting = false;
  Input input({data, size});
  const std::uint8_t kind = input.byte();
  const std::uint8_t pieces = input.byte();
  if (kind % 4 == 0) {
    raw_server(input, pieces);
  } else if (kind % 4 == 1) {
    raw_client(input, pieces);
  } else {
    conversation(input, pieces);
  }
  require(netpipe::fuzz::allocated_bytes <= most_allocated, "one input made it allocate more than its limit");
  return 0;
}

#ifndef NETPIPE_LIBFUZZER
int main(int argc, char** argv) {
  using netpipe::fuzz::shown;
  const auto [inputs, seed] = netpipe::fuzz::Arguments(argc, argv);
  netpipe::fuzz::Random random(seed);
  const std::int64_t begin = netpipe::now_ns();
  std::vector<std::uint8_t> input;
  for (std::uint64_t i = 0; i < inputs; ++i) {
    input.resize(2 + random.below(96));
    for (std::uint8_t& one : input) one = static_cast<std::uint8_t>(random.word() >> 32);
    // Pure noise would end at the third byte of the first header: of the raw inputs, most begin with one that looks
    // right.
    if (input.size() >= 12 && !random.one_in(8) && input[0] % 4 < 2) {
      const std::uint64_t word = random.word();
      const std::array<std::uint8_t, 8> header = {'N',
                                                  'P',
                                                  'R',
                                                  static_cast<std::uint8_t>(word % 9),
                                                  0,
                                                  0,
                                                  static_cast<std::uint8_t>(word >> 8 & (word >> 16 & 1)),
                                                  static_cast<std::uint8_t>(word >> 24 & 0x7f)};
      std::copy(header.begin(), header.end(), input.begin() + 2);
    }
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf(
      "%llu inputs in %.1f s; challenged %llu, proved %llu, planned %llu, accepted %llu; clients: proved %llu, "
      "accepted %llu\n",
      shown(inputs), static_cast<double>(netpipe::now_ns() - begin) * 1e-9, shown(reached.challenged),
      shown(reached.proved), shown(reached.planned), shown(reached.accepted), shown(reached.client_proved),
      shown(reached.client_accepted));
  const bool deep = reached.proved > 0 && reached.planned > 0 && reached.accepted > 0 && reached.client_accepted > 0;
  return netpipe::fuzz::verdict(inputs >= 1000, deep);
}
#endif
